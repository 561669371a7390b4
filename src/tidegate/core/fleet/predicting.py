"""What a number of replicas would do to the promise: a closed estimate, for the reason that stands with a decision.

Everything follows from the learned capacity and from what has arrived of late (``answering``), and from the line: what
waits already, and what arrives beyond the capacity, forms one that grows or shrinks evenly over the next minute; whoever
stands in it longer than the promise leaves him is late.

Prefix caches are not known here, so a fleet whose prompts are cached does better than is said. The estimate is one of
steady traffic at the rate of the last minute: it says nothing of what will come.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.fleet.answering import Crew, Steady, Traffic, steady
from tidegate.core.fleet.scaling.policies import Demand
from tidegate.core.scaling_settings import Promise

HORIZON_S = 60.0
"""The requests of this span are those of which a share keeps the promise."""
RATE_SPAN_S = 60.0
LENGTHS_SPAN_S = 300.0
"""Answers end late: their lengths are those of five minutes."""


def traffic_of(demand: Demand, now_s: float) -> Traffic | None:
    """What has arrived of late; None while lengths or rate are not known."""
    past = demand.past
    rate = past.arrivals_per_s(RATE_SPAN_S, now_s)
    prompt = past.mean_prompt_tokens(LENGTHS_SPAN_S, now_s)
    output = past.mean_output_tokens(LENGTHS_SPAN_S, now_s)
    if rate is None or prompt is None or output is None:
        return None
    return Traffic(rate, prompt, max(1.0, output), float(demand.queued))


def attainment(crew: Crew, traffic: Traffic, promise: Promise) -> float | None:
    """Share of the requests of the next minute that would keep the promise with these serving; None when none
    is expected."""
    expected = traffic.queued + traffic.arrivals_per_s * HORIZON_S
    if expected <= 0.0:
        return None
    replicas = sum(alike.number for alike in crew)
    if replicas <= 0:
        return 0.0

    def kept(found: Steady) -> float:
        in_line = _late_in_line(traffic, found.most_per_s, found.slack_s) / expected
        return max(0.0, 1.0 - min(1.0, in_line)) * found.share

    # Just within capacity the line is taken as it would be after hours, just beyond it as it grows in this minute, and
    # the second is shorter. One more replica does not keep less, so it is at least what the most that are too few keep.
    all_of_them = steady(crew, traffic, promise)
    too_few = int(traffic.arrivals_per_s / (all_of_them.most_per_s / replicas))
    if not 1 <= too_few < replicas:
        return kept(all_of_them)
    fewer = [replace(alike, number=alike.number * too_few / replicas) for alike in crew]
    return max(kept(all_of_them), kept(steady(fewer, traffic, promise)))


def _late_in_line(traffic: Traffic, most_per_s: float, slack_s: float) -> float:
    """Requests of the next minute that wait longer than ``slack_s`` in a line served at ``most_per_s``."""
    waits, rate = traffic.queued, traffic.arrivals_per_s
    bearable = slack_s * most_per_s
    """So many ahead of it, and a request is just in time."""
    late = max(0.0, waits - bearable)
    change = rate - most_per_s
    if waits > bearable:
        span_s = HORIZON_S if change >= 0.0 else min(HORIZON_S, (waits - bearable) / -change)
    elif change > 0.0:
        span_s = HORIZON_S - min(HORIZON_S, (bearable - waits) / change)
    else:
        span_s = 0.0
    return late + rate * span_s
