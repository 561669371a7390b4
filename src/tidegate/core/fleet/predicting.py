"""What a number of replicas would do to the promise: a closed estimate, for the reason that stands with a decision.

Everything follows from the learned capacity (``core.capacity``) and from what has arrived of late. With ``n`` replicas
at ``x`` requests a second each, of ``p`` prompt and ``o`` answer tokens:

- prompts take the share ``f = x * prefill(p)`` of the time, a token ``t = step(b) / (1 - f)``, and Little's law gives
  the batch ``b = x * o * t``; both are linear in ``b``, so ``b`` is found exactly (the fluid limit);
- one answer meets more or fewer prompts than the mean one, and a larger or smaller batch: so the share of answers in
  pace is a normal one (``core.queueing.pace_spread_s``);
- a first token waits behind other prompts and for a slot, each by Sakasegawa's formula (``core.queueing``);
- what waits already, and what arrives beyond the capacity, forms a line that grows or shrinks evenly over the next
  minute; whoever stands in it longer than the promise leaves him is late.

Prefix caches are not known here, so a fleet whose prompts are cached does better than is said. The estimate is one of
steady traffic at the rate of the last minute: it says nothing of what will come.
"""

from __future__ import annotations

from math import inf

from tidegate.core.capacity import THOUSAND, Capacity
from tidegate.core.fleet.scaling.policies import Demand
from tidegate.core.queueing import late_share, normal_share, pace_spread_s
from tidegate.core.scaling_settings import Promise
from tidegate.core.values import value

HORIZON_S = 60.0
"""The requests of this span are those of which a share keeps the promise."""
RATE_SPAN_S = 60.0
LENGTHS_SPAN_S = 300.0
"""Answers end late: their lengths are those of five minutes."""


@value
class Traffic:
    """What arrives: requests a second, and tokens of the mean one."""

    arrivals_per_s: float
    prompt_tokens: float
    output_tokens: float
    queued: float = 0.0
    """Requests that wait already."""


@value
class Full:
    """One replica that takes all it can."""

    requests_per_s: float
    batch: float


def traffic_of(demand: Demand, now_s: float) -> Traffic | None:
    """What has arrived of late; None while lengths or rate are not known."""
    past = demand.past
    rate = past.arrivals_per_s(RATE_SPAN_S, now_s)
    prompt = past.mean_prompt_tokens(LENGTHS_SPAN_S, now_s)
    output = past.mean_output_tokens(LENGTHS_SPAN_S, now_s)
    if rate is None or prompt is None or output is None:
        return None
    return Traffic(rate, prompt, max(1.0, output), float(demand.queued))


def full_replica(traffic: Traffic, capacity: Capacity, slots: int) -> Full:
    """The most that one replica answers, its slots or its memory full."""
    tokens = traffic.prompt_tokens + 0.5 * traffic.output_tokens
    room = float(slots)
    if capacity.kv_tokens:
        room = max(1.0, min(room, capacity.kv_tokens / max(1.0, tokens)))
    each_s = traffic.output_tokens * capacity.step_s(room, room * tokens) / room + _prompt_s(
        traffic, capacity
    )
    return Full(1.0 / each_s if each_s > 0 else inf, room)


@value
class Steady:
    """What replicas do with traffic that stays as it is."""

    share: float
    """Of the requests that do not stand in line, those that keep the promise."""
    most_per_s: float
    """Requests that all of them answer when they are full."""
    slack_s: float
    """How long a request may stand in line and still be in time."""


def steady(replicas: float, traffic: Traffic, capacity: Capacity, slots: int, promise: Promise) -> Steady:
    """How so many replicas do, whatever stands in line. A part of one does so much of what one does."""
    full = full_replica(traffic, capacity, slots)
    prompt_s = _prompt_s(traffic, capacity)
    each = min(traffic.arrivals_per_s / replicas, full.requests_per_s)
    prefilling = min(each * prompt_s, 0.999)
    tokens = traffic.prompt_tokens + 0.5 * traffic.output_tokens
    growth_s = capacity.decode.k1 + capacity.decode.k2 * THOUSAND * tokens
    batch = min(full.batch, _batch(each * traffic.output_tokens / (1.0 - prefilling), capacity, growth_s))
    step_s = capacity.step_s(batch, batch * tokens)
    token_s = step_s / (1.0 - prefilling)
    slack_s = promise.ttft_s - prompt_s - step_s
    spread_s = pace_spread_s(token_s, each, prompt_s, traffic.output_tokens, growth_s, batch)
    in_pace = normal_share((promise.tpot_s - token_s) / spread_s)
    most_per_s = replicas * full.requests_per_s
    behind = slotless = 0.0
    if traffic.arrivals_per_s < most_per_s:  # else the line of those that do not fit says it all
        behind = late_share(slack_s, prefilling, replicas, prompt_s)
        stay_s = traffic.output_tokens * token_s
        slotless = late_share(slack_s, batch / full.batch, replicas * full.batch, stay_s)
    return Steady(in_pace * (1.0 - behind) * (1.0 - slotless), most_per_s, max(0.0, slack_s))


def attainment(
    replicas: float, traffic: Traffic, capacity: Capacity, slots: int, promise: Promise
) -> float | None:
    """Share of the requests of the next minute that would keep the promise with so many serving; None when none
    is expected."""
    expected = traffic.queued + traffic.arrivals_per_s * HORIZON_S
    if expected <= 0.0:
        return None
    if replicas <= 0:
        return 0.0

    def kept(number: float) -> float:
        found = steady(number, traffic, capacity, slots, promise)
        in_line = _late_in_line(traffic, found.most_per_s, found.slack_s) / expected
        return max(0.0, 1.0 - min(1.0, in_line)) * found.share

    # Just within capacity the line is taken as it would be after hours, just beyond it as it grows in this minute, and
    # the second is shorter. One more replica does not keep less, so it is at least what the most that are too few keep.
    each_per_s = full_replica(traffic, capacity, slots).requests_per_s
    too_few = int(traffic.arrivals_per_s / each_per_s)
    return max(kept(replicas), kept(too_few) if 1 <= too_few < replicas else 0.0)


def _prompt_s(traffic: Traffic, capacity: Capacity) -> float:
    """What a prompt adds to the steps that compute it: without what a step takes in any case."""
    return capacity.prefill_s(traffic.prompt_tokens, 0.0) - capacity.prefill_s(0.0, 0.0)


def _batch(tokens_per_s: float, capacity: Capacity, growth_s: float) -> float:
    """The batch at which so many tokens come out of a replica each second; infinite when none is large enough."""
    left = 1.0 - tokens_per_s * growth_s
    return tokens_per_s * capacity.decode.k0 / left if left > 0.0 else inf


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
