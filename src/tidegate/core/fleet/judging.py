"""What a course of replicas would have come to: promise and cost of a policy that did not act.

Recorded or live traffic is taken as it came (open loop: who waits longer would in truth have sent later), and answered
by the closed formulas of ``answering``. The line of those that do not fit is the judged fleet's own, not the one that
stood before the fleet that acted. Two courses judged so can be compared with each other; a measured promise cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.fleet.answering import Crew, Traffic, steady
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
    waits: float = 0.0
    """Requests in the line of the judged fleet."""

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
        traffic: Traffic | None,
        crew: Crew | None,
        promise: Promise,
        *,
        there: float,
        price_per_h: float,
    ) -> None:
        """For ``span_s`` these served, of so many that were there and cost so much. ``crew`` is None while nothing is known
        of what they can do."""
        self.replica_s += span_s * there
        self.cost += span_s / HOUR_S * price_per_h
        if traffic is None or crew is None or span_s <= 0.0:
            return
        self.judged_s += span_s
        arrived = traffic.arrivals_per_s * span_s
        self.requests += arrived
        if not crew:
            self.waits += arrived
            return
        found = steady(crew, replace(traffic, queued=self.waits), promise)
        after = self.waits + arrived - found.most_per_s * span_s
        self.kept += arrived * found.share * _in_time(self.waits, after, found.slack_s * found.most_per_s)
        self.waits = max(0.0, min(after, LONGEST_LINE_S * found.most_per_s))


def _in_time(before: float, after: float, bearable: float) -> float:
    """Of a span in which the line goes evenly from one length to another, the share in which it is bearable."""
    low, high = sorted((before, max(0.0, after)))
    if high <= bearable:
        return 1.0
    return 0.0 if low >= bearable else (bearable - low) / (high - low)
