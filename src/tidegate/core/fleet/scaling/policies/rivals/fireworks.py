"""Fireworks' autoscaler: load by replica against targets, with a window for each direction and one for zero.

Source: docs.fireworks.ai/deployments/autoscaling (2026; the service is closed). The largest of

    ceil(load / 0.8)   load: requests by slots, queued ones included, since how its load is measured is not published
    ceil(requests/s / target), ceil(generated tokens/s / target), ceil(concurrent / target)    where a target is set

obeyed on the way up when it has been asked for throughout 30 s, on the way down throughout 10 minutes; the last replica
goes after 1 hour without a request (5 minutes at least).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling

RATE_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class FireworksConstants:
    """The documented defaults."""

    load_target: float = 0.8
    requests_target: float | None = None
    """Requests each second of one replica."""
    tokens_target: float | None = None
    """Generated tokens each second of one replica."""
    concurrent_target: float | None = None
    up_window_s: float = 30.0
    down_window_s: float = 600.0
    zero_window_s: float = 3_600.0
    every_s: float = 1.0


class Fireworks:
    """The law for one model, with what it has asked for lately."""

    def __init__(self, constants: FireworksConstants, standing: int, now_s: float) -> None:
        self._law = constants
        self._asked: deque[tuple[float, int]] = deque([(now_s, standing)])

    def __repr__(self) -> str:
        return f"<Fireworks of {len(self._asked)}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """The least of one window on the way up, the largest of the other on the way down."""
        law, standing, active_s = self._law, seen.standing, seen.demand.last_active_s
        asks = dict(self._asks(seen, now_s))
        asked = max(asks.values())
        if asked == 0 and active_s is not None and now_s < active_s + law.zero_window_s:
            asked = min(1, standing)
        because = ", ".join(f"{what} ask for {number}" for what, number in asks.items())
        bounded = seen.within(asked)
        if self._asked[-1][1] != bounded:
            self._asked.append((now_s, bounded))
        longest_s = max(law.up_window_s, law.down_window_s)
        while len(self._asked) > 1 and self._asked[1][0] <= now_s - longest_s:
            self._asked.popleft()
        least = min(self._in_force(law.up_window_s, now_s))
        most = max(self._in_force(law.down_window_s, now_s))
        wanted = min(max(standing, least), most) if standing else bounded
        return Answer(wanted, asked, because, None if wanted == bounded else "window")

    def _in_force(self, window_s: float, now_s: float) -> list[int]:
        """What was asked for within the window, the number in force at its beginning among it."""
        found = [number for at_s, number in self._asked if at_s > now_s - window_s]
        before = [number for at_s, number in self._asked if at_s <= now_s - window_s]
        return [*before[-1:], *found]

    def _asks(self, seen: Situation, now_s: float) -> Iterator[tuple[str, int]]:
        law, demand = self._law, seen.demand
        yield (
            f"{demand.concurrency:g} requests",
            ceil(demand.concurrency / (law.load_target * seen.slots) - 1e-9),
        )
        if law.concurrent_target is not None:
            yield "concurrent requests", ceil(demand.concurrency / law.concurrent_target - 1e-9)
        rate = demand.past.arrivals_per_s(RATE_WINDOW_S, now_s)
        if law.requests_target is not None and rate is not None:
            yield "requests each second", ceil(rate / law.requests_target - 1e-9)
        tokens = demand.past.output_tokens_per_s(RATE_WINDOW_S, now_s)
        if law.tokens_target is not None and tokens is not None:
            yield "tokens each second", ceil(tokens / law.tokens_target - 1e-9)


def fireworks(scaling: Scaling, standing: int, now_s: float) -> tuple[Fireworks, float]:
    """The law with this model's settings, and how often it is evaluated."""
    constants = with_changes(FireworksConstants(), scaling.law)
    return Fireworks(constants, standing, now_s), constants.every_s
