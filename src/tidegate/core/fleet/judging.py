"""What a course of replicas would have come to: promise and cost of a policy that did not act.

Recorded or live traffic is taken as it came (open loop: who waits longer would in truth have sent later), and answered
by the closed formulas of ``answering`` and ``filling``. What runs and the line of those that do not fit are the judged
fleet's own, not those of the fleet that acted. So what is said of a course is no measurement, also where it is the one that
acted; how near it comes is tested (``tests/sim/test_predicting.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.fleet.answering import Crew, Traffic, answers_of
from tidegate.core.fleet.filling import Filled, fill
from tidegate.core.fleet.predicting import there as what_is_there
from tidegate.core.scaling_settings import Promise

HOUR_S = 3_600.0
LONGEST_LINE_S = 120.0
"""Of the fleet's work: whoever comes behind that is refused, as a bounded queue does."""


@dataclass(slots=True)
class Judged:
    """One course of replicas, so far."""

    judged_s: float = 0.0
    """For how long traffic and capacity were known."""
    requests: float = 0.0
    kept: float = 0.0
    replica_s: float = 0.0
    cost: float = 0.0
    arrivals: float | None = None
    """All that had come when it was looked at last."""
    filled: Filled | None = None
    """What is at the judged fleet and in line before it; None before anything is known."""
    slots: float = 0.0
    """Of those that served."""
    seats: float = 0.0
    """Of these, those that memory has room for."""

    @property
    def attainment(self) -> float | None:
        """Share of the requests that keep the promise; None before there was one."""
        return self.kept / self.requests if self.requests > 0.0 else None

    @property
    def replica_hours(self) -> float:
        """Of all replicas that were there."""
        return self.replica_s / HOUR_S

    def go_on(
        self,
        span_s: float,
        arrivals: float | None,
        traffic: Traffic | None,
        crew: Crew | None,
        promise: Promise,
        *,
        there: float,
        price_per_h: float,
    ) -> None:
        """For ``span_s`` these served, of so many that were there and cost so much, and ``arrivals`` have come in all. ``crew`` is
        None while nothing is known of what they can do, and empty when nobody served."""
        self.replica_s += span_s * there
        self.cost += span_s / HOUR_S * price_per_h
        before_that, self.arrivals = self.arrivals, arrivals
        if arrivals is None or before_that is None or span_s <= 0.0:
            return
        if crew is None or (crew and traffic is None):
            return
        came = max(0.0, arrivals - before_that)
        self.judged_s += span_s
        self.requests += came
        self._seat(sum(alike.number * alike.slots for alike in crew))
        if not crew or traffic is None:
            self.filled = Filled(came + (self.filled.mean if self.filled else 0.0))
            return
        answers = answers_of(crew, traffic, promise)
        before = self.filled or what_is_there(answers, traffic)
        after, share = fill(before, answers, came / span_s, span_s, came=True)
        self.kept += came * share
        self.filled = after.at_most(answers.seats + LONGEST_LINE_S * answers.most_per_s)
        self.seats = answers.seats

    def _seat(self, slots: float) -> None:
        """So many slots serve from now on. Where some have gone, what they hold ends there."""
        if self.filled is not None and slots < self.slots:
            self.filled = self.filled.without(1.0 - slots / self.slots, self.seats)
        self.slots = slots
