"""More than fits: what is still answered, and whether those who come back as told are let in."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial

from benchmarks.dispatch_queue.world import Ask, World
from tidegate.core.effects import Reject
from tidegate.core.outcomes import Outcome

REPLICAS, SLOTS = 2, 64
MEAN_PROMPT, MEAN_OUTPUT = 500, 200
REFUSED = (Outcome.REJECTED_FULL, Outcome.REJECTED_LATE, Outcome.REJECTED_NOBODY)
SETTLED_S = 15.0


def fleet(seed: int) -> World:
    """Two replicas that serve from the beginning."""
    world = World(SLOTS, seed)
    for number in range(REPLICAS):
        world.engine(f"m-{number + 1}")
    world.publish()
    return world


def request(world: World, number: int, timeout_s: float) -> Ask:
    """Lengths with the same mean and spread throughout."""
    prompt = 1 + int(world.dice.expovariate(1 / MEAN_PROMPT))
    output = 1 + int(world.dice.expovariate(1 / MEAN_OUTPUT))
    return Ask(number, prompt, output, timeout_s=timeout_s)


def capacity_per_s(seed: int) -> float:
    """Answers a second when every slot is always taken."""
    world = fleet(seed)
    numbers = iter(range(10_000_000))

    def more(_: Ask | None = None) -> None:
        world.ask(request(world, next(numbers), 600.0))

    world.done = more
    for _ in range(2 * REPLICAS * SLOTS):
        more()
    world.run(60.0)
    return sum(1 for at_s, _ in world.records if at_s > SETTLED_S) / (60.0 - SETTLED_S)


@dataclass(frozen=True, slots=True)
class Overload:
    """What one run showed."""

    goodput_ratio: float
    """Answers in time, as a part of the capacity, while the load lasts."""
    told: int
    came_back: int
    let_in_ratio: float
    refusal_p99_us: float
    """Wall time that the dispatcher takes to refuse one."""
    outcomes: dict[str, int]


def overload(seed: int, capacity: float, times: float, timeout_s: float, seconds: float) -> Overload:
    """``times`` the capacity arrives for a while; whoever is refused comes back exactly as told."""
    world = fleet(seed)
    numbers = iter(range(10_000_000))
    tries: Counter[str] = Counter()
    refusals_s: list[float] = []

    def attempt(ask: Ask) -> None:
        began_s = time.perf_counter()
        world.ask(ask)
        if ask.outcome in REFUSED:
            refusals_s.append(time.perf_counter() - began_s)

    def come_back(ask: Ask) -> None:
        attempt(ask)
        tries["back"] += 1
        tries["in"] += ask.outcome not in REFUSED

    def refused(ask: Ask, order: Reject) -> None:
        if order.outcome in REFUSED and order.retry_after_s is not None:
            tries["told"] += 1
            world.kernel.at(world.kernel.now_s + order.retry_after_s, partial(come_back, ask))

    def arrive() -> None:
        attempt(request(world, next(numbers), timeout_s))
        next_s = world.kernel.now_s + world.dice.expovariate(times * capacity)
        if next_s < seconds:
            world.kernel.at(next_s, arrive)

    world.refused = refused
    world.kernel.at(0.0, arrive)
    world.run(seconds * (times + 2.0))
    good = sum(
        1
        for at_s, record in world.records
        if SETTLED_S < at_s <= seconds and record.outcome is Outcome.COMPLETED
    )
    ordered = sorted(refusals_s)
    return Overload(
        good / (seconds - SETTLED_S) / capacity,
        tries["told"],
        tries["back"],
        tries["in"] / max(1, tries["back"]),
        1e6 * ordered[int(0.99 * len(ordered))] if ordered else 0.0,
        dict(Counter(record.outcome.value for _, record in world.records)),
    )
