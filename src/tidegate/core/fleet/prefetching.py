"""Which weights are fetched before a replica needs them.

Fetching ahead costs a slice of bandwidth; not having done so costs every request of a rise the whole download. So
it is not asked whether the forecast has proven itself: what came a day or a week ago at this time may come again, and that
may be wrong often.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from tidegate.core.effects import Prefetch
from tidegate.core.events import WeightsSeen
from tidegate.core.fleet.artifacts import ArtifactBook
from tidegate.core.fleet.scaling.days import DAY_S
from tidegate.core.fleet.scaling.forecast import Forecast
from tidegate.core.settings import Prefetching
from tidegate.core.types import ModelId

AHEAD_LEAST_S = 900.0
"""Weights that come in a minute are still fetched this long before: the limit makes it more."""
AHEAD_UNKNOWN_S = 3_600.0
"""Nobody knows how long it takes."""
SLOWED = 4.0
"""A fetch ahead of need takes so many times what an urgent one would, as a guess."""
AGAIN_S = 900.0
"""An order that came to nothing is given again."""


class Prefetcher:
    """Decides what is fetched ahead. One for a fleet."""

    def __init__(self, artifacts: ArtifactBook) -> None:
        self._artifacts = artifacts
        self._ordered_s: dict[tuple[ModelId, str], float] = {}

    def __repr__(self) -> str:
        return f"<Prefetcher {len(self._ordered_s)} ordered>"

    def look(
        self,
        settings: Mapping[ModelId, Prefetching],
        forecast: Callable[[ModelId], Forecast],
        bought: Container[ModelId],
        pulling: Iterable[ModelId],
        now_s: float,
    ) -> list[Prefetch]:
        """What is to be fetched now; called at each tick.

        Args:
            settings: Of each configured model.
            forecast: What is known of a model's earlier days.
            bought: Models whose cheapest mix has the weights on the disk.
            pulling: Models that a starting replica fetches at present.
            now_s: The moment.
        """
        orders = []
        busy = set(pulling)
        for model, wanted in settings.items():
            if wanted is Prefetching.OFF:
                continue
            for seen in self._artifacts.nodes_without(model):
                order = self._order(wanted, seen, forecast(model), now_s, is_bought=model in bought)
                if order is not None and model not in busy and self._is_due(seen, now_s):
                    self._ordered_s[model, seen.node] = now_s
                    orders.append(order)
        return orders

    def _is_due(self, seen: WeightsSeen, now_s: float) -> bool:
        ordered_s = self._ordered_s.get((seen.model, seen.node))
        return ordered_s is None or now_s >= ordered_s + AGAIN_S

    def _order(
        self, wanted: Prefetching, seen: WeightsSeen, forecast: Forecast, now_s: float, *, is_bought: bool
    ) -> Prefetch | None:
        fetch_s = self._artifacts.fetch_s(seen.model, seen.node, 0.9)
        inputs = {} if fetch_s is None else {"fetch_s": fetch_s}
        if wanted is Prefetching.ALWAYS:
            return Prefetch(seen.model, seen.node, "its weights are to be on every node", inputs)
        if is_bought:
            mix = "the best mix for what its demand may rise by has its weights on the disk"
            return Prefetch(seen.model, seen.node, mix, inputs)
        ahead_s = AHEAD_UNKNOWN_S if fetch_s is None else min(DAY_S, max(AHEAD_LEAST_S, SLOWED * fetch_s))
        before = forecast.before(ahead_s, now_s)
        if before is None:
            return None
        when = "a day ago" if before.days_ago == 1 else f"{before.days_ago} days ago"
        came = (
            f"{before.requests_per_s:.2g} requests/s came {when}, within {ahead_s / 60:.0f} min of this time"
        )
        inputs |= {
            "ahead_s": ahead_s,
            "requests_per_s": before.requests_per_s,
            "days_ago": float(before.days_ago),
        }
        return Prefetch(seen.model, seen.node, came, inputs)
