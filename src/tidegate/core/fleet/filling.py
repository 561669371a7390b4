"""How many requests are at replicas and in line before them, as time goes on: a mean, and how far chance spreads it.

What comes fills seats (slots, or what memory has room for), and what finds none waits in line. With ``N`` requests there the
replicas end ``ends(N)`` a second (``answering``), and in the fluid limit ``N' = comes - ends(N)``. Around that mean chance
makes ``N`` a normal number, whose variance follows ``V' = comes + ends - 2 * back * V``, where ``back`` is by how much more
is ended when one more is there (Mandelbaum, Massey and Reiman, Strong approximations for Markovian service networks,
Queueing Systems 30, 1998). Near the edge of capacity, where a part of the normal number waits and a part does not, both
sides are means over it (Massey and Pender, Gaussian skewness approximation for dynamic rate multi-server queues with
abandonment, Queueing Systems 75, 2013). Lengths are taken as memoryless.
"""

from __future__ import annotations

from math import ceil, exp, expm1, inf, sqrt

from tidegate.core.fleet.answering import Answers
from tidegate.core.queueing import normal_density, normal_share
from tidegate.core.values import value

STEP_S = 1.0
STILL = 1e-3
"""Requests by which nothing changes any more in a step: so it goes on."""


@value
class Filled:
    """Requests that wait or run."""

    mean: float
    variance: float = 0.0

    def without(self, share: float, seats: float) -> Filled:
        """Replicas with this share of the seats take no more: what runs there is no load of those that stay."""
        left = 1.0 - share * min(self.mean, seats) / self.mean if self.mean > 0.0 else 1.0
        return Filled(self.mean * left, self.variance * left * left)

    def at_most(self, mean: float) -> Filled:
        """Whoever comes beyond that is turned away."""
        return self if self.mean <= mean else Filled(mean, 0.0)


def fill(
    filled: Filled, answers: Answers, comes_per_s: float, span_s: float, *, came: bool
) -> tuple[Filled, float]:
    """What is there after ``span_s``, and of what comes meanwhile the share that keeps the promise.

    ``came``: so many did come, so there is no chance in it.
    """
    steps = ceil(span_s / STEP_S)
    if steps <= 0:
        return filled, 1.0
    bearable = answers.seats + answers.slack_s * answers.most_per_s
    kept = 0.0
    for step in range(steps):
        after, running = _step(filled, answers, comes_per_s, span_s / steps, came=came)
        mean, variance = 0.5 * (filled.mean + after.mean), 0.5 * (filled.variance + after.variance)
        share = answers.share(running) * normal_share(_deviations(bearable - mean, variance))
        is_still = abs(after.mean - filled.mean) + abs(after.variance - filled.variance) < STILL
        kept += share * (steps - step if is_still else 1)
        filled = after
        if is_still:
            break
    return filled, kept / steps


def _step(
    filled: Filled, answers: Answers, comes_per_s: float, span_s: float, *, came: bool
) -> tuple[Filled, float]:
    """After a span in which replicas change what they do by little, and how many ran in it."""
    deviation, free = sqrt(filled.variance), answers.seats - filled.mean
    has_room = normal_share(_deviations(free, filled.variance))
    waits = max(0.0, -free)
    if deviation > 0.0:
        waits = deviation * normal_density(free / deviation) - free * (1.0 - has_room)
    running = max(0.0, filled.mean - waits)
    ends_per_s, back = answers.ends(running)
    back *= has_room
    decays, reach_s = exp(-back * span_s), _reach_s(back, span_s)
    mean = max(0.0, filled.mean + (comes_per_s - ends_per_s) * reach_s)
    noise = ends_per_s + (0.0 if came else comes_per_s)
    variance = filled.variance * decays * decays + noise * _reach_s(2.0 * back, span_s)
    return Filled(mean, variance), running


def _reach_s(back: float, span_s: float) -> float:
    """A span, as far as what is given back in it leaves of its effect."""
    return -expm1(-back * span_s) / back if back > 0.0 else span_s


def _deviations(room: float, variance: float) -> float:
    if variance > 0.0:
        return room / sqrt(variance)
    return inf if room >= 0.0 else -inf
