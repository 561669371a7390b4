"""What replicas do with traffic that stays as it is: closed formulas on what was learned of each kind (``core.capacity``).

With ``n`` replicas at ``x`` requests a second each, of ``p`` prompt and ``o`` answer tokens:

- prompts take the share ``f = x * prefill(p)`` of the time, a token ``t = step(b) / (1 - f)``, and Little's law gives
  the batch ``b = x * o * t``; both are linear in ``b``, so ``b`` is found exactly (the fluid limit);
- one answer meets more or fewer prompts than the mean one, and a larger or smaller batch: so the share of answers in
  pace is a normal one (``core.queueing.pace_spread_s``);
- a first token waits behind other prompts by Sakasegawa's formula (``core.queueing``). For a slot it waits as
  ``filling`` says.

Replicas of several variants get what the router would give them (``core.spreading``): the fast ones more than the slow.
How long prompts and tokens take there is its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from tidegate.core.capacity import THOUSAND, Capacity
from tidegate.core.queueing import late_share, normal_share, pace_spread_s
from tidegate.core.scaling_settings import Promise
from tidegate.core.spreading import Taking, dearer_s, spread
from tidegate.core.values import value

POINTS = 8
"""Between which what a crew does is taken as straight."""
TINY = 1e-9


@value
class Traffic:
    """What arrives: requests a second, and tokens of the mean one."""

    arrivals_per_s: float
    prompt_tokens: float
    output_tokens: float
    queued: float = 0.0
    """Requests that wait already."""
    running: float | None = None
    """Requests at replicas; None: as many as such traffic keeps there."""


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
class Point:
    """What all of them do when so many requests run."""

    running: float
    ends_per_s: float
    share: float
    """Of the requests that find a seat in time, those that keep the promise."""


@value
class Answers:
    """What a crew does with requests of such lengths, by how many run: straight between points."""

    points: tuple[Point, ...]
    """From none to full."""
    slack_s: float
    """How long a request may wait for a seat and still be in time."""

    @property
    def seats(self) -> float:
        """Requests that run at once at most."""
        return self.points[-1].running

    @property
    def most_per_s(self) -> float:
        """Requests that all of them answer when they are full."""
        return self.points[-1].ends_per_s

    def ends(self, running: float) -> tuple[float, float]:
        """Requests that end a second when so many run, and how many more when one more does."""
        before, after = self._around(running)
        slope = (after.ends_per_s - before.ends_per_s) / max(TINY, after.running - before.running)
        return before.ends_per_s + slope * (min(running, after.running) - before.running), slope

    def share(self, running: float) -> float:
        """Of the requests that find a seat in time, those that keep the promise."""
        before, after = self._around(running)
        way = min(1.0, (running - before.running) / max(TINY, after.running - before.running))
        return before.share + way * (after.share - before.share)

    def runs(self, comes_per_s: float) -> float:
        """How many run when so many come; all seats are taken when those are more than end."""
        if comes_per_s >= self.most_per_s:
            return self.seats
        place = bisect_right(self.points, comes_per_s, key=lambda point: point.ends_per_s)
        before, after = self.points[place - 1], self.points[place]
        way = (comes_per_s - before.ends_per_s) / (after.ends_per_s - before.ends_per_s)
        return before.running + way * (after.running - before.running)

    def _around(self, running: float) -> tuple[Point, Point]:
        place = bisect_right(self.points, running, key=lambda point: point.running)
        place = min(max(1, place), len(self.points) - 1)
        return self.points[place - 1], self.points[place]


def answers_of(crew: Crew, traffic: Traffic, promise: Promise) -> Answers:
    """What those that serve do with such requests, however many come; there is at least a part of one."""
    fulls = [full_replica(traffic, alike.capacity, alike.slots) for alike in crew]
    most_per_s = sum(alike.number * full.requests_per_s for alike, full in zip(crew, fulls, strict=True))
    points: list[Point] = []
    slack_s = 0.0
    for place in range(POINTS + 1):
        flowing = replace(traffic, arrivals_per_s=most_per_s * place / POINTS)
        point, slack_s = _point(crew, fulls, flowing, most_per_s, promise)
        # Rounding, and nothing else, could have more come with fewer there.
        points.append(replace(point, running=max(point.running, points[-1].running if points else 0.0)))
    return Answers(tuple(points), slack_s)


def _point(
    crew: Crew, fulls: Sequence[Full], traffic: Traffic, most_per_s: float, promise: Promise
) -> tuple[Point, float]:
    """What all do when so much comes, and how long a request may wait for a seat then."""
    used = [
        _used(alike, full, each_per_s, traffic)
        for alike, full, each_per_s in zip(
            crew, fulls, _each_per_s(crew, fulls, traffic, most_per_s), strict=True
        )
    ]
    if traffic.arrivals_per_s >= most_per_s:
        used = [replace(one, batch=full.batch) for one, full in zip(used, fulls, strict=True)]
    servers = sum(alike.number for alike in crew)
    rate_per_s = sum(one.number * one.each_per_s for one in used)
    share = slack_s = 0.0
    for one in used:
        part = one.number * one.each_per_s / rate_per_s if rate_per_s > 0.0 else one.number / servers
        its_slack_s = promise.ttft_s - one.prompt_s - one.step_s
        share += part * _kept(one, its_slack_s, servers, traffic, promise)
        slack_s += part * max(0.0, its_slack_s)
    running = sum(one.number * one.batch for one in used)
    return Point(running, traffic.arrivals_per_s, min(1.0, share)), slack_s


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


def _kept(one: Used, slack_s: float, servers: float, traffic: Traffic, promise: Promise) -> float:
    """Of the requests that one of these begins at once, the share that keeps the promise."""
    token_s = one.token_s
    spread_s = pace_spread_s(
        token_s, one.each_per_s, one.prompt_s, traffic.output_tokens, one.growth_s, one.batch
    )
    in_pace = normal_share((promise.tpot_s - token_s) / spread_s)
    return in_pace * (1.0 - late_share(slack_s, one.prefilling, servers, one.prompt_s))


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
