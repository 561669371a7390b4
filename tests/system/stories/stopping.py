"""SIGTERM under load: what can end in time ends, the rest gets its error event at the deadline."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from system import policies
from system.clients import Ask, How, all_of, ask, counted
from system.figures import Figure, exactly, never, some
from system.product import Product, product

MODEL = "slow"
SLOTS = 8
STOP_DEADLINE_S = 2.0
ENGINES_STOP_S = 3.0
"""For the gateway to tell everybody and for the engines to end: a second of grace each, and then -9."""
SPEED = "0.2"
"""A token every 32 ms."""
SHORT, LONG = 40, 4000


async def stopping(folder: Path, streams: int) -> list[Figure]:
    """A third is short enough to end in time, a third is long, a third still waits for a slot."""
    third = max(2, streams // 3)
    replicas = -(-2 * third // SLOTS)
    model = policies.emulated(folder / "notes", replicas, replicas, "--time-scale", SPEED, slots=SLOTS)
    gateway = {"port": 0, "admin_port": 0, "stop_deadline": f"{STOP_DEADLINE_S:g}s"}
    async with product(policies.only(MODEL, model, gateway=gateway), folder) as p:
        await p.until_serving(replicas)
        sizes = [LONG] * (replicas * SLOTS - third) + [SHORT] * third
        running = [asyncio.create_task(ask(p.url, Ask(MODEL, tokens))) for tokens in sizes]
        await p.wait_until(lambda: _seen_by_engines(folder) == len(sizes), 30.0)
        waiting = [asyncio.create_task(ask(p.url, Ask(MODEL, LONG, stream=n % 2 == 0))) for n in range(third)]
        await _until_open(p, len(sizes) + third)
        began_s = time.monotonic()
        p.terminate()
        endings = await all_of([*running, *waiting])
        await p.wait_until(lambda: not p.is_running, 60.0)
        took_s = time.monotonic() - began_s
    counts, late = counted(endings), await ask(p.url, Ask(MODEL, SHORT), within_s=10.0)
    return [
        Figure("requests open at SIGTERM", len(endings)),
        some("ended properly", counts[How.COMPLETE]),
        some("streams ended by an error event at the deadline", counts[How.ERROR_EVENT]),
        some("told 503 before a byte was sent", counts[How.STATUS]),
        never("anything else: cut, hung, false success", _others(counts)),
        exactly("new connections refused after the end", late.how is How.REFUSED, 1),
        exactly("exit code", p.exit_code if p.exit_code is not None else -1, 0),
        Figure("from SIGTERM to exit", took_s, "s", at_most=STOP_DEADLINE_S + ENGINES_STOP_S),
        never("orphans", len(p.replica_processes())),
    ]


def _others(counts: dict[How, int]) -> int:
    fine = (How.COMPLETE, How.ERROR_EVENT, How.STATUS)
    return sum(count for how, count in counts.items() if how not in fine)


def _seen_by_engines(folder: Path) -> int:
    """How many requests have reached an engine."""
    return sum(path.read_text().count(" + ") for path in (folder / "notes").glob("*.notes"))


async def _until_open(p: Product, count: int) -> None:
    async def so_many_are_open() -> bool:
        return await p.metric("tidegate_open_requests") == count

    await p.wait_until(so_many_are_open, 30.0)
