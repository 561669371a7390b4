"""What one model has passed to its pay-per-token upstream: requests, tokens, money, and whether it is well.

The money of an hour is a cap on what may be spent, not a mean: what each request in flight may cost at most is
reserved, and becomes what was used when it ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf

from tidegate.core.dispatch.health import AT_ONCE, Breaker
from tidegate.core.events import Failure
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import SpillBounds
from tidegate.core.types import RequestId
from tidegate.core.values import value

HOUR_S = 3_600.0
BUCKET_S = 60.0

OURS_TO_MEND = frozenset({401, 402, 403, 404})
"""The upstream does not know our key, our money or our name for the model: the next request will fare no better."""


def price(bounds: SpillBounds, prompt_tokens: float, output_tokens: float) -> float:
    """What a request costs there."""
    return prompt_tokens * bounds.prompt_price + output_tokens * bounds.output_price


@value
class Spilt:
    """One request at the upstream, and how it would have ended otherwise."""

    cost: float
    """At most; reserved until it ends."""
    output_tokens: int
    """At most, or as assumed where the client names no limit."""
    bounds: SpillBounds
    """As they were when it went: its prices are these."""
    outcome: Outcome
    because: str
    retry_after_s: float | None

    def used(self, prompt_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost."""
        return price(self.bounds, prompt_tokens, output_tokens)


@value
class SpillStats:
    """The totals only grow."""

    in_flight: int
    requests_total: int
    prompt_tokens_total: int
    output_tokens_total: int
    cost_total: float
    cost_last_h: float
    """With what is reserved for those in flight."""
    held_total: tuple[tuple[str, int], ...]
    """Requests that were not spilt, by the bound that kept them."""


class SpillBook:
    """Owned by the model's line."""

    __slots__ = (
        "_held",
        "_in_flight",
        "_minutes",
        "_probe",
        "breaker",
        "cost_total",
        "output_tokens_total",
        "prompt_tokens_total",
        "requests_total",
    )

    def __init__(self) -> None:
        self.breaker = Breaker()
        self.requests_total = 0
        self.prompt_tokens_total = 0
        self.output_tokens_total = 0
        self.cost_total = 0.0
        self._in_flight: dict[RequestId, float] = {}
        """What each may cost at most."""
        self._probe: RequestId | None = None
        """The one request that goes first after a rest."""
        self._minutes: deque[tuple[float, float]] = deque()
        self._held: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<SpillBook in_flight={len(self._in_flight)} cost={self.cost_total:g}>"

    @property
    def in_flight(self) -> int:
        """Requests that are there now."""
        return len(self._in_flight)

    def obstacle(self, bounds: SpillBounds, cost: float, now_s: float) -> str | None:
        """The bound that one more request of this cost would break; None when it may go."""
        if self.breaker.rests(now_s):
            return "upstream"
        if self.breaker.half_open_s is not None and self._probe in self._in_flight:
            return "upstream"
        if len(self._in_flight) >= bounds.max_in_flight:
            return "max_in_flight"
        return "max_cost" if self.last_hour(now_s) + cost > bounds.max_cost_per_h else None

    def held(self, bound: str) -> None:
        """A request was not spilt for this bound."""
        self._held[bound] = self._held.get(bound, 0) + 1

    def sent(self, request_id: RequestId, cost: float) -> None:
        """A request goes there."""
        self.requests_total += 1
        self._in_flight[request_id] = cost
        if self.breaker.half_open_s is not None:
            self._probe = request_id

    def reserve(self, request_id: RequestId, cost: float) -> None:
        """One that is there takes longer, and may cost so much."""
        if request_id in self._in_flight:
            self._in_flight[request_id] = cost

    def ended(self, request_id: RequestId, cost: float, tokens: tuple[int, int], now_s: float) -> None:
        """It is back, for so much; ``tokens`` are those of its prompt and of its answer."""
        self._in_flight.pop(request_id, None)
        self.cost_total += cost
        if cost > 0.0:
            self.prompt_tokens_total += tokens[0]
            self.output_tokens_total += tokens[1]
        minute_s = now_s - now_s % BUCKET_S
        if self._minutes and self._minutes[-1][0] >= minute_s:
            at_s, before = self._minutes.pop()
            self._minutes.append((at_s, before + cost))
        elif cost > 0.0:
            self._minutes.append((minute_s, cost))

    def failed(self, failure: Failure, status: int | None, now_s: float, *, has_begun: bool) -> None:
        """It failed there. Told that it is too much, we stay away at once, and for twice as long each time."""
        at_once = failure is Failure.BUSY or (failure in AT_ONCE and not has_begun) or status in OURS_TO_MEND
        self.breaker.failed(now_s, at_once=at_once, is_alone=False)

    def last_hour(self, now_s: float) -> float:
        """Spent in the last hour and reserved now; up to a minute more is counted, never less."""
        while self._minutes and self._minutes[0][0] + BUCKET_S + HOUR_S <= now_s:
            self._minutes.popleft()
        return sum(money for _, money in self._minutes) + sum(self._in_flight.values())

    def minutes(self, now_s: float) -> tuple[tuple[float, float], ...]:
        """How long ago each minute of the last hour began in which something was spent, and how much. What is
        reserved counts as spent now: whoever stops here does not know how it ends."""
        reserved = sum(self._in_flight.values())
        known = tuple((now_s - at_s, money) for at_s, money in self._minutes)
        return (*known, (0.0, reserved)) if reserved else known

    def restore(self, minutes: Iterable[tuple[float, float]], now_s: float) -> None:
        """What a former gateway spent here; figures that cannot be are left out."""
        known = [(now_s - age_s, money) for age_s, money in minutes if 0 <= age_s < inf and 0 <= money < inf]
        self._minutes = deque(sorted([*known, *self._minutes]))

    def stats(self, now_s: float) -> SpillStats:
        """For the metrics."""
        return SpillStats(
            len(self._in_flight),
            self.requests_total,
            self.prompt_tokens_total,
            self.output_tokens_total,
            self.cost_total,
            self.last_hour(now_s),
            tuple(sorted(self._held.items())),
        )
