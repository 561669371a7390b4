"""``kill -9`` of Tidegate itself, at any moment: the next start finds what runs, adopts it or ends it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from system import policies
from system.clients import Ask, Crowd, How, ask, counted
from system.figures import Figure, never, quantile, some
from system.policies import TINY
from system.processes import groups
from system.product import Product, product

REPLICAS, CLIENTS = 2, 4
READY_AGAIN_S = 3.0
LONGEST_LIFE_S = 1.5
LONGEST_START_S = 0.5
"""By then new replicas are up."""


@dataclass(slots=True)
class Found:
    """What the starts after a kill found."""

    ready_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    answered_s: list[float] = field(default_factory=list)
    adopted: int = 0
    killed_while_starting: int = 0
    orphans: int = 0
    doubles: int = 0


async def restarts(folder: Path, weights: Path, kills: int, dice: random.Random) -> list[Figure]:
    """Before every other kill the replicas are killed too, so that Tidegate dies while it starts new ones."""
    model = policies.tiny(weights, REPLICAS, REPLICAS, slots=4, restarts=policies.at_once())
    fleet = {"max_starts_per_hour": 10_000, "state_dir": str(folder / "state")}
    found = Found()
    async with product(policies.only(TINY, model, fleet=fleet), folder) as p:
        await p.until_serving(REPLICAS)
        crowd = Crowd(lambda: p.url, [Ask(TINY, 200)] * CLIENTS)
        for number in range(kills):
            await _kill_and_look(p, found, dice, replicas_too=number % 2 == 1)
        endings = counted(await crowd.stop())
        await p.until_idle()
        assert await p.stop() == 0
    return [
        Figure("kills of Tidegate", kills),
        Figure("of which while replicas were starting", found.killed_while_starting),
        Figure("ready again, slowest", max(found.ready_s), "s", at_most=READY_AGAIN_S),
        Figure("ready again, median", quantile(found.ready_s, 0.5), "s"),
        Figure("processor time until ready, slowest", max(found.cpu_s), "s"),
        Figure("first answer after the start, slowest", max(found.answered_s), "s", at_most=READY_AGAIN_S),
        some("requests answered in between", endings[How.COMPLETE]),
        never("hung clients", endings[How.HUNG]),
        never("false successes", endings[How.FALSE_SUCCESS]),
        some("replicas adopted", found.adopted),
        never("orphans after the next start", found.orphans),
        never("doubles: replicas with two process groups", found.doubles),
        never("processes left behind", len(p.replica_processes())),
    ]


async def _kill_and_look(p: Product, found: Found, dice: random.Random, *, replicas_too: bool) -> None:
    before = p.replica_processes()
    if replicas_too:
        for processes in before.values():
            os.kill(processes[0].pid, signal.SIGKILL)
    longest_s = LONGEST_START_S if replicas_too else LONGEST_LIFE_S
    await asyncio.sleep(dice.uniform(0.0, longest_s))  # The moment of the kill is the dice's.
    found.killed_while_starting += len(await _not_serving(p))
    p.kill()
    before = p.replica_processes()
    began_s = time.monotonic()
    found.ready_s.append(await p.start())
    found.cpu_s.append(p.cpu_s())
    answer = await ask(p.url, Ask(TINY))
    assert answer.how is How.COMPLETE, answer
    found.answered_s.append(time.monotonic() - began_s)
    await p.until_serving(REPLICAS)
    known = {replica["id"] for replica in await p.serving()}
    after = p.replica_processes()
    found.orphans += len(after.keys() - known)
    found.doubles += sum(len(groups(processes)) > 1 for processes in after.values())
    found.adopted += sum(after[name] == processes for name, processes in before.items() if name in after)


async def _not_serving(p: Product) -> list[str]:
    """Replicas on their way up."""
    replicas = (await p.model(TINY))["replicas"]
    return [replica["id"] for replica in replicas if replica["state"] in ("requested", "starting", "warm")]
