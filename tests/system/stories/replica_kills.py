"""Replicas that die under load: begun streams end with an error event, the rest is served elsewhere."""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import astuple, replace
from pathlib import Path

from system import journals, policies
from system.clients import Ask, Crowd, Ending, How, counted
from system.figures import Figure, never, quantile, some
from system.policies import TINY
from system.processes import groups
from system.product import Product, product

REPLICAS, SLOTS = 3, 4
CLIENTS = 16
"""Four more than there are slots: somebody always waits in the queue."""
RETRIES = 6
"""With a kill in every second, the two of the default are soon used up by one unlucky request."""


async def replica_kills(folder: Path, weights: Path, kills: int, dice: random.Random) -> list[Figure]:
    """``kill -9`` of a real engine."""
    model = policies.tiny(weights, REPLICAS, REPLICAS, **_keys())
    endings, figures = await _under_fire(folder, model, Ask(TINY, 600), kills, signal.SIGKILL, dice)
    return [
        *figures,
        some("streams that had begun on a killed replica", counted(endings)[How.ERROR_EVENT]),
        some("requests without a byte sent, retried elsewhere and answered", _retried(folder)),
    ]


async def engine_manners(folder: Path, weights: Path, kills: int, dice: random.Random) -> list[Figure]:
    """SIGTERM from somebody else: llama.cpp goes silent and cuts, vLLM aborts and calls it done."""
    figures = []
    for name, model, ask in _mannered(folder, weights):
        _, found = await _under_fire(folder / name, model, ask, kills, signal.SIGTERM, dice)
        figures += [Figure(f"{name}: {each.what}", *astuple(each)[1:]) for each in found]
    return figures


def _keys() -> policies.Policy:
    return {"slots": SLOTS, "max_retries": RETRIES, "max_deaths": RETRIES + 1, "restarts": policies.at_once()}


def _mannered(folder: Path, weights: Path) -> list[tuple[str, policies.Policy, Ask]]:
    real = policies.tiny(weights, REPLICAS, REPLICAS, **_keys())

    def emulated(manner: str) -> policies.Policy:
        options = ("--time-scale", "2", "--on-sigterm", manner)
        return policies.emulated(folder / "notes", REPLICAS, REPLICAS, *options, **_keys())

    return [
        ("llama.cpp", real, Ask(TINY, 600)),
        ("vLLM that aborts", emulated("abort"), Ask(TINY, 100)),
        ("engine that cuts", emulated("cut"), Ask(TINY, 100)),
    ]


async def _under_fire(
    folder: Path,
    model: policies.Policy,
    ask: Ask,
    kills: int,
    number: signal.Signals,
    dice: random.Random,
) -> tuple[list[Ending], list[Figure]]:
    """Half of the clients stream. The others get their answer whole, so that no byte was sent before it."""
    fleet = {"max_starts_per_hour": 10_000, "state_dir": str(folder / "state")}
    async with product(policies.only(TINY, model, fleet=fleet), folder) as p:
        await p.until_serving(REPLICAS)
        crowd = Crowd(lambda: p.url, [replace(ask, stream=n % 2 == 0) for n in range(CLIENTS)])
        replaced_s = [await _end_one(p, crowd, number, dice) for _ in range(kills)]
        endings = await crowd.stop()
        await p.until_idle()
        doubles = sum(len(groups(each)) > 1 for each in p.replica_processes().values())
        assert await p.stop() == 0
    figures = [
        Figure("replicas ended under load", kills),
        *_of_endings(endings),
        Figure("until a full fleet served again, median", quantile(replaced_s, 0.5), "s"),
        never("doubles: replicas with two process groups", doubles),
        never("orphans", len(p.replica_processes())),
    ]
    return endings, figures


async def _end_one(p: Product, crowd: Crowd, number: signal.Signals, dice: random.Random) -> float:
    """A random replica at a random moment; returns when a whole fleet serves again."""
    answered = len(crowd.endings)
    await p.wait_until(lambda: len(crowd.endings) > answered + dice.randrange(CLIENTS), 60.0)
    running = p.replica_processes()
    victim = dice.choice(sorted(running))
    began_s = time.monotonic()
    os.kill(running[victim][0].pid, number)

    async def is_replaced() -> bool:
        serving = {replica["id"] for replica in await p.serving()}
        return victim not in serving and len(serving) == REPLICAS

    await p.wait_until(is_replaced, 60.0)
    return time.monotonic() - began_s


def _of_endings(endings: list[Ending]) -> list[Figure]:
    counts = counted(endings)
    return [
        Figure("requests answered", counts[How.COMPLETE]),
        Figure("streams that ended with an error event", counts[How.ERROR_EVENT]),
        never("hung clients", counts[How.HUNG]),
        never("answers cut without a word", counts[How.CUT] + counts[How.REFUSED]),
        never("false successes", counts[How.FALSE_SUCCESS]),
        never("requests refused although a replica served", counts[How.STATUS]),
    ]


def _retried(folder: Path) -> int:
    return sum(
        record["outcome"] == "completed" and record["attempts"] > 1
        for turn in journals.turns(folder / "state" / "journal")
        for record in turn.orders("Record")
    )
