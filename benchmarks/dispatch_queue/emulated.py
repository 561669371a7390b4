"""A hundred thousand requests through the real gateway to emulated engines, with everything going wrong at once.

Clients reset their connections, go away and run out of time; engines cut answers off, fail, slow down, refuse, die, join
and drain. Each request that was sent whole ends once, as its client saw it, and at the end nothing is left: not in the
dispatcher's books, in the gateway, in an engine, nor on the event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from random import Random

from benchmarks.dispatch_queue.books import left_in
from benchmarks.dispatch_queue.live import LiveFleet, live_fleet
from benchmarks.dispatch_queue.visitors import Saw, Visitor
from tidegate.config.settings import Client, GatewaySettings
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import DispatchConfig, QueueLimits, Routing
from tidegate.core.types import FlowId, ReplicaId
from tidegate.emulator.server import Server

VISITORS = 120
ENGINES, ENGINES_MAX, SLOTS = 3, 6, 16
TIME_SCALE = 100.0
CHURN_S = 0.5
REFUSED_RESTS_S = 0.1
SETTLES_WITHIN_S = 20.0
FAULTS = (
    "cut:after_tokens=2,every=9",
    "status:code=500,every=11",
    "status:code=503,every=7",
    "abort:after_tokens=2,every=13",
    "silent:every=40,for=300ms",
    "slow:factor=4,for=400ms",
    "hang:for=200ms",
    "refuse:for=200ms",
)
KEYS = {
    "key-a": Client(FlowId("a")),
    "key-b": Client(FlowId("b"), weight=2.0),
    "key-c": Client(FlowId("c"), priority=1),
}


@dataclass(frozen=True, slots=True)
class Emulated:
    """How it went, and what was left, which should be nothing."""

    requests: int
    ended_otherwise: int
    """Requests without exactly one outcome."""
    untrue: int
    """Answers that their client read whole and the gateway counts as something else, or the other way round."""
    left: int
    """In any book of the dispatcher or the gateway, in any engine, and of tasks on the loop."""
    outcomes: dict[str, int]
    seen: dict[str, int]
    attempts: dict[int, int]
    joined: int
    """Engines, over all; all but the last few died or were drained."""


async def emulated(seed: int, requests: int) -> Emulated:
    """So many requests, then the count."""
    config = DispatchConfig(
        routing=Routing.LEAST_SECONDS,
        queue=QueueLimits(max_requests=60, max_wait_busy_s=2.0),
        hedge_ratio=0.05,
        hedge_after_s=0.1,
        resume=True,
    )
    hashed = {sha256(key.encode()).hexdigest(): client for key, client in KEYS.items()}
    settings = GatewaySettings(
        port=0, keys=hashed, request_timeout_s=20.0, first_byte_timeout_s=1.0, stream_idle_timeout_s=1.0
    )
    dice = Random(seed)
    before = asyncio.all_tasks()
    gone: list[Server] = []
    world = live_fleet(config, engines=ENGINES, slots=SLOTS, time_scale=TIME_SCALE, settings=settings)
    async with world as fleet:
        seen: dict[str, Saw] = {}
        churning = asyncio.create_task(_churn(fleet, dice, gone))
        names = iter(range(requests))
        await asyncio.gather(
            *(_visit(fleet.port, Random(dice.random()), names, seen) for _ in range(VISITORS))
        )
        churning.cancel()
        await asyncio.gather(churning, return_exceptions=True)
        await _settled(fleet)
        left = left_in(fleet.dispatcher) + fleet.owner.open_requests + fleet.gateway.open_calls
        left += fleet.gateway.open_connections
        left += sum(_at_work(server) for server in [*fleet.engines.values(), *gone])
        joined = len(gone) + len(fleet.engines)
    left += len(asyncio.all_tasks() - before)
    ended = Counter(record.request_id.partition("/")[0] for record in fleet.records)
    outcome_of = {record.request_id.partition("/")[0]: record.outcome for record in fleet.records}
    return Emulated(
        requests,
        sum(1 for count in ended.values() if count > 1) + len(ended.keys() ^ seen.keys()),
        sum(_is_untrue(saw, outcome_of[name]) for name, saw in seen.items() if name in outcome_of),
        left,
        dict(Counter(record.outcome.value for record in fleet.records).most_common()),
        dict(Counter(saw.value for saw in seen.values()).most_common()),
        dict(sorted(Counter(record.attempts for record in fleet.records).items())),
        joined,
    )


def _is_untrue(saw: Saw, outcome: Outcome) -> bool:
    """Whoever left may have had all of it, and more than it waited for; nobody else may be told two things."""
    if saw is Saw.LEFT:
        return False
    return (saw is Saw.WHOLE) != (outcome is Outcome.COMPLETED)


async def _visit(port: int, dice: Random, names: object, seen: dict[str, Saw]) -> None:
    visitor = Visitor(port, dice, list(KEYS))
    for number in names:  # type: ignore[attr-defined]  # one iterator for all
        if dice.random() < 0.03:
            await visitor.half()
        name = f"c{number}"
        seen[name] = await visitor.ask(name)
        if seen[name] is Saw.REFUSED:
            await asyncio.sleep(dice.expovariate(1 / REFUSED_RESTS_S))
        if dice.random() < 0.05:
            visitor.cut()
    visitor.cut()


async def _churn(fleet: LiveFleet, dice: Random, gone: list[Server]) -> None:
    """Engines join, drain, die and break."""
    draining: tuple[ReplicaId, ...] = ()
    while True:
        await asyncio.sleep(dice.expovariate(1 / CHURN_S))
        gone += [await fleet.kill(replica_id) for replica_id in draining]
        draining = ()
        there, roll = sorted(fleet.engines), dice.random()
        if roll < 0.2 and len(there) < ENGINES_MAX:
            await fleet.join()
        elif roll < 0.3 and len(there) > ENGINES - 1:
            draining = (dice.choice(there),)
        elif roll < 0.4 and len(there) > ENGINES - 1:
            gone.append(await fleet.kill(dice.choice(there)))
            await asyncio.sleep(dice.random() * 0.1)  # until somebody notices
        else:
            await fleet.fault(dice.choice(there), dice.choice(FAULTS))
        fleet.publish(draining=draining)


def _at_work(server: Server) -> int:
    """Answers that an engine has not ended, and sequences in its batch and its queue."""
    service = server._service
    return service.live + service.engine.running + service.engine.waiting


async def _settled(fleet: LiveFleet) -> None:
    """Return once nothing is open any more, or when that takes too long, which is then counted."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + SETTLES_WITHIN_S
    engines = fleet.engines.values()
    while loop.time() < until_s and (
        fleet.owner.open_requests
        or fleet.gateway.open_connections
        or any(_at_work(server) for server in engines)
    ):
        await asyncio.sleep(0.02)
