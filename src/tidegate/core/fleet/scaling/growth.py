"""By how much demand grows within one lead time: learned from how it has grown so far.

A replica ordered now serves a lead time later, so what matters is the largest demand between now and then. Every few
seconds the demand of one lead time ago is compared with the largest since: that is one increment. Increments are kept
in a histogram whose counts fade, and the answer is the quantile that leaves a stated risk. Nothing is assumed of the
shape: noise, steps, ramps and bursts are all met by what they have lately been. A spike of long ago fades; one that has
been seen often enough is provided for. How long ago that is goes by lead time and risk too: what comes in three of a hundred
lead times cannot be read off the last three.
"""

from __future__ import annotations

from collections import deque
from math import log

from tidegate.core.knowledge import KnownIncrements, is_sane

EVERY_S = 5.0
HALF_LIFE_S = 1_800.0
"""A step each six minutes is remembered through an hour of silence; yesterday's is the forecast's business."""
HALF_LIFE_RISKS = 0.36
"""And at least so many lead times by the risk: 12 at 0.03, so two hours with a start of ten minutes, and half of one with
one of two."""
HALF_LIFE_MOST_S = 7 * 86_400.0
RISK = 0.03
"""Of lead times, those in which a rate may grow by more."""
FIRST_S = 300.0
"""So much time without growth is believed in before anything has been seen."""
BINS = 192
LEAST = 1e-3
STEP = 1.08
"""From one bin to the next: an answer is good to a twenty-fifth, and reaches to 2,400."""
TOO_LARGE = 1e12


class Growth:
    """The increments of one rate over one lead time, to be asked for what leaves so small a risk."""

    def __init__(self, risk: float = RISK) -> None:
        self.risk = risk
        self._rates: deque[tuple[float, float]] = deque()
        """Moment and rate, oldest first; at most one lead time of them."""
        self._counts = [0.0] * BINS
        self._total = FIRST_S / EVERY_S
        self._counts[0] = self._total
        self._unit = 1.0
        """What one increment counts now; it grows, so that older ones fade."""
        self._half_life_s = HALF_LIFE_S
        """In which they do, by the last lead time."""
        self._next_s: float | None = None
        self._seen = 0
        self._known: dict[float, float] = {}
        """Answers since the last increment."""

    def __repr__(self) -> str:
        return f"<Growth q95={self.quantile(0.95):.3g}>"

    @property
    def seen_s(self) -> float:
        """So much time has gone into it."""
        return EVERY_S * self._seen

    def add(self, rate: float, lead_s: float, now_s: float) -> None:
        """The rate is this now. More often than each five seconds adds nothing."""
        if self._next_s is not None and now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        rates = self._rates
        rates.append((now_s, rate))
        grown: float | None = None
        while rates and rates[0][0] <= now_s - lead_s:
            _, before = rates.popleft()
            grown = max([later for _, later in rates], default=before) - before
        if grown is not None:
            self._known.clear()
            self._seen += 1
            self._half_life_s = self._fades_in_s(lead_s)
            self._unit *= 2.0 ** (EVERY_S / self._half_life_s)
            self._counts[_bin(grown)] += self._unit
            self._total += self._unit
            if self._unit > TOO_LARGE:
                self._scale()

    def quantile(self, ratio: float) -> float:
        """Growth over a lead time is no more than this, but for a risk of ``1 - ratio``."""
        known = self._known.get(ratio)
        if known is None:
            known = self._known[ratio] = self._found(ratio)
        return known

    def remember(self, now_s: float) -> KnownIncrements:
        """What outlives this process."""
        counts = enumerate(self._counts)
        kept = tuple((number, count / self._unit) for number, count in counts if count > 0.0)
        return KnownIncrements(now_s, kept, self._seen, self._half_life_s)

    def restore(self, known: KnownIncrements, now_s: float) -> None:
        """Go on from what a former process knew. It has faded since, and nothing is known of the time between."""
        self._half_life_s = min(max(HALF_LIFE_S, known.half_life_s), HALF_LIFE_MOST_S)
        fade = 0.5 ** (max(0.0, now_s - known.at_s) / self._half_life_s)
        self._counts = [0.0] * BINS
        for number, count in known.counts:
            if 0 <= number < BINS and is_sane(count):
                self._counts[number] = fade * count
        # What has faded leaves as much as is believed of nothing.
        self._counts[0] += max(0.0, FIRST_S / EVERY_S - sum(self._counts))
        self._total, self._unit = sum(self._counts), 1.0
        self._seen = int(fade * known.seen) if is_sane(known.seen) else 0
        self._known.clear()

    def _fades_in_s(self, lead_s: float) -> float:
        leads = HALF_LIFE_RISKS / max(self.risk, 1e-6)
        return min(max(HALF_LIFE_S, leads * lead_s), HALF_LIFE_MOST_S)

    def _found(self, ratio: float) -> float:
        left = (1.0 - ratio) * self._total
        for number in range(BINS - 1, 0, -1):
            left -= self._counts[number]
            if left < 0:
                return float(LEAST * STEP**number)
        return 0.0

    def _scale(self) -> None:
        self._counts = [count / self._unit for count in self._counts]
        self._total /= self._unit
        self._unit = 1.0


def _bin(grown: float) -> int:
    if grown <= LEAST:
        return 0
    # The nearest one: a step of two must not be provided for as one of two and a quarter.
    return min(BINS - 1, max(1, round(log(grown / LEAST) / log(STEP))))
