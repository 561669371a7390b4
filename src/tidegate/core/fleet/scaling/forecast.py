"""Demand a lead time ahead, from the same hours of the days and weeks before: a floor, never the target.

It is about work, requests by their lengths. The forecast for a span is the highest quarter of an hour that it touches (``days``):
there the quantile of the last days that leaves the risk; times how today compares with what was usual lately (the trend), by
halves and doubles at most.

It has to prove itself by what it adds. Every five minutes its former answer for now is compared with what came, and so is
the naive one: what is provided for without it, which is all that came last with whatever is held for growth (``backtest``).
As long as the naive one is better, and before a day has been seen, there is no forecast: to beat the bare last rate is no
merit where something is held beyond it. Nothing it says goes beyond a multiple of what the last hour has seen, so one that
goes wild costs no more than that.

Times are on the brain's clock; where its zero lies does not matter, as long as it does not jump.
"""

from __future__ import annotations

from collections import deque
from math import inf

from tidegate.core.fleet.scaling.backtest import BackTest
from tidegate.core.fleet.scaling.days import DAY_S, PLACE_S, Before, Days
from tidegate.core.fleet.scaling.worth import Lengths, between
from tidegate.core.knowledge import KnownRates, is_sane
from tidegate.core.values import value

EVERY_S = 300.0
RECENT = 12
"""Five-minute rates that are called the last hour."""
RISK = 0.05
"""Of spans, those in which more may come than the forecast says."""
BAND = 3.0
"""Times the highest of the last hour: no forecast goes beyond."""

SETS_FLOOR = "forecast_sets_floor"
"""Among a decision's inputs: 1 where what is held is more than the law would hold without the forecast."""


@value
class Expected:
    """What is expected within a lead time."""

    requests_per_s: float
    ahead_s: float
    is_believed: bool
    """It has proven itself, and is provided for."""
    sets_floor: bool = False
    """More is held for it than would be without."""
    prompt_tokens: float | None = None
    """Of one of them, the mean, as the next one is; None while nobody has said how long they are."""
    output_tokens: float | None = None

    @property
    def lengths(self) -> Lengths | None:
        """Both."""
        return None if self.prompt_tokens is None else (self.prompt_tokens, self.output_tokens or 0.0)

    @property
    def said(self) -> str:
        """In words."""
        rate, lengths = f"{self.requests_per_s:.2f} requests/s", self.lengths
        return rate if lengths is None else f"{rate} of {lengths[0]:.0f} and {lengths[1]:.0f} tokens"


