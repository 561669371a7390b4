"""The least money that any fleet of several kinds of replicas would have cost, had the trace been known.

A bound, and not the price of a fleet that there could be. A request's work is counted in *money*: what it would cost at the
kind that does it for least. A replica of a kind does at most so much of that a second as it does on the requests that it is
best at (``Kind.does_per_s``), which is never more than it costs. So whatever is done where, a fleet does no more work than
is counted here, and costs what is counted here. With that the cheapest schedule is found exactly, by the dynamic program of
``sim.oracle`` with a number for each kind: replicas are whole, are started before they serve, and each kind takes its own
time for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from tidegate.sim.oracle import Oracle, Way, changed, undominated

GRID_MOST = 400
"""Fleets looked at in each slot. Beyond that only as many of each kind as the run had."""
FLEETS_MOST = 20_000
"""And if these are more, none: minutes would become hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Replicas of one kind."""

    name: str
    price_per_s: float
    does_per_s: float
    """Of the work that is counted."""
    start_s: float
    edge_s: float
    """As ``Duties.edge_s``; 0 where replicas begin and end with slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedDuties:
    """What has to be done by when, in slots of ``slot_s``; by which kinds."""

    slot_s: float
    work: Sequence[float]
    """In money, that comes in each slot."""
    may_wait: Sequence[float]
    """Of all that has come by the end of each slot, how much need not be done by then."""
    kinds: Sequence[Kind]

    def can_do(self, counts: Sequence[int]) -> bool:
        """A fleet that is always there does all in time."""
        does = self.slot_s * sum(
            kind.does_per_s * count for kind, count in zip(self.kinds, counts, strict=True)
        )
        left = 0.0
        for work, may_wait in zip(self.work, self.may_wait, strict=True):
            left = max(0.0, left + work - does)
            if left > may_wait + _crumb(may_wait):
                return False
        return True

    def price_per_s(self, counts: Sequence[int]) -> float:
        """Of so many of each kind."""
        return sum(kind.price_per_s * count for kind, count in zip(self.kinds, counts, strict=True))


def _crumb(amount: float) -> float:
    return 1e-9 * (1.0 + abs(amount))


def most_of_each(duties: MixedDuties, had: int) -> tuple[int, ...]:
    """So many of each kind are looked at: as many as would do alone, and as the run ``had``. Where that is too much, as
    many as would do alone of the kind that does it for least, and of the others as the run had."""
    alone = [_alone(duties, place) for place in range(len(duties.kinds))]
    most = [max(had, number or 0) for number in alone]
    if _grid(most) > GRID_MOST:
        costs = [
            (kind.price_per_s * number, place)
            for place, (kind, number) in enumerate(zip(duties.kinds, alone, strict=True))
            if number is not None
        ]
        _, cheapest = min(costs, default=(0.0, None))
        most = [max(had, number or 0) if place == cheapest else had for place, number in enumerate(alone)]
    return tuple(most)


def _grid(most: Iterable[int]) -> int:
    size = 1
    for number in most:
        size *= number + 1
    return size


def _alone(duties: MixedDuties, place: int) -> int | None:
    """The smallest fixed fleet of one kind; None where it would be very large."""
    counts = [0] * len(duties.kinds)
    for number in range(GRID_MOST):
        counts[place] = number
        if duties.can_do(counts):
            return number
    return None


def cheapest_fixed(duties: MixedDuties, most: Sequence[int]) -> tuple[int, ...] | None:
    """Of the fleets that are always there and do all in time, the cheapest; None when that needs more than ``most``."""
    fleets = product(*(range(number + 1) for number in most))
    by_price = sorted(fleets, key=lambda counts: (duties.price_per_s(counts), sum(counts)))
    return next((counts for counts in by_price if duties.can_do(counts)), None)


def cheapest_mix(duties: MixedDuties, most: Sequence[int]) -> Oracle:
    """The least that any fleet of up to so many of each kind can cost that does all its duties.

    Raises:
        ValueError: so many cannot do that in time, or there are too many fleets to look at.
    """
    if _grid(most) > FLEETS_MOST:
        message = f"up to {' and '.join(map(str, most))} replicas make {_grid(most):,} fleets; {FLEETS_MOST:,} can be looked at"
        raise ValueError(message)
    fleets = list(product(*(range(number + 1) for number in most)))
    paid = [duties.slot_s * duties.price_per_s(counts) for counts in fleets]
    does = [
        duties.slot_s * sum(k.does_per_s * n for k, n in zip(duties.kinds, counts, strict=True))
        for counts in fleets
    ]
    states: list[list[Way]] = [[(0.0, 0.0, None)] for _ in fleets]
    for slot, (work, may_wait) in enumerate(zip(duties.work, duties.may_wait, strict=True)):
        if slot:
            states = _between(states, duties, most)
        bearable = may_wait + _crumb(may_wait)
        states = [
            undominated(
                (cost + paid[fleet], left, (fleet, path))
                for cost, before, path in ways
                if (left := max(0.0, before + work - does[fleet])) <= bearable
            )
            for fleet, ways in enumerate(states)
        ]
    ends = [
        (cost - _saved_at_the_end(duties, fleets[fleet]), path)
        for fleet, ways in enumerate(states)
        for cost, _, path in ways
    ]
    if not ends:
        message = f"{' and '.join(map(str, most))} replicas cannot do this in time"
        raise ValueError(message)
    cost, path = min(ends, key=lambda end: end[0])
    counts: list[int] = []
    while path is not None:
        fleet, path = path
        counts.append(sum(fleets[fleet]))
    hours = sum(counts) * duties.slot_s / 3600.0
    return Oracle(duties.slot_s, tuple(reversed(counts)), hours, max(0.0, cost))


def _saved_at_the_end(duties: MixedDuties, counts: Sequence[int]) -> float:
    return sum(k.price_per_s * k.edge_s * n for k, n in zip(duties.kinds, counts, strict=True))


def _between(states: list[list[Way]], duties: MixedDuties, most: Sequence[int]) -> list[list[Way]]:
    """Between two slots some of each kind are started or stopped: one kind after the other."""
    stride = len(states)
    for kind, number in zip(duties.kinds, most, strict=True):
        size, stride = number + 1, stride // (number + 1)
        up, down = kind.price_per_s * (kind.start_s - kind.edge_s), -kind.price_per_s * kind.edge_s
        found: list[list[Way]] = [[] for _ in states]
        for first in range(len(states)):
            if first // stride % size:
                continue
            line = range(first, first + size * stride, stride)
            for place, ways in zip(line, changed([states[at] for at in line], up, down), strict=True):
                found[place] = ways
        states = found
    return states
