"""What the cheapest fleet would have cost, had the trace been known.

Time is cut into slots. In each slot so many replicas are needed (``needs``), or the promise is not kept. A
replica that is to serve in a slot must have been started ``lead`` slots before, and costs money from its start
on; stopping is free. Whatever serves in the first slots may have been running before, as in the simulations.

The cheapest schedule is found exactly. Replicas are alike, so the *k*-th can be looked at alone: it is needed
in the slots in which at least *k* are. Over ``g`` slots in which it is not, it costs ``min(g, lead)``: either
it is kept, or it is stopped and started again, and its start takes ``lead`` slots. ``cheapest_by_table`` is the
dynamic program over all that may be running and starting; the two agree, and both agree with trying out all
schedules on small cases.

That is for a world in which work is done in the slot in which it comes. ``cheapest_in_time`` knows that a request
may wait as long as its promise allows, and that a real fleet begins and ends its replicas in the middle of slots;
what it finds is below every fleet that keeps the promise to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

SLOT_S = 60.0


@dataclass(frozen=True, slots=True)
class Oracle:
    """The cheapest schedule and what it costs."""

    slot_s: float
    serving: tuple[int, ...]
    """Replicas that serve in each slot."""
    replica_hours: float
    """Starting and serving, as the bill has it."""
    cost: float | None = None
    """In money, where replicas are of several kinds: then that is what is bounded, and the hours are those of service in
    the schedule. None: they are alike, and the hours say it all."""


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


# ---- work that may wait ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Duties:
    """What has to be done by when, in slots of ``slot_s``."""

    slot_s: float
    work_s: Sequence[float]
    """Replica-seconds that come in each slot. Work is never done before its slot."""
    may_wait_s: Sequence[float]
    """Of all that has come by the end of each slot, how much need not be done by then."""
    start_s: float
    """From a replica's launch to its first slot of service."""

    @property
    def edge_s(self) -> float:
        """A replica that begins or ends within a slot is paid for less than the slot. No more than this is saved
        by either, as long as a start takes two slots or longer."""
        return min(self.slot_s, self.start_s / 2)


_Path = tuple[int, "_Path"] | None
Way = tuple[float, float, _Path]
"""Cost so far, work left over, and how many served in each slot, the last first."""


def cheapest_in_time(duties: Duties, most: int) -> Oracle:
    """The least that any fleet of up to ``most`` replicas can cost that does all its duties.

    By dynamic programming over slots. A state is how many serve; of the ways that lead to it those are kept
    than which none is both cheaper and leaves less work over.
    """
    up_s, down_s = duties.start_s - duties.edge_s, -duties.edge_s
    states: list[list[Way]] = [[(0.0, 0.0, None)] for _ in range(most + 1)]
    for slot, (work_s, may_wait_s) in enumerate(zip(duties.work_s, duties.may_wait_s, strict=True)):
        if slot:
            states = changed(states, up_s, down_s)
        for serving, ways in enumerate(states):
            paid_s = serving * duties.slot_s
            states[serving] = undominated(
                (cost_s + paid_s, left_s, (serving, path))
                for cost_s, before_s, path in ways
                if (left_s := max(0.0, before_s + work_s - paid_s)) <= may_wait_s + 1e-9
            )
    ends = [
        (cost_s + serving * down_s, path) for serving, ways in enumerate(states) for cost_s, _, path in ways
    ]
    if not ends:
        message = f"{most} replicas cannot do this in time"
        raise ValueError(message)
    cost_s, path = min(ends, key=lambda end: end[0])
    counts: list[int] = []
    while path is not None:
        count, path = path
        counts.append(count)
    return Oracle(duties.slot_s, tuple(reversed(counts)), max(0.0, cost_s) / 3600.0)


def fewest_at_all_times(duties: Duties) -> int:
    """The smallest fixed fleet that does all its duties."""
    replicas = 0
    while not _can_do(duties, replicas):
        replicas += 1
    return replicas


def _can_do(duties: Duties, replicas: int) -> bool:
    left_s = 0.0
    for work_s, may_wait_s in zip(duties.work_s, duties.may_wait_s, strict=True):
        left_s = max(0.0, left_s + work_s - replicas * duties.slot_s)
        if left_s > may_wait_s + 1e-9:
            return False
    return True


def changed(states: list[list[Way]], up_s: float, down_s: float) -> list[list[Way]]:
    """Some are started or stopped between two slots; both at once is never cheaper."""
    rising: list[list[Way]] = []
    for ways in states:
        below = rising[-1] if rising else []
        rising.append(
            undominated([*ways, *((cost_s + up_s, left_s, path) for cost_s, left_s, path in below)])
        )
    falling: list[list[Way]] = []
    for ways in reversed(states):
        above = falling[-1] if falling else []
        falling.append(
            undominated([*ways, *((cost_s + down_s, left_s, path) for cost_s, left_s, path in above)])
        )
    return [undominated([*up, *down]) for up, down in zip(rising, reversed(falling), strict=True)]


def undominated(ways: Iterable[Way]) -> list[Way]:
    """Those than which none is both cheaper and leaves less over."""
    kept: list[Way] = []
    for way in sorted(ways, key=itemgetter(0, 1)):
        if not kept or way[1] < kept[-1][1]:
            kept.append(way)
    return kept


def regret(replica_hours: float, oracle: Oracle, cost: float = 0.0) -> float:
    """How much more than the cheapest was spent, as a share of the cheapest: of the money, where kinds differ."""
    spent, least = (replica_hours, oracle.replica_hours) if oracle.cost is None else (cost, oracle.cost)
    return spent / least - 1.0 if least else 0.0
