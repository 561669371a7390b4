"""How the arrival rate moves over time: straight lines between knots, and jumps.

One form is enough for ramps, steps, recorded rates, days and flash crowds, and its running total has
an exact inverse. That inverse turns any process with a steady rate of 1 into one that follows the curve
(Gerhardt and Nelson, Transforming renewal processes for simulation of nonstationary arrival processes,
INFORMS Journal on Computing 21(4), 2009).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RateCurve:
    """Requests a second between the first knot and the last; nothing arrives outside."""

    knots: tuple[tuple[float, float], ...]
    """(moment in seconds, rate per second). Two knots of one moment are a jump."""

    def __post_init__(self) -> None:
        if len(self.knots) < 2 or any(after[0] < before[0] for before, after in pairwise(self.knots)):
            raise ValueError("a rate curve needs two knots or more, in order of time")
        if not all(math.isfinite(at_s) and math.isfinite(rate) and rate >= 0 for at_s, rate in self.knots):
            raise ValueError("a rate curve needs finite moments, and finite rates that are not negative")

    @property
    def start_s(self) -> float:
        return self.knots[0][0]

    @property
    def end_s(self) -> float:
        return self.knots[-1][0]

    @property
    def expected(self) -> float:
        """How many requests arrive on average."""
        return math.fsum((s1 - s0) * (r0 + r1) / 2.0 for (s0, r0), (s1, r1) in pairwise(self.knots))

    @property
    def peak_per_s(self) -> float:
        return max(rate for _, rate in self.knots)

    @property
    def mean_per_s(self) -> float:
        return self.expected / (self.end_s - self.start_s)

    def rate_before(self, at_s: float) -> float:
        """The rate just before this moment; 0 outside."""
        place = bisect_left(self.knots, at_s, key=_moment)
        return self._rate_on(place, at_s) if 0 < place < len(self.knots) else 0.0

    def rate_after(self, at_s: float) -> float:
        """The rate just after this moment; 0 outside."""
        place = bisect_right(self.knots, at_s, key=_moment)
        return self._rate_on(place, at_s) if 0 < place < len(self.knots) else 0.0

    def scaled(self, *, rate: float = 1.0, time: float = 1.0) -> RateCurve:
        """All rates times ``rate``, all moments times ``time``."""
        return RateCurve(tuple((at_s * time, per_s * rate) for at_s, per_s in self.knots))

    def __add__(self, other: RateCurve) -> RateCurve:
        """Both at once."""
        moments = sorted({at_s for at_s, _ in self.knots + other.knots})
        knots: list[tuple[float, float]] = []
        for at_s in moments:
            before = self.rate_before(at_s) + other.rate_before(at_s)
            after = self.rate_after(at_s) + other.rate_after(at_s)
            knots.append((at_s, before))
            if after != before:
                knots.append((at_s, after))
        return RateCurve(tuple(knots))

    def moments(self, positions: Iterable[float]) -> Iterator[float]:
        """When the running total reaches each position; ends with the first that it never reaches.

        Positions must not fall. A walk along the curve: constant work a position.
        """
        pieces = pairwise(self.knots)
        (start_s, rate), (end_s, end_rate) = next(pieces)
        passed, area = 0.0, (end_s - start_s) * (rate + end_rate) / 2.0
        for position in positions:
            while position - passed >= area:
                piece = next(pieces, None)
                if piece is None:
                    return
                passed += area
                (start_s, rate), (end_s, end_rate) = piece
                area = (end_s - start_s) * (rate + end_rate) / 2.0
            yield min(end_s, start_s + _reached(position - passed, rate, end_rate, end_s - start_s))

    def _rate_on(self, place: int, at_s: float) -> float:
        (s0, r0), (s1, r1) = self.knots[place - 1], self.knots[place]
        part = (at_s - s0) / (s1 - s0)
        # Weighted ends rather than r0 + (r1 - r0) * part, which can fall below 0 where r1 is 0.
        return r0 * (1.0 - part) + r1 * part


def steady(per_s: float, for_s: float) -> RateCurve:
    """The same rate all the time."""
    return RateCurve(((0.0, per_s), (for_s, per_s)))


def ramp(from_per_s: float, to_per_s: float, for_s: float) -> RateCurve:
    """From one rate to another in a straight line."""
    return RateCurve(((0.0, from_per_s), (for_s, to_per_s)))


def steps(parts: Iterable[tuple[float, float]]) -> RateCurve:
    """One rate after another: (for how many seconds, rate)."""
    knots: list[tuple[float, float]] = []
    now_s = 0.0
    for for_s, per_s in parts:
        knots += [(now_s, per_s), (now_s + for_s, per_s)]
        now_s += for_s
    return RateCurve(tuple(knots))


def daily(
    mean_per_s: float, *, peak_ratio: float = 1.8, peak_at_h: float = 14.0, days: float = 1.0
) -> RateCurve:
    """A cosine over each day whose top is ``peak_ratio`` (1 to 2) times the mean, from midnight on.

    A knot every quarter of an hour keeps the mean of whole days exact and every rate within 0.06 % of
    the cosine's swing.
    """
    if not 1.0 <= peak_ratio <= 2.0:
        message = (
            f"peak_ratio is {peak_ratio:g}; it must be from 1 to 2, or the night's rate would be negative"
        )
        raise ValueError(message)
    count = max(1, math.ceil(days * 96))
    moments = [min(days * DAY_S, number * DAY_S / 96) for number in range(count + 1)]
    swing = peak_ratio - 1.0
    phases = (2.0 * math.pi * (moment / DAY_S - peak_at_h / 24.0) for moment in moments)
    rates = [max(0.0, mean_per_s * (1.0 + swing * math.cos(phase))) for phase in phases]
    return RateCurve(tuple(zip(moments, rates, strict=True)))


def flash_crowd(
    base_per_s: float,
    peak_per_s: float,
    *,
    for_s: float,
    at_s: float,
    rise_s: float = 10.0,
    hold_s: float = 60.0,
    half_life_s: float = 120.0,
) -> RateCurve:
    """A steady rate; at ``at_s`` it rises to the peak, stays, and what is above the base fades by halves.

    The fading is drawn with eight knots a half-life and ends, at the base, after ten half-lives.
    """
    top_s = at_s + rise_s + hold_s
    knots = [(0.0, base_per_s), (at_s, base_per_s), (at_s + rise_s, peak_per_s), (top_s, peak_per_s)]
    for eighth in range(1, 80):
        above = (peak_per_s - base_per_s) * 0.5 ** (eighth / 8)
        knots.append((top_s + half_life_s * eighth / 8, base_per_s + above))
    over_s = top_s + 10 * half_life_s
    knots += [(over_s, base_per_s), (max(for_s, over_s), base_per_s)]
    return clipped(RateCurve(tuple(knots)), for_s)


def clipped(curve: RateCurve, until_s: float) -> RateCurve:
    """The curve up to a moment."""
    if until_s >= curve.end_s:
        return curve
    kept = [knot for knot in curve.knots if knot[0] < until_s]
    return RateCurve((*kept, (until_s, curve.rate_before(until_s))))


def _moment(knot: tuple[float, float]) -> float:
    return knot[0]


def _reached(part: float, rate: float, end_rate: float, for_s: float) -> float:
    """When a rate that moves in a straight line has let ``part`` requests in.

    The root of rate*t + slope*t*t/2 = part, written so that nothing cancels when the slope is small.
    """
    slope = (end_rate - rate) / for_s
    root = math.sqrt(max(0.0, rate * rate + 2.0 * slope * part))
    # 0 also when the part is too small for its root to be a number.
    return 2.0 * part / (rate + root) if rate + root > 0.0 else 0.0
