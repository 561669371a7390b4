"""Which weights are fetched before a replica needs them.

Fetching ahead costs a slice of bandwidth; not having done so costs every request of a rise the whole download. So
the forecast is the plainest there is, that what was asked for a day or a week ago at this time is asked for again,
and it may be wrong often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidegate.core.effects import Prefetch
from tidegate.core.events import WeightsSeen
from tidegate.core.fleet.artifacts import ArtifactBook
from tidegate.core.settings import Prefetching
from tidegate.core.types import ModelId

DAY_S = 86_400.0
SLOT_S = 300.0
SEASONS_S = (DAY_S, 7 * DAY_S)
AHEAD_LEAST_S = 900.0
"""Weights that come in a minute are still fetched this long before: the limit makes it more."""
AHEAD_UNKNOWN_S = 3_600.0
"""Nobody knows how long it takes."""
SLOWED = 4.0
"""A fetch ahead of need takes so many times what an urgent one would, as a guess."""
AGAIN_S = 900.0
"""An order that came to nothing is given again."""


class Seasons:
    """The largest demand of a model in each five minutes of the last week."""

    def __init__(self) -> None:
        self._peaks: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"<Seasons {len(self._peaks)} spans>"

    def note(self, peak: float, now_s: float) -> None:
        """So many requests at once."""
        slot = int(now_s // SLOT_S)
        if slot not in self._peaks:
            oldest = slot - int((SEASONS_S[-1] + DAY_S) // SLOT_S)
            self._peaks = {at: kept for at, kept in self._peaks.items() if at >= oldest}
        self._peaks[slot] = max(peak, self._peaks.get(slot, 0.0))

    def expected(self, now_s: float, ahead_s: float) -> tuple[float, float] | None:
        """The largest demand at the same time of an earlier day within ``ahead_s`` from now, and how many seconds
        ago that was; None when there was none."""
        found = [
            (self._peaks.get(slot, 0.0), season_s)
            for season_s in SEASONS_S
            for slot in range(
                int((now_s - season_s) // SLOT_S), int((now_s + ahead_s - season_s) // SLOT_S) + 1
            )
            if slot < int(now_s // SLOT_S)
        ]
        best = max(found, default=(0.0, 0.0))
        return best if best[0] > 0 else None


class Prefetcher:
    """Decides what is fetched ahead. One for a fleet."""

    def __init__(self, artifacts: ArtifactBook) -> None:
        self._artifacts = artifacts
        self._seasons: dict[ModelId, Seasons] = {}
        self._ordered_s: dict[tuple[ModelId, str], float] = {}

    def __repr__(self) -> str:
        return f"<Prefetcher {len(self._ordered_s)} ordered>"

    def look(
        self,
        settings: Mapping[ModelId, Prefetching],
        peak: Callable[[ModelId], float],
        pulling: Iterable[ModelId],
        now_s: float,
    ) -> list[Prefetch]:
        """What is to be fetched now; called at each tick.

        Args:
            settings: Of each configured model.
            peak: A model's demand at present, in requests at once.
            pulling: Models that a starting replica fetches at present.
            now_s: The moment.
        """
        orders = []
        self._seasons = {model: seasons for model, seasons in self._seasons.items() if model in settings}
        busy = set(pulling)
        for model, wanted in settings.items():
            if wanted is Prefetching.OFF:
                continue
            if wanted is Prefetching.AHEAD:
                self._seasons.setdefault(model, Seasons()).note(peak(model), now_s)
            for seen in self._artifacts.nodes_without(model):
                because = self._reason(wanted, seen, now_s)
                if because is not None and model not in busy and self._is_due(seen, now_s):
                    self._ordered_s[model, seen.node] = now_s
                    orders.append(Prefetch(model, seen.node, because))
        return orders

    def _is_due(self, seen: WeightsSeen, now_s: float) -> bool:
        ordered_s = self._ordered_s.get((seen.model, seen.node))
        return ordered_s is None or now_s >= ordered_s + AGAIN_S

    def _reason(self, wanted: Prefetching, seen: WeightsSeen, now_s: float) -> str | None:
        if wanted is Prefetching.ALWAYS:
            return "its weights are to be on every node"
        fetch_s = self._artifacts.fetch_s(seen.model, seen.node, 0.9)
        ahead_s = AHEAD_UNKNOWN_S if fetch_s is None else min(DAY_S, max(AHEAD_LEAST_S, SLOWED * fetch_s))
        expected = self._seasons[seen.model].expected(now_s, ahead_s)
        if expected is None:
            return None
        requests, ago_s = expected
        days = round(ago_s / DAY_S)
        when = "a day ago" if days == 1 else f"{days} days ago"
        return f"{requests:.0f} requests at once were seen {when}, within {ahead_s / 60:.0f} min of this time"
