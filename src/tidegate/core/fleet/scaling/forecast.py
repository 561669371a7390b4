"""Demand a lead time ahead, from the same hours of the days and weeks before: a floor, never the target.

A day has 96 places of a quarter of an hour. Of each, the highest five-minute rates of the last eight days are kept, and
those of the last four same days of the week. The forecast for a span is the highest place that it touches: there the
quantile that leaves the risk, times how today compares with what was usual lately (the trend), by halves and doubles at most.

It has to prove itself. Every five minutes its former answer for now is compared with what came, and so is the naive one,
that all stays as it is: both by pinball loss at the same quantile (Koenker and Bassett, 1978), fading with a half-life of a
day. As long as the naive one is better, and before a day has been seen, there is no forecast. Nothing it says goes beyond
a multiple of what the last hour has seen, so one that goes wild costs no more than that.

Times are on the brain's clock; where its zero lies does not matter, as long as it does not jump.
"""

from __future__ import annotations

from collections import deque
from statistics import median

DAY_S, WEEK_DAYS = 86_400.0, 7
PLACE_S = 900.0
PLACES = int(DAY_S / PLACE_S)
EVERY_S = 300.0
DAYS_KEPT, WEEKS_KEPT = 8, 4
RECENT = 12
"""Five-minute rates that are called the last hour."""
TREND_LEAST, TREND_MOST = 0.5, 2.0
BAND = 3.0
"""Times the highest of the last hour: no forecast goes beyond."""
FADE = 0.5 ** (EVERY_S / DAY_S)
PROVEN_AFTER = 36
"""Comparisons: three hours of them."""
BETTER = 0.95
"""Of the naive one's loss, what the forecast's may be at most to be believed; once believed, as much."""


class Forecast:
    """The forecaster of one model's rate."""

    def __init__(self, risk: float) -> None:
        self._risk = risk
        self._days: list[deque[float]] = [deque(maxlen=DAYS_KEPT) for _ in range(PLACES)]
        self._weeks: list[deque[float]] = [deque(maxlen=WEEKS_KEPT) for _ in range(PLACES * WEEK_DAYS)]
        self._place: int | None = None
        """Counted from the clock's zero: the quarter of an hour that is under way."""
        self._highest = 0.0
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._sum = 0.0
        self._count = 0
        self._next_s: float | None = None
        self._claims: deque[tuple[float, float, float]] = deque()
        """For when, what the forecast said, and what the naive one did."""
        self._loss = self._naive_loss = 0.0
        self._compared = 0
        self.is_believed = False
        """It has lately done better than saying that all stays as it is."""

    def __repr__(self) -> str:
        return f"<Forecast believed={self.is_believed} loss={self._loss:.3g} naive={self._naive_loss:.3g}>"

    def add(self, rate: float, lead_s: float, now_s: float) -> None:
        """The rate is this now."""
        self._sum += rate
        self._count += 1
        if self._next_s is None:
            self._next_s = now_s + EVERY_S
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        mean = self._sum / self._count
        self._sum, self._count = 0.0, 0
        self._compare(mean, now_s)
        self._recent.append(mean)
        self._keep(mean, now_s)
        said = self._expected(now_s, lead_s)
        if said is not None:
            self._claims.append((now_s + max(lead_s, EVERY_S), said, mean))

    def floor(self, lead_s: float, now_s: float) -> float | None:
        """Not fewer requests a second than this are to be provided for; None while it is not believed."""
        return self._expected(now_s, lead_s) if self.is_believed else None

    # ---- what was usual ----

    def _keep(self, mean: float, now_s: float) -> None:
        place = int(now_s // PLACE_S)
        if self._place is not None and place != self._place:
            self._days[self._place % PLACES].append(self._highest)
            self._weeks[self._place % (PLACES * WEEK_DAYS)].append(self._highest)
            self._highest = 0.0
        self._place = place
        self._highest = max(self._highest, mean)

    def _expected(self, now_s: float, lead_s: float) -> float | None:
        """The quantile of the highest within the lead time; None while those hours have never been seen."""
        first, last = int(now_s // PLACE_S), int((now_s + lead_s) // PLACE_S)
        found = [self._usual(place) for place in range(first, last + 1)]
        known = [quantile for quantile in found if quantile is not None]
        if not known:
            return None
        most = BAND * max(self._recent, default=0.0)
        return max(0.0, min(max(known) * self._trend(first), most))

    def _usual(self, place: int) -> float | None:
        days, weeks = self._days[place % PLACES], self._weeks[place % (PLACES * WEEK_DAYS)]
        values = sorted(weeks if len(weeks) > 1 else days)
        if not values:
            return None
        return values[min(len(values) - 1, int((1.0 - self._risk) * len(values)))]

    def _trend(self, place: int) -> float:
        """How the last hour compares with what it usually is."""
        usual = [list(self._days[before % PLACES]) for before in range(place - 4, place)]
        expected = [median(values) for values in usual if values]
        if not expected or sum(expected) <= 0.0 or len(self._recent) < RECENT:
            return 1.0
        seen = sum(self._recent) / len(self._recent)
        return max(TREND_LEAST, min(seen / (sum(expected) / len(expected)), TREND_MOST))

    # ---- how good it has been ----

    def _compare(self, came: float, now_s: float) -> None:
        while self._claims and self._claims[0][0] <= now_s:
            _, said, stays = self._claims.popleft()
            self._loss = FADE * self._loss + self._pinball(said, came)
            self._naive_loss = FADE * self._naive_loss + self._pinball(stays, came)
            self._compared += 1
        if self._compared >= PROVEN_AFTER:
            limit = self._naive_loss * (1.0 if self.is_believed else BETTER)
            self.is_believed = self._loss < limit

    def _pinball(self, said: float, came: float) -> float:
        """Too little costs as much more than too much as the risk is small."""
        return (1.0 - self._risk) * (came - said) if came >= said else self._risk * (said - came)
