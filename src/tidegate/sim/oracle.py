"""What the cheapest fleet would have cost, had the trace been known.

Time is cut into slots. In each slot the requests that arrive need so many replicas (``needs``), or the
promise is not kept. A replica that is to serve in a slot must have been started ``lead`` slots before, and
costs money from its start on; stopping and starting again are free of charge otherwise. The cheapest
schedule is found exactly:

A replica that is kept between two slots in which it is needed, or stopped and started again in time,
never interferes with another, so the *k*-th replica can be looked at alone: it is needed in the slots in
which at least ``k`` are. Between two such slots with ``g`` idle ones in between it costs ``min(g, lead)`` more:
either it is kept, or it is gone for ``g - lead`` slots. This is the layered form of the dynamic program over
(slot, replicas serving); both are here, and agree with trying out all schedules on small cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

SLOT_S = 60.0


@dataclass(frozen=True, slots=True)
class Oracle:
    """The cheapest schedule and what it costs."""

    slot_s: float
    serving: tuple[int, ...]
    """Replicas that serve in each slot."""
    replica_hours: float
    """Starting and serving, as the bill has it."""


def cheapest(needs: Sequence[int], lead: int, *, least: int = 0) -> int:
    """Replica-slots of the cheapest schedule that serves ``needs``, replica by replica.

    ``least`` of them serve from the beginning and may never be stopped; any that serve in the first slots
    were started before the trace began, which is charged too.
    """
    total = least * len(needs)
    for level in range(least + 1, max(needs, default=0) + 1):
        last: int | None = None
        for slot, need in enumerate(needs):
            if need < level:
                continue
            total += 1 + (lead if last is None else min(slot - last - 1, lead))
            last = slot
    return total


def cheapest_by_table(needs: Sequence[int], lead: int, *, least: int = 0) -> int:
    """The same by dynamic programming over slots and the number that serves in each.

    The state is how many serve and how many are in each stage of their start, so it is only for small cases.
    """
    most = max(max(needs, default=0), least)
    start = (least, *([0] * lead))
    costs: dict[tuple[int, ...], float] = {start: 0.0}
    # The lead before the trace begins: starts cost, nobody is served.
    for need in [0] * lead + list(needs):
        costs = _next_slot(costs, need, most, least)
    free_before = least * lead
    return round(min(costs.values(), default=inf)) - free_before


def _next_slot(
    costs: dict[tuple[int, ...], float], need: int, most: int, least: int
) -> dict[tuple[int, ...], float]:
    """All ways on from all states through one slot."""
    found: dict[tuple[int, ...], float] = {}
    for (serving, *coming), cost in costs.items():
        up = serving + (coming[0] if coming else 0)
        for started in range(most - up - sum(coming[1:]) + 1):
            ready = up if coming else up + started
            for kept in range(max(need, least), ready + 1):
                state = (kept, *coming[1:], started) if coming else (kept,)
                spent = cost + sum(state)
                if spent < found.get(state, inf):
                    found[state] = spent
    return found


def schedule(needs: Sequence[int], lead: int, slot_s: float, *, least: int = 0) -> Oracle:
    """The cheapest schedule: a replica is kept over a gap when that costs no more than a new start."""
    serving = [max(need, least) for need in needs]
    for level in range(least + 1, max(needs, default=0) + 1):
        last: int | None = None
        for slot, need in enumerate(needs):
            if need < level:
                continue
            if last is not None and slot - last - 1 <= lead:
                for between in range(last + 1, slot):
                    serving[between] = max(serving[between], level)
            last = slot
    hours = cheapest(needs, lead, least=least) * slot_s / 3600.0
    return Oracle(slot_s, tuple(serving), hours)


def regret(replica_hours: float, oracle: Oracle) -> float:
    """How much more than the cheapest was spent, as a share of the cheapest."""
    return replica_hours / oracle.replica_hours - 1.0 if oracle.replica_hours else 0.0
