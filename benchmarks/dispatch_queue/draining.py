"""A replica leaves a fleet that lives from its caches: what of its share has to be computed again, and who waits for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from math import nan

from benchmarks.dispatch_queue.world import Ask, World
from tidegate.core.settings import HANDOVER_S, DispatchConfig, Routing
from tidegate.core.windows import percentile

REPLICAS, SLOTS = 4, 64
BEGINNINGS, SHARED, OWN, OUTPUT = 40, 6_000, 200, 60
PER_S = 60.0
LEAVES_S, WINDOW_S = 60.0, 10.0


@dataclass(frozen=True, slots=True)
class Drained:
    """The ten seconds after a replica began to drain, beside the ten before anybody knew of it."""

    alone: int
    """Beginnings that only the leaving replica had used of late."""
    computed: int
    """How often these were computed by others, from its announcement on."""
    ttft_p99_ratio: float
    announced_p99_ratio: float
    """From its announcement until it drains; NaN where it is not announced."""
    slow: int
    """Requests that took three times that p99 or more, in the twenty seconds from the first table that said anything."""
    steady_p99_ratio: float
    """Without anybody leaving, on as many replicas as are left."""
    sent_there: int
    """Requests that it was given after it began to drain."""


def drained(seed: int, handover_s: float = HANDOVER_S) -> Drained:
    """One of four is announced as leaving after a minute, and drains so much later."""
    world, asks = _world(seed, REPLICAS)
    last = f"m-{REPLICAS}"
    drains_s = LEAVES_S + handover_s
    if handover_s:
        world.kernel.at(LEAVES_S, partial(world.publish, (), (last,)))
    world.kernel.at(drains_s, partial(world.publish, (last,)))
    world.run(LEAVES_S + 3 * WINDOW_S)
    before = _came(asks, LEAVES_S - 3 * WINDOW_S, LEAVES_S)
    held: dict[int, set[str]] = {}
    names = {request_id: replica_id for _, replica_id, request_id in world.sent}
    for ask in before:
        held.setdefault(ask.begins, set()).add(names[ask.sent_as])
    alone = {begins for begins, places in held.items() if places == {last}}
    since = _came(asks, LEAVES_S, drains_s + WINDOW_S)
    computed = Counter(
        ask.begins
        for ask in since
        if ask.begins in alone and names[ask.sent_as] != last and ask.cached < SHARED // 2
    )
    earlier = _p99(_came(asks, LEAVES_S - WINDOW_S, LEAVES_S))
    fewer, others = _world(seed, REPLICAS - 1)
    fewer.run(LEAVES_S + 3 * WINDOW_S)
    sent_there = [at_s for at_s, replica_id, _ in world.sent if replica_id == last and at_s > drains_s]
    return Drained(
        len(alone),
        sum(computed.values()),
        _p99(_came(asks, drains_s, drains_s + WINDOW_S)) / earlier,
        _p99(_came(asks, LEAVES_S, drains_s)) / earlier if handover_s else nan,
        sum(ask.ttft_s >= 3.0 * earlier for ask in _came(asks, LEAVES_S, LEAVES_S + 2 * WINDOW_S)),
        _p99(_came(others, drains_s, drains_s + WINDOW_S)) / earlier,
        len(sent_there),
    )


def _came(asks: list[Ask], from_s: float, to_s: float) -> list[Ask]:
    return [ask for ask in asks if from_s < ask.first_s < to_s]


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
