"""Clients that leave, at random moments of every phase: the engine is told, and everything is given back."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from system import journals, policies
from system.clients import Ask, Client
from system.figures import Figure, never, quantile, some
from system.product import Product, product
from system.watched_engine import Mark, notes

STARTING, QUEUED, SILENT, STREAMING = "starting", "queued", "before first byte", "streaming"
PHASES = (STARTING, QUEUED, SILENT, STREAMING)
CANCELLED_WITHIN_S = 1.0
AT_ONCE = 24
SLOTS = 16
LONG = 3000


@dataclass(frozen=True, slots=True)
class Plan:
    """How one client leaves: which model it asks, what it waits for, how long it stays after that."""

    model: str
    reads: int
    stays_s: float
    with_reset: bool


async def disconnects(folder: Path, count: int, dice: random.Random) -> list[Figure]:
    """A quarter in each phase. Which phase it really was is read from the journal."""
    async with product(_policy(folder), folder) as p:
        await asyncio.gather(*(p.until_serving(1, model) for model in (QUEUED, "silent", STREAMING)))
        left_s = await _leave_all(p, [_plan(PHASES[n % 4], dice) for n in range(count)])
        await p.until_idle()
        await p.wait_until(lambda: _nothing_runs(p), 30.0)
        counters = await _counters(p)
        assert await p.stop() == 0
    phases, otherwise = _phases(p.journal_dir), _ended_otherwise(p.journal_dir)
    late_s = _until_cancelled_s(folder / "notes", left_s)
    return [
        Figure("clients that left", count),
        *(some(f"of which {phase}", phases[phase]) for phase in PHASES),
        never("requests that ended in another way", otherwise),
        some("requests that an engine worked on", len(late_s)),
        Figure("until the engine was free, p99", quantile(late_s, 0.99), "s", at_most=CANCELLED_WITHIN_S),
        Figure("until the engine was free, slowest", max(late_s), "s"),
        *(never(f"at the end: {name}", value) for name, value in counters.items()),
        never("requests that engines still hold", _still_held(folder / "notes")),
        never("processes left behind", len(p.replica_processes())),
    ]


def _policy(folder: Path) -> dict[str, Any]:
    """One model for each phase: it is always in it."""

    def engine(least: int, *options: str, slots: int = SLOTS) -> dict[str, Any]:
        return policies.emulated(folder / "notes", least, 1, *options, slots=slots)

    return {
        "models": {
            STARTING: engine(0, "--cold-start", "2h"),
            QUEUED: engine(1, "--time-scale", "0.01", slots=1),
            "silent": engine(1, "--time-scale", "0.01", slots=AT_ONCE),
            STREAMING: engine(1, "--time-scale", "0.5", slots=AT_ONCE),
        }
    }


def _plan(phase: str, dice: random.Random) -> Plan:
    reads = dice.randint(1, 4) if phase == STREAMING else 0
    longest_s = {STARTING: 0.3, QUEUED: 0.3, SILENT: 0.3, STREAMING: 0.1}[phase]
    model = "silent" if phase == SILENT else phase
    return Plan(model, reads, dice.uniform(0.0, longest_s), dice.random() < 0.5)


async def _leave_all(p: Product, plans: list[Plan]) -> dict[str, float]:
    """Wall time at which each client left, by its request id."""
    left_s: dict[str, float] = {}
    room = asyncio.Semaphore(AT_ONCE)

    async def come_and_go(number: int, plan: Plan) -> None:
        async with room:
            ask = Ask(
                plan.model, LONG, stream=plan.reads > 0 or number % 2 == 0, request_id=f"leaver-{number}"
            )
            client = Client(p.url, ask)
            await client.send()
            for _ in range(plan.reads):
                assert await client.read(), "the answer ended before its client left"
            await asyncio.sleep(plan.stays_s)  # The moment of leaving is the dice's.
            left_s[f"leaver-{number}"] = time.time()
            client.leave(with_reset=plan.with_reset)

    await asyncio.gather(*(come_and_go(number, plan) for number, plan in enumerate(plans)))
    return left_s


async def _nothing_runs(p: Product) -> bool:
    return not any((await _counters(p)).values())


async def _counters(p: Product) -> dict[str, float]:
    """Everything that must be zero when nobody is there."""
    models = (await p.fleet())["models"]
    replicas = [replica for model in models for replica in model["replicas"]]
    states = [await _state(replica["address"]) for replica in replicas if replica["state"] == "serving"]
    return {
        "open requests of the gateway": await p.metric("tidegate_open_requests"),
        "connections of clients": await p.metric("tidegate_open_connections"),
        "connections to engines": await p.metric("tidegate_upstream_connections"),
        "queued": sum(model["queue"]["requests"] for model in models),
        "in flight on replicas": sum(replica["in_flight"] or 0 for replica in replicas),
        "running or waiting in engines": sum(state["running"] + state["waiting"] for state in states),
    }


async def _state(address: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as http, http.get(f"http://{address}/emulator/state") as answer:
        return await answer.json()


def _phases(journal_dir: Path) -> Counter[str]:
    """In which phase each client left, by the turns of its request."""
    model_of: dict[str, str] = {}
    sent: set[str] = set()
    begun: set[str] = set()
    found: Counter[str] = Counter()
    for turn in journals.turns(journal_dir):
        request_id = turn.fact.get("request_id", "")
        if turn.event == "RequestArrived":
            model_of[request_id] = turn.fact["model"]
        elif turn.event == "FirstByte":
            begun.add(request_id)
        elif turn.event == "ClientGone":
            waited = STARTING if model_of[request_id] == STARTING else QUEUED
            found[STREAMING if request_id in begun else SILENT if request_id in sent else waited] += 1
        sent.update(order["request_id"] for order in turn.orders("Send"))
    return found


def _ended_otherwise(journal_dir: Path) -> int:
    """Of those that the gateway heard of. A connection that was reset at once may hide its request from it."""
    return sum(
        record["outcome"] != "client_gone"
        for turn in journals.turns(journal_dir)
        for record in turn.orders("Record")
    )


def _until_cancelled_s(folder: Path, left_s: dict[str, float]) -> list[float]:
    """From each client's leaving to the moment when its engine had done with it."""
    ends = {
        note.request_id: note.at_s
        for lines in notes(folder).values()
        for note in lines
        if note.mark is Mark.ENDED
    }
    return [max(0.0, at_s - left_s[name]) for name, at_s in ends.items() if name in left_s]


def _still_held(folder: Path) -> int:
    return sum(lines[-1].open for lines in notes(folder).values() if lines)
