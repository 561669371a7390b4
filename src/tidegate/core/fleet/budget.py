"""What the fleet spends: by the minute over the last day, and by decision.

The cap on a day's money holds at every instant, so it has to be looked at ahead: whatever runs now goes on costing
until it has drained. ``allowed_per_h`` is the rate of spending that can be kept up for ``REACH_S`` with what is left
of the day's money. A fleet that costs no more than that can still be emptied in time, as long as nothing takes longer
than that to drain. The nearer the end of the money, the slower it may be spent: replicas go one by one, lowest need
first, instead of all at once when nothing is left. The day is the last 24 hours, not the calendar's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from math import inf

from tidegate.core.types import ModelId
from tidegate.core.values import value

DAY_S = 86_400.0
REACH_S = 3_600.0
"""Far beyond any drain deadline in use; a fleet under its cap the whole day spends 24/25 of it."""
BUCKET_S = 60.0
ENTRIES_KEPT = 200


@value
class Spent:
    """One decision's line in the ledger: what it was to cost, and what was spent while it was in force."""

    at_s: float
    until_s: float
    model: ModelId
    replicas: int
    predicted_per_h: float
    money: float


class Spending:
    """Adds up the prices of what runs. Owns the ledger."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[float, float]] = deque()
        """Minute and money, oldest first. One leaves when its last moment is a day old."""
        self._sum = 0.0
        self._rates: dict[ModelId, float] = {}
        self._rate = 0.0
        self._at_s: float | None = None
        self._since: dict[ModelId, tuple[float, int, float]] = {}
        """Of each decision in force: since when, how many replicas, at what price."""
        self._money: dict[ModelId, float] = {}
        """Spent while it was in force."""
        self._spilt: dict[tuple[str, ModelId], float] = {}
        """What each gateway said last that it has spent in all at pay-per-token upstreams."""
        self.ledger: deque[Spent] = deque(maxlen=ENTRIES_KEPT)

    def __repr__(self) -> str:
        return f"<Spending {self._rate:g}/h, {self._sum:g} in the last day>"

    @property
    def rate_per_h(self) -> float:
        """What runs now costs this."""
        return self._rate

    def restore(self, minutes: Iterable[tuple[float, float]], now_s: float) -> None:
        """What a former controller spent: how long ago each minute began, and its money. It is added to what is
        known already; figures that cannot be are left out."""
        known = [(now_s - age_s, money) for age_s, money in minutes if 0 <= age_s < inf and 0 <= money < inf]
        self._buckets = deque(sorted([*known, *self._buckets]))
        self._sum = sum(money for _, money in self._buckets)

    def minutes(self, now_s: float) -> tuple[tuple[float, float], ...]:
        """How long ago each minute of the last day began in which something was spent, and how much."""
        return tuple((now_s - at_s, money) for at_s, money in self._buckets)

    def advance(self, rates: Mapping[ModelId, float], now_s: float) -> None:
        """Until now everything cost what it did; from now on it costs this."""
        if self._at_s is not None and now_s > self._at_s:
            hours = (now_s - self._at_s) / 3600.0
            self._book(self._rate * hours, now_s)
            for model, rate in self._rates.items():
                self._money[model] = self._money.get(model, 0.0) + rate * hours
        self._at_s = now_s
        self._rates = dict(rates)
        self._rate = sum(rates.values())

    def hear_spilt(self, gateway: str, model: ModelId, total: float, now_s: float) -> None:
        """A gateway has spent so much at a model's upstream since it began. One that began anew counts from nothing;
        what it spent before we heard of it was booked by whoever was here then."""
        if not 0.0 <= total < inf:
            return
        before = self._spilt.get((gateway, model), total)
        self._spilt[gateway, model] = total
        money = total - before if total >= before else total
        if money > 0.0:
            self._book(money, now_s)
            self._money[model] = self._money.get(model, 0.0) + money

    def pass_to(self, now_s: float) -> None:
        """Everything has cost until now what it did, and goes on."""
        self.advance(self._rates, now_s)

    def last_day(self, now_s: float) -> float:
        """Spent in the last 24 hours; up to a minute more is counted, never less."""
        while self._buckets and self._buckets[0][0] + BUCKET_S + DAY_S <= now_s:
            self._sum -= self._buckets.popleft()[1]
        since_s = 0.0 if self._at_s is None else max(0.0, now_s - self._at_s)
        return (self._sum if self._buckets else 0.0) + self._rate * since_s / 3600.0

    def allowed_per_h(self, per_day: float, now_s: float) -> float:
        """The rate of spending that the rest of the day's money bears for as long as a drain may take."""
        return max(0.0, per_day - self.last_day(now_s)) * 3600.0 / REACH_S

    def spent_on(self, model: ModelId) -> float:
        """Under the decision in force."""
        return self._money.get(model, 0.0)

    def decided(self, model: ModelId, replicas: int, predicted_per_h: float, now_s: float) -> None:
        """Another decision is in force; the one before gets its line."""
        before = self._since.get(model)
        if before is not None:
            at_s, number, price = before
            self.ledger.append(Spent(at_s, now_s, model, number, price, self.spent_on(model)))
        self._since[model] = (now_s, replicas, predicted_per_h)
        self._money[model] = 0.0

    def _book(self, money: float, now_s: float) -> None:
        if money <= 0.0:
            return
        # A long silence is booked at its end, so that it counts for a day from there: never too early.
        minute_s = now_s - now_s % BUCKET_S
        if self._buckets and self._buckets[-1][0] >= minute_s:
            at_s, before = self._buckets.pop()
            self._buckets.append((at_s, before + money))
        else:
            self._buckets.append((minute_s, money))
        self._sum += money
