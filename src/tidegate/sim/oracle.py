"""What the cheapest fleet would have cost, had the trace been known.

Time is cut into slots. In each slot so many replicas are needed (``needs``), or the promise is not kept. A
replica that is to serve in a slot must have been started ``lead`` slots before, and costs money from its start
on; stopping is free. Whatever serves in the first slots may have been running before, as in the simulations.

The cheapest schedule is found exactly. Replicas are alike, so the *k*-th can be looked at alone: it is needed
in the slots in which at least *k* are. Over ``g`` slots in which it is not, it costs ``min(g, lead)``: either
it is kept, or it is stopped and started again, and its start takes ``lead`` slots. ``cheapest_by_table`` is the
dynamic program over all that may be running and starting; the two agree, and both agree with trying out all
schedules on small cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SLOT_S = 60.0


@dataclass(frozen=True, slots=True)
class Oracle:
    """The cheapest schedule and what it costs."""

    slot_s: float
    serving: tuple[int, ...]
    """Replicas that serve in each slot."""
    replica_hours: float
    """Starting and serving, as the bill has it."""


def cheapest(needs: Sequence[int], lead: int) -> int:
    """Replica-slots of the cheapest schedule that serves ``needs``."""
    total = 0
    for level in range(1, max(needs, default=0) + 1):
        last = -1
        for slot, need in enumerate(needs):
            if need >= level:
                total += 1 + min(slot - last - 1, lead)
                last = slot
    return total


def cheapest_by_table(needs: Sequence[int], lead: int) -> int:
    """The same by dynamic programming over slots.

    The state is how many serve and how many are in each slot of their start, so it is for small cases.
    """
    most = max(needs, default=0)
    costs: dict[tuple[int, ...], int] = {(running, *([0] * lead)): 0 for running in range(most + 1)}
    for need in needs:
        costs = _next_slot(costs, need, most)
    return min(costs.values())


def _next_slot(costs: dict[tuple[int, ...], int], need: int, most: int) -> dict[tuple[int, ...], int]:
    """All ways on from all states through one slot."""
    found: dict[tuple[int, ...], int] = {}
    for (running, *coming), cost in costs.items():
        up = running + (coming[0] if coming else 0)
        for started in range(most + 1):
            ready = up if coming else up + started
            for kept in range(need, min(ready, most) + 1):
                state = (kept, *coming[1:], started) if coming else (kept,)
                spent = cost + sum(state)
                if spent < found.get(state, spent + 1):
                    found[state] = spent
    return found


def schedule(needs: Sequence[int], lead: int, slot_s: float) -> Oracle:
    """The cheapest schedule: a replica is kept over a gap when that costs no more than a new start."""
    serving = list(needs)
    for level in range(1, max(needs, default=0) + 1):
        last = -1
        for slot, need in enumerate(needs):
            if need < level:
                continue
            if slot - last - 1 <= lead:
                serving[last + 1 : slot] = [max(number, level) for number in serving[last + 1 : slot]]
            last = slot
    return Oracle(slot_s, tuple(serving), cheapest(needs, lead) * slot_s / 3600.0)


def regret(replica_hours: float, oracle: Oracle) -> float:
    """How much more than the cheapest was spent, as a share of the cheapest."""
    return replica_hours / oracle.replica_hours - 1.0 if oracle.replica_hours else 0.0
