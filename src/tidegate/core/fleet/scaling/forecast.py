"""Demand a lead time ahead, from the same hours of the days and weeks before: a floor, never the target.

A day has 96 places of a quarter of an hour. Of each, the highest five-minute rate is kept, with its date, for four weeks.
The forecast for a span is the highest place that it touches: there the quantile of the last days, or of the last same days
of the week, that leaves the risk; times how today compares with what was usual lately (the trend), by halves and doubles at
most.

It has to prove itself by what it adds. Every five minutes its former answer for now is compared with what came, and so is
the naive one: what is provided for without it, which is all that came last with whatever is held for growth. Both are judged
by pinball loss at the same quantile (Koenker and Bassett, 1978), fading with a half-life of a day. As long as the naive one is
better, and before a day has been seen, there is no forecast: to beat the bare last rate is no merit where something is held
beyond it. Nothing it says goes beyond a multiple of what the last hour has seen, so one that goes wild costs no more than
that.

Times are on the brain's clock; where its zero lies does not matter, as long as it does not jump.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf
from statistics import median

from tidegate.core.knowledge import KnownRates, is_sane
from tidegate.core.values import value

DAY_S, WEEK_DAYS = 86_400.0, 7
PLACE_S = 900.0
PLACES = int(DAY_S / PLACE_S)
EVERY_S = 300.0
DAYS_KEPT, WEEKS_KEPT = 8, 4
PLACES_KEPT = PLACES * WEEK_DAYS * WEEKS_KEPT
RECENT = 12
"""Five-minute rates that are called the last hour."""
HOUR_PLACES = 4
RISK = 0.05
"""Of spans, those in which more may come than the forecast says."""
TREND_LEAST, TREND_MOST = 0.5, 2.0
BAND = 3.0
"""Times the highest of the last hour: no forecast goes beyond."""
FADE = 0.5 ** (EVERY_S / DAY_S)
PROVEN_AFTER = 36
"""Comparisons: three hours of them."""
BETTER = 0.95
"""Of the naive one's loss, what the forecast's may be at most to be believed; once believed, as much."""

SETS_FLOOR = "forecast_sets_floor"
"""Among a decision's inputs: 1 where what is held is more than the law would hold without the forecast."""


@value
class Before:
    """What came at these hours of an earlier day."""

    requests_per_s: float
    days_ago: int


@value
class Expected:
    """What is expected within a lead time."""

    requests_per_s: float
    ahead_s: float
    is_believed: bool
    """It has proven itself, and is provided for."""
    sets_floor: bool = False
    """More is held for it than would be without."""


