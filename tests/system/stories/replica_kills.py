"""``kill -9`` of replicas under load: begun streams end with an error event, the rest is served elsewhere."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from system import journals, policies
from system.clients import Ask, Crowd, Ending, How, counted
from system.figures import Figure, never, quantile, some
from system.policies import TINY
from system.product import Product, product

REPLICAS, CLIENTS = 3, 12


async def replica_kills(folder: Path, weights: Path, kills: int, dice: random.Random) -> list[Figure]:
    """Half of the clients stream. The others get their answer whole, so that no byte was sent before it."""
    model = policies.tiny(weights, REPLICAS, REPLICAS, slots=4, restarts=policies.at_once())
    fleet = {"max_starts_per_hour": 10_000, "state_dir": str(folder / "state")}
    async with product(policies.only(TINY, model, fleet=fleet), folder) as p:
        await p.until_serving(REPLICAS)
        crowd = Crowd(lambda: p.url, [Ask(TINY, 600, stream=n % 2 == 0) for n in range(CLIENTS)])
        replaced_s = [await _kill_one(p, crowd, dice) for _ in range(kills)]
        endings = await crowd.stop()
        await p.until_idle()
        doubles = sum(len(processes) > 1 for processes in p.replica_processes().values())
        assert await p.stop() == 0
    return [
        Figure("replicas killed under load", kills),
        *_of_endings(endings),
        some("requests without a byte sent, retried elsewhere and answered", _retried(p.journal_dir)),
        Figure("from kill to a full fleet, median", quantile(replaced_s, 0.5), "s"),
        never("replicas with more than one process", doubles),
        never("orphans", len(p.replica_processes())),
    ]


async def _kill_one(p: Product, crowd: Crowd, dice: random.Random) -> float:
    """At a random moment, a random replica; returns when a whole fleet serves again."""
    answered = len(crowd.endings)
    await p.wait_until(lambda: len(crowd.endings) > answered + dice.randrange(CLIENTS), 60.0)
    running = p.replica_processes()
    victim = dice.choice(sorted(running))
    began_s = time.monotonic()
    os.kill(running[victim][0].pid, signal.SIGKILL)

    async def is_replaced() -> bool:
        serving = {replica["id"] for replica in await p.serving()}
        return victim not in serving and len(serving) == REPLICAS

    await p.wait_until(is_replaced, 60.0)
    return time.monotonic() - began_s


def _of_endings(endings: list[Ending]) -> list[Figure]:
    counts = counted(endings)
    return [
        Figure("requests answered", counts[How.COMPLETE]),
        some("streams that ended with an error event", counts[How.ERROR_EVENT]),
        never("hung clients", counts[How.HUNG]),
        never("answers cut without a word", counts[How.CUT] + counts[How.REFUSED]),
        never("false successes", counts[How.FALSE_SUCCESS]),
        never("requests refused although a replica served", counts[How.STATUS]),
    ]


def _retried(journal_dir: Path) -> int:
    return sum(
        record["outcome"] == "completed" and record["attempts"] > 1
        for turn in journals.turns(journal_dir)
        for record in turn.orders("Record")
    )
