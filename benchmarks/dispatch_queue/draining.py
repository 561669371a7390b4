"""A replica leaves a fleet that lives from its caches: what of its share has to be computed again, and who waits for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from benchmarks.dispatch_queue.world import Ask, World
from tidegate.core.settings import DispatchConfig, Routing
from tidegate.core.windows import percentile

REPLICAS, SLOTS = 4, 64
BEGINNINGS, SHARED, OWN, OUTPUT = 40, 6_000, 200, 60
PER_S = 60.0
LEAVES_S, WINDOW_S = 60.0, 10.0


@dataclass(frozen=True, slots=True)
class Drained:
    """The ten seconds after a replica began to drain, beside the ten before."""

    alone: int
    """Beginnings that only the leaving replica had used of late."""
    computed: int
    """How often these were computed by others."""
    ttft_p99_ratio: float
    steady_p99_ratio: float
    """The same, without anybody leaving, on as many replicas as are left."""
    sent_there: int
    """Requests that it was given after it began to drain."""


def drained(seed: int) -> Drained:
    """One of four begins to drain after a minute."""
    world, asks = _world(seed, REPLICAS)
    last = f"m-{REPLICAS}"
    world.kernel.at(LEAVES_S, partial(world.publish, (last,)))
    world.run(LEAVES_S + 2 * WINDOW_S)
    before = [ask for ask in asks if LEAVES_S - 3 * WINDOW_S < ask.first_s < LEAVES_S]
    held: dict[int, set[str]] = {}
    names = {request_id: replica_id for _, replica_id, request_id in world.sent}
    for ask in before:
        held.setdefault(ask.begins, set()).add(names[ask.sent_as])
    alone = {begins for begins, places in held.items() if places == {last}}
    after = [ask for ask in asks if LEAVES_S < ask.first_s < LEAVES_S + WINDOW_S]
    again = Counter(ask.begins for ask in after if ask.begins in alone and ask.cached < SHARED // 2)
    earlier = [ask for ask in before if ask.first_s > LEAVES_S - WINDOW_S]
    fewer, others = _world(seed, REPLICAS - 1)
    fewer.run(LEAVES_S + 2 * WINDOW_S)
    steady = [ask for ask in others if LEAVES_S < ask.first_s < LEAVES_S + WINDOW_S]
    sent_there = [at_s for at_s, replica_id, _ in world.sent if replica_id == last and at_s > LEAVES_S]
    return Drained(
        len(alone),
        sum(again.values()),
        _p99(after) / _p99(earlier),
        _p99(steady) / _p99(earlier),
        len(sent_there),
    )


def _world(seed: int, replicas: int) -> tuple[World, list[Ask]]:
    world = World(SLOTS, seed, DispatchConfig(routing=Routing.LEAST_SECONDS))
    for number in range(replicas):
        world.engine(f"m-{number + 1}")
    world.publish()
    asks: list[Ask] = []

    def arrive() -> None:
        dice = world.dice
        begins = 1 + min(BEGINNINGS - 1, int(dice.expovariate(4.0 / BEGINNINGS)))
        ask = Ask(len(asks), SHARED + OWN, OUTPUT, begins=begins, shared=SHARED)
        ask.sent_as = world.ask(ask)
        asks.append(ask)
        world.kernel.at(world.kernel.now_s + dice.expovariate(PER_S), arrive)

    world.kernel.at(0.0, arrive)
    return world, asks


def _p99(asks: list[Ask]) -> float:
    return percentile(sorted(ask.ttft_s for ask in asks), 0.99) or 0.0