class Forecast:
    """The forecaster of one model's demand. Owns what is known of earlier days."""

    def __init__(self, risk: float = RISK) -> None:
        self._risk = risk
        self._test = BackTest(risk, EVERY_S)
        self._days = Days()
        self._said: dict[tuple[int, int], tuple[float, Lengths | None] | None] = {}
        """What is expected from one place to another, until the next rate comes: requests a second, and of what length."""
        self._recent: deque[float] = deque(maxlen=RECENT)
        """Work."""
        self._next_s: float | None = None
        self._may_claim = False
        """Nothing was claimed since the last rate came."""
        self._asked: tuple[tuple[float, Lengths | None] | None, float] = None, 0.0
        """What was expected when a law that acts asked last, and how far ahead."""
        self._asked_s = -inf

    def __repr__(self) -> str:
        return f"<Forecast {self._test!r}>"

    @property
    def is_believed(self) -> bool:
        """It has lately done better than what is provided for without it."""
        return self._test.is_believed

    def is_due(self, now_s: float) -> bool:
        """The next rate can be added."""
        if self._next_s is None:
            self._next_s = now_s + EVERY_S
        return now_s >= self._next_s

    def add(self, rate: float, now_s: float, lengths: Lengths | None = None) -> None:
        """So many requests a second have come over the last ``EVERY_S``, with so many tokens of prompt and answer at the
        mean; None: as long as the ones before. Before it ``is_due`` this changes nothing."""
        if not self.is_due(now_s):
            return
        self._next_s = now_s + EVERY_S
        work = self._days.add(rate, lengths, now_s)
        self._test.compare(work, now_s)
        self._recent.append(work)
        self._may_claim = True
        self._said.clear()

    def floor(self, lead_s: float, now_s: float, held: float = 0.0, *, acts: bool = True) -> Expected | None:
        """Not less than this is to be provided for within the lead time; None while it is not believed. ``held`` requests a
        second, as long as those of now, are provided for without it, the last rate at least. Once after each rate the answer
        is kept, to be compared with what comes: that to a law that ``acts``, and one to another only while none that acts
        asks."""
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
                stays = max(held * self._days.worth(self._days.now), self._recent[-1])
                self._test.claim(now_s + max(lead_s, EVERY_S), said[0] * self._days.worth(said[1]), stays)
        return self._as_expected(said, lead_s) if self.is_believed else None

    @property
    def told(self) -> Expected | None:
        """What was expected when a law that acts asked last; None while those hours have never been seen, and where none does."""
        return self._as_expected(*self._asked)

    def _as_expected(self, said: tuple[float, Lengths | None] | None, ahead_s: float) -> Expected | None:
        if said is None:
            return None
        rate, lengths = said
        prompt, output = lengths or (None, None)
        return Expected(rate, ahead_s, self.is_believed, prompt_tokens=prompt, output_tokens=output)

    def before(self, ahead_s: float, now_s: float) -> Before | None:
        """The most that came a day or a week ago at the hours from now until ``ahead_s`` from now, whether the forecast is
        believed or not; None when nothing did."""
        return self._days.before(ahead_s, now_s)

    # ---- across restarts ----

    def remember(self, now_s: float) -> KnownRates | None:
        """What outlives this process; None while there is nothing."""
        place, (rates, lengths) = self._days.place, self._days.told()
        if place is None:
            return None
        claims, loss, naive_loss, compared, is_believed = self._test.account
        return KnownRates(
            at_s=now_s,
            place=place,
            rates=rates,
            high=self._days.high,
            recent=tuple(self._recent),
            claims=claims,
            loss=loss,
            naive_loss=naive_loss,
            compared=compared,
            is_believed=is_believed,
            next_s=self._next_s,
            lengths=lengths,
        )

    def restore(self, known: KnownRates, now_s: float) -> None:
        """Go on from what a former process knew. Its days keep their dates, and its last hour is the last one only for
        as long; figures that cannot be rates are left out. Where it did not say how long requests were, they are taken for
        as long as those of now, and its last hour and what it claimed for it are forgotten."""
        self._days.restore(known, now_s)
        is_recent = 0.0 <= now_s - known.at_s <= RECENT * EVERY_S
        if is_recent and known.next_s is not None:
            self._next_s = min(known.next_s, now_s + EVERY_S)
        is_work = is_recent and known.lengths is not None
        if is_work:
            self._recent.extend(filter(is_sane, known.recent))
        self._test.restore(known, is_recent=is_work)

    # ---- what was usual ----

    def _expected(self, now_s: float, lead_s: float) -> tuple[float, Lengths | None] | None:
        """The quantile of the highest within the lead time; None while those hours have never been seen."""
        # A day has all the places there are.
        first, last = int(now_s // PLACE_S), int((now_s + min(lead_s, DAY_S)) // PLACE_S)
        if (first, last) not in self._said:
            found = [self._days.usual(place, self._risk) for place in range(first, last + 1)]
            usual = max((one for one in found if one is not None), default=None)
            self._said[first, last] = (
                None if usual is None else self._clipped(*usual, self._days.trend(first))
            )
        return self._said[first, last]

    def _clipped(self, work: float, place: int, trend: float) -> tuple[float, Lengths | None]:
        """Of what goes beyond the band, requests are taken to be as much shorter first, and fewer where that is not enough."""
        lengths, most = self._days.lengths_at(place), BAND * max(self._recent, default=0.0)
        rate = work * trend / self._days.worth(lengths)
        if work * trend > most:
            if lengths is not None and self._days.now is not None and rate > 0.0:
                lengths = between(self._days.now, lengths, most / rate)
            rate = min(rate, most / self._days.worth(lengths))
        return rate, lengths


class Aside:
    """The forecaster of one model for a law that looks on: whoever acts is told, and judged, as if nobody did."""

    def __init__(self, forecast: Forecast) -> None:
        self._forecast = forecast

    def __repr__(self) -> str:
        return f"<Aside {self._forecast!r}>"

    def floor(self, lead_s: float, now_s: float, held: float = 0.0) -> Expected | None:
        """As ``Forecast.floor``."""
        return self._forecast.floor(lead_s, now_s, held, acts=False)

    @property
    def told(self) -> None:
        """Nothing: what is told is of laws that act."""
        return None
