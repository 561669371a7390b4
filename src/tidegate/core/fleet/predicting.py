"""What a number of replicas would do to the promise: a closed estimate, for the reason that stands with a decision.

Everything follows from the learned capacity and from what has arrived of late (``answering``), and from how many requests
are there: from those on, what comes in the next minute fills seats and a line (``filling``), and whoever stands in that
longer than the promise leaves him is late.

Prefix caches are not known here, so a fleet whose prompts are cached does better than is said. The estimate is one of
steady traffic at the rate of the last minute: it says nothing of what will come.
"""

from __future__ import annotations

from tidegate.core.fleet.answering import Answers, Crew, Traffic, answers_of
from tidegate.core.fleet.filling import Filled, fill
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
    return Traffic(rate, prompt, max(1.0, output), float(demand.queued), float(demand.in_flight))


def attainment(crew: Crew, traffic: Traffic, promise: Promise) -> float | None:
    """Share of the requests of the next minute that would keep the promise with these serving; None when none
    is expected."""
    comes = traffic.arrivals_per_s * HORIZON_S
    expected = traffic.queued + comes
    if expected <= 0.0:
        return None
    if sum(alike.number for alike in crew) <= 0:
        return 0.0
    answers = answers_of(crew, traffic, promise)
    filled = there(answers, traffic)
    _, share = fill(filled, answers, traffic.arrivals_per_s, HORIZON_S, came=False)
    running = filled.mean - traffic.queued
    in_time = max(0.0, answers.seats - running) + answers.slack_s * answers.most_per_s
    queued = min(traffic.queued, in_time) * answers.share(answers.runs(traffic.arrivals_per_s))
    return min(1.0, (comes * share + queued) / expected)


def there(answers: Answers, traffic: Traffic) -> Filled:
    """What waits or runs. Where nobody has counted what runs it is a number by chance, a Poisson one."""
    if traffic.running is not None:
        return Filled(traffic.running + traffic.queued)
    running = answers.runs(traffic.arrivals_per_s)
    return Filled(running + traffic.queued, running)
