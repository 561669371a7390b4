"""What came at each quarter of an hour of the last four weeks, how long it was, and what is usual at this one.

A day has 96 *places* of a quarter of an hour, counted from the clock's zero. Of each the five minutes that asked for most are
kept: requests a second, and their lengths where somebody said. They are compared by their work, requests by what they are worth
(``scaling.worth``): a thousand long prompts are more than a thousand short ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from statistics import median

from tidegate.core.fleet.scaling.worth import Lengths, rounded, sane_lengths, worth
from tidegate.core.knowledge import KnownRates, is_sane
from tidegate.core.values import value

DAY_S, WEEK_DAYS = 86_400.0, 7
PLACE_S = 900.0
PLACES = int(DAY_S / PLACE_S)
DAYS_KEPT, WEEKS_KEPT = 8, 4
PLACES_KEPT = PLACES * WEEK_DAYS * WEEKS_KEPT
HOUR_PLACES = 4
TREND_LEAST, TREND_MOST = 0.5, 2.0


@value
class Before:
    """What came at these hours of an earlier day."""

    requests_per_s: float
    days_ago: int


class Days:
    """The record of one model's days."""

    def __init__(self) -> None:
        self._highest: dict[int, float] = {}
        """Requests a second, of each place that is over."""
        self._lengths: dict[int, Lengths] = {}
        """And how long they were, where somebody said. Tuples of numbers: there are weeks of them, and whoever collects
        garbage does not look into them."""
        self.now: Lengths | None = None
        """How long requests were when that was last said."""
        self._place: int | None = None
        """The one under way, and the busiest five minutes in it so far."""
        self._high = 0.0
        self._high_lengths: Lengths | None = None
        self._told: tuple[tuple[float | None, ...], tuple[Lengths | None, ...]] | None = None
        """Those that are over as they are told, once they have been: they grow by one in a quarter of an hour."""

    def __repr__(self) -> str:
        return f"<Days places={len(self._highest)}>"

    def add(self, rate: float, lengths: Lengths | None, now_s: float) -> float:
        """So many requests a second have come in the last five minutes, so long; None: as long as those before. What they are
        worth."""
        rate, place = rounded(rate), int(now_s // PLACE_S)
        if lengths is not None:
            self.now = rounded(lengths[0]), rounded(lengths[1])
        work = rate * self.worth(self.now)
        if self._place is not None and place != self._place:
            self._close(self._place, place)
        if place != self._place or work > self._high * self.worth(self._high_lengths):
            self._high, self._high_lengths = rate, self.now
        self._place = place
        return work

    def worth(self, lengths: Lengths | None) -> float:
        """One request, in ordinary ones. Those of which nobody has said how long they were count as those of now."""
        known = lengths or self.now
        return 1.0 if known is None else worth(known)

    def lengths_at(self, place: int) -> Lengths | None:
        """How long requests were there, by the same rule."""
        return self._lengths.get(place, self.now)

    def usual(self, place: int, risk: float) -> tuple[float, int] | None:
        """The quantile of the work at these hours of the last days, or of the last same days of the week, that leaves the
        risk, and in which place it came; None while those have never been seen."""
        weeks = self._seen_at(range(place - PLACES * WEEK_DAYS, place - PLACES_KEPT - 1, -PLACES * WEEK_DAYS))
        seen = weeks if len(weeks) > 1 else self._lately(place - PLACES)
        found = sorted((self._work(at), at) for at in seen)
        return found[min(len(found) - 1, int((1.0 - risk) * len(found)))] if found else None

    def trend(self, place: int) -> float:
        """How the last hour compares with what it usually is: its four places with the same ones of the days before."""
        pairs = [
            (self._work(at), median(map(self._work, usual)))
            for at in range(place - HOUR_PLACES, place)
            if at in self._highest and (usual := self._lately(at - PLACES))
        ]
        expected = sum(usual for _, usual in pairs)
        if len(pairs) < HOUR_PLACES or expected <= 0.0:
            return 1.0
        return max(TREND_LEAST, min(sum(seen for seen, _ in pairs) / expected, TREND_MOST))

    def before(self, ahead_s: float, now_s: float) -> Before | None:
        """The most that came a day or a week ago at the hours from now until ``ahead_s`` from now; None when nothing did."""
        first, last = int(now_s // PLACE_S), int((now_s + min(ahead_s, DAY_S)) // PLACE_S)
        found = [
            Before(self._highest.get(place - days * PLACES, 0.0), days)
            for days in (1, WEEK_DAYS)
            for place in range(first, last + 1)
        ]
        most = max(found, key=lambda before: before.requests_per_s)
        return most if most.requests_per_s > 0.0 else None

    # ---- across restarts ----

    @property
    def place(self) -> int | None:
        """The one under way; None while nothing has come."""
        return self._place

    @property
    def high(self) -> float:
        """Requests a second in its busiest five minutes."""
        return self._high

    def told(self) -> tuple[tuple[float | None, ...], tuple[Lengths | None, ...]]:
        """The rates of all places that are over, up to the one under way; and lengths: theirs, those of the one under way, and
        the last."""
        here = self._place or 0
        if self._told is None:
            kept = [place for place in self._highest if place >= here - PLACES_KEPT]
            dated = range(min(kept, default=here), here)
            self._told = tuple(map(self._highest.get, dated)), tuple(map(self._lengths.get, dated))
        rates, lengths = self._told
        return rates, (*lengths, self._high_lengths, self.now)

    def restore(self, known: KnownRates, now_s: float) -> None:
        """Go on from what a former process knew, each place with its date; figures that cannot be are left out."""
        self._told = None
        rates, here = known.rates[-PLACES_KEPT:], int(now_s // PLACE_S)
        dated = enumerate(rates, known.place - len(rates))
        self._highest = {at: rate for at, rate in dated if at < here and rate is not None and is_sane(rate)}
        told: list[Lengths | None] = [None, None, *map(sane_lengths, known.lengths or ())]
        *over, high, self.now = told
        back = zip(count(known.place - 1, -1), reversed(over), strict=False)
        self._lengths = {at: each for at, each in back if at in self._highest and each is not None}
        if known.place <= here and is_sane(known.high):
            self._place, self._high, self._high_lengths = known.place, known.high, high

    # ---- places ----

    def _work(self, place: int) -> float:
        return self._highest[place] * self.worth(self._lengths.get(place))

    def _close(self, over: int, place: int) -> None:
        """That one is over."""
        self._highest[over] = self._high
        if self._high_lengths is not None:
            self._lengths[over] = self._high_lengths
        if self._told is not None:
            (rates, lengths), goes_on = self._told, place == over + 1
            more = (*rates[1 - PLACES_KEPT :], self._high), (*lengths[1 - PLACES_KEPT :], self._high_lengths)
            self._told = more if goes_on else None
        if len(self._highest) > PLACES_KEPT + PLACES:
            self._highest = {at: one for at, one in self._highest.items() if at >= place - PLACES_KEPT}
            self._lengths = {at: one for at, one in self._lengths.items() if at in self._highest}

    def _lately(self, place: int) -> list[int]:
        """That place and the same one of the days before it, as far as it was seen."""
        return self._seen_at(range(place, place - PLACES * DAYS_KEPT, -PLACES))

    def _seen_at(self, places: Iterable[int]) -> list[int]:
        return [place for place in places if place in self._highest]
