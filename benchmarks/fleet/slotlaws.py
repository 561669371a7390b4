"""The published setting by the slot: rates of ten minutes, laws that know nothing but them, and what they cost.

A law decides at the end of a slot and its number serves in the next one. What exceeds its capacity is lost. The yardstick is
the least number for each slot: *served* is replica-slots by their sum, as the published figures have it, and *charged* counts
each start for its slot too, beside the cheapest schedule that does (``sim.oracle``).
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import ceil

from benchmarks.sim.traces import found, opened
from tidegate.sim.oracle import cheapest

DAY = 144
"""Slots of a day."""
TUNED = slice(0, 7 * DAY)
REPORTED = slice(7 * DAY, 14 * DAY)
WHOLE = slice(0, 14 * DAY)
LEAD = 1

FILLS = tuple(0.5 + 0.025 * step for step in range(20))
HOLDS = (0, 1, 2, 3, 6, 12, 18)
"""Slots for which the highest rate is kept."""


@dataclass(frozen=True, slots=True)
class Score:
    """What a law did in a span."""

    served: float
    """Replica-slots, by those that each slot needs at least."""
    lost: float
    """Share of the requests that were beyond what could be carried."""
    charged: float
    """The same with starts, by the cheapest schedule with starts."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The rates, and what one replica carries."""

    rates: tuple[float, ...]
    each_per_s: float

    def needs(self, span: slice) -> list[int]:
        """Replicas that each slot needs."""
        return [ceil(rate / self.each_per_s - 1e-9) for rate in self.rates[span]]

    def score(
        self, span: slice, served: Sequence[float], charged: Sequence[float], lost: Sequence[float]
    ) -> Score:
        """From replica-slots, and lost requests a second, of each slot."""
        needs = self.needs(span)
        return Score(
            sum(served[span]) / sum(needs),
            sum(lost[span]) / sum(self.rates[span]),
            sum(charged[span]) / _cheapest(tuple(needs)),
        )

    def played(self, span: slice, serving: Sequence[int]) -> Score:
        """Of a law whose numbers are these."""
        lost = [
            max(0.0, rate - number * self.each_per_s)
            for rate, number in zip(self.rates, serving, strict=True)
        ]
        charged = [max(one, other) for one, other in pairwise([*serving, 0])]
        return self.score(span, serving, charged, lost)


def recorded(name: str) -> list[float]:
    """Requests a second in each ten minutes of the fourteen days."""
    with opened(found(f"servegen/{name}-rate*")) as lines:
        return [float(row["rate_rps"]) for row in csv.DictReader(lines)]


def filled(rates: Sequence[float]) -> tuple[float, ...]:
    """Slots without a request, where nothing was recorded, lie on the line between their neighbours."""
    there = [slot for slot, rate in enumerate(rates) if rate > 0.0]
    whole = list(rates)
    for before, after in pairwise(there):
        for slot in range(before + 1, after):
            share = (slot - before) / (after - before)
            whole[slot] = rates[before] + share * (rates[after] - rates[before])
    return tuple(whole)


def at_the_peak(traffic: Traffic) -> list[int]:
    """As many at all times as the busiest slot needs."""
    return [max(traffic.needs(WHOLE))] * len(traffic.rates)


def reactive(traffic: Traffic, fill: float, hold: int) -> list[int]:
    """So full by the highest rate of the last slot and of ``hold`` slots before it."""
    rates, number = traffic.rates, []
    for slot in range(len(rates)):
        seen = rates[max(0, slot - 1 - hold) : slot] or rates[:1]
        number.append(max(1, ceil(max(seen) / (fill * traffic.each_per_s) - 1e-9)))
    return number


def foreseeing(traffic: Traffic, rise: float) -> list[int]:
    """Knows the next slot exactly, but of what rises by more than this factor at once only so much."""
    rates = traffic.rates
    known = [rates[0], *(min(later, rise * before) for before, later in pairwise(rates))]
    return [max(1, ceil(rate / traffic.each_per_s - 1e-9)) for rate in known]


def insured(traffic: Traffic, rise: float, span: slice, lost: float) -> Score | None:
    """The same with the cheapest of all reactive floors beside it that loses no more; None when none does."""
    known = foreseeing(traffic, rise)
    found: list[Score] = []
    for fill, hold in product(FILLS, HOLDS):
        floor = reactive(traffic, fill, hold)
        score = traffic.played(span, list(map(max, known, floor)))
        if score.lost <= lost:
            found.append(score)
    return min(found, key=lambda score: score.served, default=None)


@lru_cache(maxsize=16)
def _cheapest(needs: tuple[int, ...]) -> int:
    return cheapest(needs, LEAD)
