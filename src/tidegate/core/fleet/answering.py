"""What replicas do with traffic that stays as it is: closed formulas on what was learned of each kind (``core.capacity``).

With ``n`` replicas at ``x`` requests a second each, of ``p`` prompt and ``o`` answer tokens:

- prompts take the share ``f = x * prefill(p)`` of the time, a token ``t = step(b) / (1 - f)``, and Little's law gives
  the batch ``b = x * o * t``; both are linear in ``b``, so ``b`` is found exactly (the fluid limit);
- one answer meets more or fewer prompts than the mean one, and a larger or smaller batch: so the share of answers in
  pace is a normal one (``core.queueing.pace_spread_s``);
- a first token waits behind other prompts and for a slot, each by Sakasegawa's formula (``core.queueing``).

Replicas of several variants get what the router would give them (``core.spreading``): the fast ones more than the slow.
How long prompts and tokens take there is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from tidegate.core.capacity import THOUSAND, Capacity
from tidegate.core.queueing import late_share, normal_share, pace_spread_s
from tidegate.core.scaling_settings import Promise
from tidegate.core.spreading import Taking, dearer_s, spread
from tidegate.core.values import value


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
class Alike:
    """Replicas of one kind among those that serve."""

    number: float
    """A part of one does so much of what one does."""
    capacity: Capacity
    slots: int


Crew = Sequence[Alike]
"""All that serve, whatever kinds they are of."""


@value
class Steady:
    """What replicas do with traffic that stays as it is."""

    share: float
    """Of the requests that do not stand in line, those that keep the promise."""
    most_per_s: float
    """Requests that all of them answer when they are full."""
    slack_s: float
    """How long a request may stand in line and still be in time."""


def steady(crew: Crew, traffic: Traffic, promise: Promise) -> Steady:
    """How those that serve do, whatever stands in line; there is at least a part of one."""
    fulls = [full_replica(traffic, alike.capacity, alike.slots) for alike in crew]
    most_per_s = sum(alike.number * full.requests_per_s for alike, full in zip(crew, fulls, strict=True))
    used = [
        _used(alike, full, each_per_s, traffic)
        for alike, full, each_per_s in zip(
            crew, fulls, _each_per_s(crew, fulls, traffic, most_per_s), strict=True
        )
    ]
    rate_per_s = sum(one.number * one.each_per_s for one in used)
    room = Room(
        sum(alike.number for alike in crew),
        sum(alike.number * full.batch for alike, full in zip(crew, fulls, strict=True)),
        sum(one.number * one.batch for one in used),
        is_short=traffic.arrivals_per_s >= most_per_s,
    )
    share = slack_s = 0.0
    for one in used:
        part = one.number * one.each_per_s / rate_per_s if rate_per_s > 0.0 else 1.0 / len(used)
        its_slack_s = promise.ttft_s - one.prompt_s - one.step_s
        share += part * _kept(one, its_slack_s, room, traffic, promise)
        slack_s += part * max(0.0, its_slack_s)
    return Steady(min(1.0, share), most_per_s, slack_s)


def _each_per_s(crew: Crew, fulls: Sequence[Full], traffic: Traffic, most_per_s: float) -> list[float]:
    """Requests a second at a replica of each kind."""
    if len(crew) == 1:
        return [min(traffic.arrivals_per_s / crew[0].number, fulls[0].requests_per_s)]
    if traffic.arrivals_per_s >= most_per_s:
        return [full.requests_per_s for full in fulls]
    kinds = [_taking(alike, full, traffic) for alike, full in zip(crew, fulls, strict=True)]
    batches = spread(kinds, traffic.arrivals_per_s)
    return [
        min(kind.rate_per_s(batch), traffic.arrivals_per_s / kind.number)
        for kind, batch in zip(kinds, batches, strict=True)
    ]


def _taking(alike: Alike, full: Full, traffic: Traffic) -> Taking:
    capacity, prompt_s = alike.capacity, _prompt_s(traffic, alike.capacity)
    tokens = traffic.prompt_tokens + 0.5 * traffic.output_tokens

    def rate_per_s(batch: float) -> float:
        # A law that was learned may say that a step with nothing in it takes no time.
        takes_s = traffic.output_tokens * capacity.step_s(batch, batch * tokens) + batch * prompt_s
        if takes_s > 0.0:
            return batch / takes_s
        return inf if batch > 0.0 else 0.0

    alone_s = capacity.prefill_s(traffic.prompt_tokens, 0.0)
    more_s = dearer_s(_growth_s(capacity, tokens), traffic.prompt_tokens)
    return Taking(alike.number, alone_s, more_s, full.batch, rate_per_s)


@value
class Used:
    """Replicas of one kind and what they have to do."""

    number: float
    each_per_s: float
    """Requests that come to one."""
    batch: float
    prompt_s: float
    prefilling: float
    """Share of the time that goes to prompts."""
    step_s: float
    growth_s: float
    """What a further sequence adds to a step."""

    @property
    def token_s(self) -> float:
        """From one token of an answer to the next."""
        return self.step_s / (1.0 - self.prefilling)


@value
class Room:
    """What all replicas have for those that come."""

    servers: float
    seats: float
    taken: float
    is_short: bool
    """More arrives than they answer. Then the line of those that do not fit says it all."""


def _used(alike: Alike, full: Full, each_per_s: float, traffic: Traffic) -> Used:
    capacity = alike.capacity
    prompt_s = _prompt_s(traffic, capacity)
    prefilling = min(each_per_s * prompt_s, 0.999)
    tokens = traffic.prompt_tokens + 0.5 * traffic.output_tokens
    growth_s = _growth_s(capacity, tokens)
    tokens_per_s = each_per_s * traffic.output_tokens / (1.0 - prefilling)
    batch = min(full.batch, _batch(tokens_per_s, capacity, growth_s))
    step_s = capacity.step_s(batch, batch * tokens)
    return Used(alike.number, each_per_s, batch, prompt_s, prefilling, step_s, growth_s)


def _kept(one: Used, slack_s: float, room: Room, traffic: Traffic, promise: Promise) -> float:
    """Of the requests at one of these, the share that keeps the promise."""
    token_s = one.token_s
    spread_s = pace_spread_s(
        token_s, one.each_per_s, one.prompt_s, traffic.output_tokens, one.growth_s, one.batch
    )
    in_pace = normal_share((promise.tpot_s - token_s) / spread_s)
    if room.is_short:
        return in_pace
    behind = late_share(slack_s, one.prefilling, room.servers, one.prompt_s)
    stay_s = traffic.output_tokens * token_s
    slotless = late_share(slack_s, room.taken / room.seats, room.seats, stay_s)
    return in_pace * (1.0 - behind) * (1.0 - slotless)


def _prompt_s(traffic: Traffic, capacity: Capacity) -> float:
    """What a prompt adds to the steps that compute it: without what a step takes in any case."""
    return capacity.prefill_s(traffic.prompt_tokens, 0.0) - capacity.prefill_s(0.0, 0.0)


def _growth_s(capacity: Capacity, tokens: float) -> float:
    """What a further sequence of so many tokens adds to a step."""
    return capacity.decode.k1 + capacity.decode.k2 * THOUSAND * tokens


def _batch(tokens_per_s: float, capacity: Capacity, growth_s: float) -> float:
    """The batch at which so many tokens come out of a replica each second; infinite when none is large enough."""
    left = 1.0 - tokens_per_s * growth_s
    return tokens_per_s * capacity.decode.k0 / left if left > 0.0 else inf
