"""A hundred thousand requests in a world where everything goes wrong: each ends once, and nothing is left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from benchmarks.dispatch_queue.books import left_in
from benchmarks.dispatch_queue.world import Ask, World
from tidegate.core.settings import DispatchConfig, QueueLimits, Routing
from tidegate.core.types import RequestId

SLOTS = 32
PER_S = 120.0


@dataclass(frozen=True, slots=True)
class Conserved:
    """What was left at the end, which should be nothing."""

    requests: int
    records: int
    ended_twice: int
    left: int
    """Open requests, queued amounts, slots taken, promises of the router: all of them added up."""
    outcomes: dict[str, int]


def conserved(seed: int, requests: int) -> Conserved:
    """Cuts, departures, deadlines, joins, leaves, deaths and second attempts, at random."""
    config = DispatchConfig(
        routing=Routing.LEAST_SECONDS,
        queue=QueueLimits(max_requests=400),
        hedge_ratio=0.05,
        hedge_after_s=0.3,
        resume=True,
    )
    world = World(SLOTS, seed, config)
    dice, kernel = world.dice, world.kernel
    names = iter(range(1, 10_000_000))
    asks: list[RequestId] = []

    def replica() -> None:
        world.engine(f"m-{next(names)}", dice.choice((1.0, 1.0, 3.0)))

    def churn() -> None:
        draining: tuple[str, ...] = ()
        roll = dice.random()
        if roll < 0.4 and len(world.engines) < 8:
            replica()
        elif roll < 0.6 and len(world.engines) > 2:
            draining = (dice.choice(sorted(world.engines)),)
        elif roll < 0.9 and len(world.engines) > 1:
            world.kill(dice.choice(sorted(world.engines)))
        world.publish(draining)
        if len(asks) < requests:
            kernel.at(kernel.now_s + dice.expovariate(1.0), churn)

    def arrive() -> None:
        prompt, output = 1 + int(dice.expovariate(1 / 400)), 1 + int(dice.expovariate(1 / 60))
        timeout_s = dice.choice((0.5, 5.0, 30.0, 600.0))
        ask = Ask(len(asks), prompt, output, dice.choice("abc"), dice.choice((0, 0, 1)), timeout_s)
        request_id = world.ask(ask)
        asks.append(request_id)
        roll = dice.random()
        if roll < 0.1:
            kernel.at(kernel.now_s + dice.expovariate(1.0), lambda: world.leave(request_id))
        elif roll < 0.25:
            kernel.at(kernel.now_s + dice.expovariate(1.0), lambda: world.cut(request_id))
        if len(asks) < requests:
            kernel.at(kernel.now_s + dice.expovariate(PER_S), arrive)

    for _ in range(3):
        replica()
    world.publish()
    kernel.at(0.0, arrive)
    kernel.at(1.0, churn)
    world.run(requests / PER_S + 700.0)
    ended = Counter(record.request_id for _, record in world.records)
    return Conserved(
        requests,
        len(world.records),
        sum(1 for count in ended.values() if count > 1) + len(set(asks) ^ set(ended)),
        _left(world),
        dict(Counter(record.outcome.value for _, record in world.records)),
    )


def _left(world: World) -> int:
    return (
        left_in(world.dispatcher)
        + len(world.asks)
        + sum(len(one.sequences) for one in world.engines.values())
    )
