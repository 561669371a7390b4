"""SkyServe's request-rate autoscaler: queries a second by replica, with hysteresis by consecutive periods.

Source: skypilot-org/skypilot, sky/serve/autoscalers.py and constants.py; its documentation for the example target of
2.5 queries/s (2026). Each 20 s (each 5 s while there is none):

    ceil(requests of the last 60 s / 60 / target)

obeyed when 300 s of periods in a row ask for more, or 1,200 s for fewer; a period that does not begins anew. From
zero it is obeyed at once. The first minute is divided by 60 s too, as SkyServe does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling

IDLE_EVERY_S = 5.0
"""Its period while there is no replica, and the shortest at which it is looked at here."""


@dataclass(frozen=True, slots=True)
class SkyConstants:
    """SkyServe's defaults. The target has none: it is its documentation's example."""

    target: float = 2.5
    """Queries each second of one replica."""
    window_s: float = 60.0
    up_delay_s: float = 300.0
    down_delay_s: float = 1_200.0
    period_s: float = 20.0


class Sky:
    """The law for one model, with its counters."""

    def __init__(self, constants: SkyConstants, standing: int) -> None:
        self._law = constants
        self._next_s: float | None = None
        self._up = self._down = 0
        self._own = standing
        """What the law itself wanted last; a first replica may have been started without it."""

    def __repr__(self) -> str:
        return f"<Sky up={self._up} down={self._down}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """Count, and obey what enough periods in a row have said."""
        law, past = self._law, seen.demand.past
        rate = past.arrivals_per_s(law.window_s, now_s)
        if rate is None:
            return Answer(seen.standing, seen.standing, "nothing is known of the demand", "no data")
        rate *= min(1.0, past.seen_s(now_s) / law.window_s)
        asked = ceil(rate / law.target - 1e-9)
        because = f"{rate:.2f} queries/s at {law.target:g} a replica ask for {asked}"
        wanted = self._own = self._counted(seen.within(asked), seen.standing, now_s)
        return Answer(wanted, asked, because, None if wanted == seen.within(asked) else "hysteresis")

    def _counted(self, bounded: int, standing: int, now_s: float) -> int:
        law = self._law
        if standing == 0 or self._own == 0:
            self._up = self._down = 0
            return bounded
        if self._next_s is not None and now_s < self._next_s:
            return standing
        self._next_s = now_s + law.period_s
        self._up = self._up + 1 if bounded > standing else 0
        self._down = self._down + 1 if bounded < standing else 0
        if self._up >= law.up_delay_s / law.period_s or self._down >= law.down_delay_s / law.period_s:
            self._up = self._down = 0
            return bounded
        return standing


def sky(scaling: Scaling, standing: int, now_s: float) -> tuple[Sky, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del now_s
    return Sky(with_changes(SkyConstants(), scaling.law), standing), IDLE_EVERY_S