class Forecast:
    """The forecaster of one model's rate. Owns what is known of earlier days."""

    def __init__(self, risk: float = RISK) -> None:
        self._risk = risk
        self._highest: dict[int, float] = {}
        """Of each quarter of an hour that is over, counted from the clock's zero."""
        self._told: tuple[float | None, ...] | None = None
        """These as they are told, once they have been: they grow by one in a quarter of an hour."""
        self._said: dict[tuple[int, int], float | None] = {}
        """What is expected from one place to another, until the next rate comes."""
        self._place: int | None = None
        """The one under way, and the highest rate in it so far."""
        self._high = 0.0
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._next_s: float | None = None
        self._claims: deque[tuple[float, float, float]] = deque()
        """For when, what is provided for with the forecast, and what without it."""
        self._may_claim = False
        """Nothing was claimed since the last rate came."""
        self._loss = self._naive_loss = 0.0
        self._compared = 0
        self._asked: tuple[float | None, float] = None, 0.0
        """What was expected when a law that acts asked last, and how far ahead."""
        self._asked_s = -inf
        self.is_believed = False
        """It has lately done better than what is provided for without it."""

    def __repr__(self) -> str:
        return f"<Forecast believed={self.is_believed} loss={self._loss:.3g} naive={self._naive_loss:.3g}>"

    def is_due(self, now_s: float) -> bool:
        """The next rate can be added."""
        if self._next_s is None:
            self._next_s = now_s + EVERY_S
        return now_s >= self._next_s

    def add(self, rate: float, now_s: float) -> None:
        """So many requests a second have come over the last ``EVERY_S``. Before it ``is_due`` this changes nothing."""
        if not self.is_due(now_s):
            return
        self._next_s = now_s + EVERY_S
        # Four digits are enough to plan with, and to be written down for weeks.
        rate = float(f"{rate:.4g}")
        self._compare(rate, now_s)
        self._recent.append(rate)
        self._keep(rate, now_s)
        self._may_claim = True
        self._said.clear()

    def floor(self, lead_s: float, now_s: float, held: float = 0.0, *, acts: bool = True) -> float | None:
        """Not fewer requests a second than this are to be provided for within the lead time; None while it is not
        believed. ``held`` are provided for without it, the last rate at least. Once after each rate the answer is kept, to be
        compared with what comes: that to a law that ``acts``, and one to another only while none that acts asks."""
        if acts:
            self._asked_s = now_s
        may_claim = self._may_claim and (acts or now_s > self._asked_s + 2 * EVERY_S)
        if not (self.is_believed or may_claim):
            return None
        said = self._expected(now_s, lead_s)
        if acts:
            self._asked = said, lead_s
        if may_claim:
            self._may_claim = False
            if said is not None and self._recent:
                stays = max(held, self._recent[-1])
                self._claims.append((now_s + max(lead_s, EVERY_S), max(said, stays), stays))
        return said if self.is_believed else None

    @property
    def told(self) -> Expected | None:
        """What was expected when a law that acts asked last; None while those hours have never been seen, and where none does."""
        said, ahead_s = self._asked
        return None if said is None else Expected(said, ahead_s, self.is_believed)

    def before(self, ahead_s: float, now_s: float) -> Before | None:
        """The most that came a day or a week ago at the hours from now until ``ahead_s`` from now, whether the forecast is
        believed or not; None when nothing did."""
        first, last = int(now_s // PLACE_S), int((now_s + min(ahead_s, DAY_S)) // PLACE_S)
        found = [
            Before(self._highest.get(place - days * PLACES, 0.0), days)
            for days in (1, WEEK_DAYS)
            for place in range(first, last + 1)
        ]
        most = max(found, key=lambda before: before.requests_per_s)
        return most if most.requests_per_s > 0.0 else None

    # ---- across restarts ----

    def remember(self, now_s: float) -> KnownRates | None:
        """What outlives this process; None while there is nothing."""
        if self._place is None:
            return None
        if self._told is None:
            kept = [place for place in self._highest if place >= self._place - PLACES_KEPT]
            first = min(kept, default=self._place)
            self._told = tuple(map(self._highest.get, range(first, self._place)))
        return KnownRates(
            at_s=now_s,
            place=self._place,
            rates=self._told,
            high=self._high,
            recent=tuple(self._recent),
            claims=tuple(self._claims),
            loss=self._loss,
            naive_loss=self._naive_loss,
            compared=self._compared,
            is_believed=self.is_believed,
            next_s=self._next_s,
        )

    def restore(self, known: KnownRates, now_s: float) -> None:
        """Go on from what a former process knew. Its days keep their dates, and its last hour is the last one only for
        as long; figures that cannot be rates are left out."""
        rates, here = known.rates[-PLACES_KEPT:], int(now_s // PLACE_S)
        dated = enumerate(rates, known.place - len(rates))
        self._highest = {at: rate for at, rate in dated if at < here and rate is not None and is_sane(rate)}
        if known.place <= here and is_sane(known.high):
            self._place, self._high = known.place, known.high
        if 0.0 <= now_s - known.at_s <= RECENT * EVERY_S:
            self._recent.extend(filter(is_sane, known.recent))
            self._claims.extend(claim for claim in known.claims[-PLACES:] if all(map(is_sane, claim)))
            if known.next_s is not None:
                self._next_s = min(known.next_s, now_s + EVERY_S)
        if is_sane(known.loss) and is_sane(known.naive_loss):
            self._loss, self._naive_loss = known.loss, known.naive_loss
            self._compared, self.is_believed = max(0, known.compared), known.is_believed

    # ---- what was usual ----

    def _keep(self, rate: float, now_s: float) -> None:
        place = int(now_s // PLACE_S)
        if self._place is not None and place != self._place:
            self._highest[self._place] = self._high
            if self._told is not None:
                goes_on = place == self._place + 1
                self._told = (*self._told[1 - PLACES_KEPT :], self._high) if goes_on else None
            self._high = 0.0
            if len(self._highest) > PLACES_KEPT + PLACES:
                self._highest = {at: one for at, one in self._highest.items() if at >= place - PLACES_KEPT}
        self._place = place
        self._high = max(self._high, rate)

    def _expected(self, now_s: float, lead_s: float) -> float | None:
        """The quantile of the highest within the lead time; None while those hours have never been seen."""
        # A day has all the places there are.
        first, last = int(now_s // PLACE_S), int((now_s + min(lead_s, DAY_S)) // PLACE_S)
        if (first, last) not in self._said:
            found = [self._usual(place) for place in range(first, last + 1)]
            known = [quantile for quantile in found if quantile is not None]
            most = BAND * max(self._recent, default=0.0)
            said = max(0.0, min(max(known) * self._trend(first), most)) if known else None
            self._said[first, last] = said
        return self._said[first, last]

    def _usual(self, place: int) -> float | None:
        weeks = self._seen_at(range(place - PLACES * WEEK_DAYS, place - PLACES_KEPT - 1, -PLACES * WEEK_DAYS))
        values = sorted(weeks if len(weeks) > 1 else self._lately(place - PLACES))
        if not values:
            return None
        return values[min(len(values) - 1, int((1.0 - self._risk) * len(values)))]

    def _trend(self, place: int) -> float:
        """How the last hour compares with what it usually is: its four places with the same ones of the days before."""
        pairs = [
            (self._highest[at], median(usual))
            for at in range(place - HOUR_PLACES, place)
            if at in self._highest and (usual := self._lately(at - PLACES))
        ]
        expected = sum(usual for _, usual in pairs)
        if len(pairs) < HOUR_PLACES or expected <= 0.0:
            return 1.0
        return max(TREND_LEAST, min(sum(seen for seen, _ in pairs) / expected, TREND_MOST))

    def _lately(self, place: int) -> list[float]:
        """Of that place and the same one of the days before it."""
        return self._seen_at(range(place, place - PLACES * DAYS_KEPT, -PLACES))

    def _seen_at(self, places: Iterable[int]) -> list[float]:
        highest = self._highest
        return [highest[place] for place in places if place in highest]

    # ---- how good it has been ----

    def _compare(self, came: float, now_s: float) -> None:
        while self._claims and self._claims[0][0] <= now_s:
            at_s, said, stays = self._claims.popleft()
            if at_s <= now_s - 2 * EVERY_S:
                continue  # nobody looked when it was due
            self._loss = FADE * self._loss + self._pinball(said, came)
            self._naive_loss = FADE * self._naive_loss + self._pinball(stays, came)
            self._compared += 1
        if self._compared >= PROVEN_AFTER:
            limit = self._naive_loss * (1.0 if self.is_believed else BETTER)
            self.is_believed = self._loss < limit

    def _pinball(self, said: float, came: float) -> float:
        """Too little costs as much more than too much as the risk is small."""
        return (1.0 - self._risk) * (came - said) if came >= said else self._risk * (said - came)


class Aside:
    """The forecaster of one model for a law that looks on: whoever acts is told, and judged, as if nobody did."""

    def __init__(self, forecast: Forecast) -> None:
        self._forecast = forecast

    def __repr__(self) -> str:
        return f"<Aside {self._forecast!r}>"

    def floor(self, lead_s: float, now_s: float, held: float = 0.0) -> float | None:
        """As ``Forecast.floor``."""
        return self._forecast.floor(lead_s, now_s, held, acts=False)

    @property
    def told(self) -> None:
        """Nothing: what is told is of laws that act."""
        return None
