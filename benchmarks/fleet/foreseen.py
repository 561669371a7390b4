"""What can be had at best, with the future known and without it, so that a regret can be read.

The oracle of ``sim.oracle`` leaves chance out: its replicas are as full as they can be on the mean, and played in the fluid
world its schedule keeps little of the promise. Two more are beside it:

- *foreseen*: the oracle's schedule with replicas less full, by as little as keeps the goal when it is played in the fluid
  world. It knows every arrival.
- *best law*: knows what a replica carries and how much arrives, exactly, but no future: a lead time later it has
  ``need * (1 + share) + spare`` replicas, never fewer than at any time in ``hold``, with the cheapest share, spare and hold that
  keep the goal, picked afterwards on the very days that are reported. No law has that luck; a forecast may still beat it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from math import ceil

from tidegate.sim.fluid import Load
from tidegate.sim.fluid.amounts import Parcel
from tidegate.sim.fluid.floor import Floor, Hands
from tidegate.sim.fluid.needing import needs_of_load, work_of_load
from tidegate.sim.kernel import SeededDice
from tidegate.sim.oracle import Oracle, schedule
from tidegate.sim.scenario import ModelSetup, Slo

FULL = tuple(1.0 - 0.02 * step for step in range(26))
"""Shares of a full replica that are planned with, the fullest first."""
PLANNED_S = 30.0
TIMEOUT_S = 600.0
SHARES, SPARES, HOLDS_S = (
    (0.0, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0),
    (0.0, 0.5, 1.0, 2.0, 4.0, 8.0),
    (60.0, 300.0, 900.0),
)


def foreseen(load: Load, setup: ModelSetup, slo: Slo, goal: float) -> tuple[Oracle, float] | None:
    """The cheapest such schedule that keeps the goal, and how full its replicas are; None when none does."""
    lead = ceil(setup.cold_start.total_s() / PLANNED_S - 1e-9)
    for full in FULL:
        planned = schedule(needs_of_load(load, setup, slo, PLANNED_S, full), lead, PLANNED_S)
        if kept(load, setup, slo, planned) >= goal:
            return planned, full
    return None


def kept(load: Load, setup: ModelSetup, slo: Slo, planned: Oracle) -> float:
    """Share of the requests that keep the promise when the schedule is played."""
    floor = Floor(setup, slo, TIMEOUT_S, SeededDice(1))
    by = round(planned.slot_s / load.slot_s)
    last = len(load) + ceil(TIMEOUT_S / load.slot_s)
    for slot in range(last):
        parcel = None
        if slot < len(load) and load.requests[slot] > 0:
            amounts = load.requests[slot], load.prompt_tokens[slot], load.output_tokens[slot]
            parcel = Parcel((slot + 0.5) * load.slot_s, *amounts)
        elif slot >= len(load) and floor.is_empty:
            break
        serving = planned.serving[min(slot // by, len(planned.serving) - 1)]
        floor.step(slot * load.slot_s, load.slot_s, parcel, {"": Hands(serving)})
    return floor.flowed.kept / floor.flowed.over if floor.flowed.over else 1.0


def best_law_hours(load: Load, setup: ModelSetup, slo: Slo, goal: float, full: float) -> float | None:
    """Replica-hours of the cheapest such law; None when none keeps the goal."""
    slot_s = load.slot_s
    needs = [work / full for work in work_of_load(load, setup, slo, slot_s)]
    lead = ceil(setup.cold_start.total_s() / slot_s - 1e-9)
    steady = _means(needs, round(PLANNED_S / slot_s))
    found: list[float] = []
    for share, spare, hold_s in product(SHARES, SPARES, HOLDS_S):
        ordered = [ceil(need * (1.0 + share) + spare) for need in steady]
        held = list(_largest(ordered, max(1, round(hold_s / slot_s))))
        serving = [held[0]] * lead + held[: len(held) - lead]
        # Whatever comes down does so at once; a lower number is never waited for.
        serving = [
            min(now, max(later, 1)) if later < now else now for now, later in zip(serving, held, strict=True)
        ]
        starts = sum(max(0, b - a) for a, b in pairwise(serving))
        if _in_time(needs, serving, slo.ttft_s / slot_s, load.requests) >= goal:
            found.append((sum(serving) + lead * starts) * slot_s / 3600.0)
    return min(found, default=None)


def _means(values: Sequence[float], span: int) -> list[float]:
    """Over the last so many."""
    total, found = 0.0, []
    for place, value in enumerate(values):
        total += value - (values[place - span] if place >= span else 0.0)
        found.append(total / min(place + 1, span))
    return found


def _largest(values: Sequence[int], span: int) -> Iterator[int]:
    """Of the last so many."""
    tops: deque[tuple[int, int]] = deque()
    for place, value in enumerate(values):
        while tops and tops[-1][1] <= value:
            tops.pop()
        tops.append((place, value))
        if tops[0][0] <= place - span:
            tops.popleft()
        yield tops[0][1]


def _in_time(needs: Sequence[float], serving: Sequence[int], wait: float, requests: Sequence[float]) -> float:
    """Share that waits no longer than so many slots in one line, first come first served."""
    left = good = total = 0.0
    for need, count, number in zip(needs, requests, serving, strict=True):
        left = max(0.0, left + need - number)
        total += count
        if left <= wait * number:
            good += count
    return good / total if total else 1.0
