"""How many requests a second there are now: as soon as it is certain, and not before.

The mean over a minute is steady and late; that over ten seconds is quick and mostly chance. Of several spans the one
counts that says most after what chance can do has been taken off. How irregular arrivals are is measured: counts of
steps of five seconds, each against the one before it, so that a trend is no irregularity.
"""

from __future__ import annotations

from math import sqrt

from tidegate.core.fleet.scaling.past import Past

SPANS_S = (10.0, 20.0, 40.0)
STEADY_S = 60.0
CERTAIN = 2.0
"""Standard deviations."""
STEP_S = 5.0
SMOOTH = 0.03
"""What a new step counts: about the last three minutes."""
REGULAR = 0.02
"""Index of dispersion: 1 for arrivals by chance alone, 0 for a clockwork."""
LATER_S, EARLIER_S = 30.0, 60.0
"""Two spans that are compared to see a trend."""
TRUSTED, TRUSTED_LEAST = 4.0, 0.1
"""Times what was usual: one step of the rate does not make arrivals irregular."""


class Arrivals:
    """The rate of one model's requests."""

    def __init__(self) -> None:
        self._dispersion = 1.0
        self._last: float | None = None
        self._next_s = 0.0

    def __repr__(self) -> str:
        return f"<Arrivals dispersion={self._dispersion:.2f}>"

    def look(self, past: Past, now_s: float) -> None:
        """Learn how irregular they are."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + STEP_S
        rate = past.arrivals_per_s(STEP_S, now_s)
        if rate is None:
            return
        if self._last is not None and rate + self._last > 0:
            count, before = rate * STEP_S, self._last * STEP_S
            seen = (count - before) ** 2 / (count + before)
            believed = min(seen, TRUSTED * self._dispersion + TRUSTED_LEAST)
            self._dispersion += SMOOTH * (believed - self._dispersion)
        self._last = rate

    def per_s(self, past: Past, now_s: float) -> float | None:
        """The rate that is certain; None while nothing is known."""
        steady = past.arrivals_per_s(STEADY_S, now_s)
        if steady is None:
            return None
        found = steady
        spread = CERTAIN * sqrt(max(REGULAR, self._dispersion))
        for span_s in SPANS_S:
            rate = past.arrivals_per_s(span_s, now_s)
            if rate is not None and rate > found:
                count = rate * span_s
                found = max(found, (count - spread * sqrt(count)) / span_s)
        return found

    def lasting_per_s(self, past: Past, now_s: float) -> float:
        """What came in each of the last two steps, and not in one burst; 0 while that is not known."""
        later, both = past.arrivals_per_s(STEP_S, now_s), past.arrivals_per_s(2 * STEP_S, now_s)
        return 0.0 if later is None or both is None else max(0.0, min(later, 2 * both - later))

    def rise_per_s(self, past: Past, now_s: float) -> float:
        """By how much the rate grows each second, as far as that is certain: the last half minute against the minute before.

        0 while less than that has been seen.
        """
        if past.seen_s(now_s) < LATER_S + EARLIER_S:
            return 0.0
        later, whole = past.arrivals_per_s(LATER_S, now_s), past.arrivals_per_s(LATER_S + EARLIER_S, now_s)
        if later is None or whole is None:
            return 0.0
        earlier = max(0.0, (whole * (LATER_S + EARLIER_S) - later * LATER_S) / EARLIER_S)
        deviation = sqrt(max(REGULAR, self._dispersion) * (later / LATER_S + earlier / EARLIER_S))
        return max(0.0, later - earlier - CERTAIN * deviation) / (0.5 * (LATER_S + EARLIER_S))
