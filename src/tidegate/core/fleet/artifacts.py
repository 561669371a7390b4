"""What of each model's weights is on which node, and how long the rest would take to come.

Bandwidth is learned from fetches that were not slowed, by node and source, as a distribution: times of downloads
are skewed to the right. So a start on a node that has the weights and one on a node that has not are two numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from math import exp, log, sqrt
from statistics import NormalDist, fmean, pstdev

from tidegate.core.events import WeightsSeen
from tidegate.core.types import ModelId
from tidegate.core.values import value

SAMPLES_MAX = 16
LEAST_BYTES = 16 * 1024 * 1024
"""A smaller fetch measures how quickly a source answers, and not how much it sends."""
SPREAD_LEAST = 0.1
"""Of the logarithm. Few equal samples do not prove that there is no chance in it."""
SPREAD_UNKNOWN = 0.5
"""After one fetch the next may well be a third slower or half as fast again."""


@value
class Bandwidth:
    """Bytes a second from one source to one node, taken for log-normal."""

    median_per_s: float
    spread: float
    samples: int

    def slow_per_s(self, ratio: float) -> float:
        """It is at least so fast with such a probability, 0 < ratio < 1."""
        return self.median_per_s * exp(-self.spread * NormalDist().inv_cdf(ratio))


class ArtifactBook:
    """What was seen last, for each model and node."""

    def __init__(self) -> None:
        self._seen: dict[tuple[ModelId, str], WeightsSeen] = {}
        self._rates: dict[tuple[str, str], deque[float]] = {}

    def __repr__(self) -> str:
        return f"<ArtifactBook {len(self._seen)} models and nodes, {len(self._rates)} sources>"

    def hear(self, event: WeightsSeen) -> None:
        """What is there now. The same fetch told twice is learned once."""
        last = self._seen.get((event.model, event.node))
        self._seen[event.model, event.node] = event
        fetch = event.fetched_bytes, event.fetched_in_s
        if last is not None and fetch == (last.fetched_bytes, last.fetched_in_s):
            return
        if event.fetched_bytes >= LEAST_BYTES and event.fetched_in_s > 0:
            rates = self._rates.setdefault((event.node, event.host), deque(maxlen=SAMPLES_MAX))
            rates.append(event.fetched_bytes / event.fetched_in_s)

    def keep_only(self, models: Container[ModelId]) -> None:
        """Of these models something may still be wanted; how fast sources are stays known."""
        self._seen = {key: seen for key, seen in self._seen.items() if key[0] in models}

    def nodes_without(self, model: ModelId) -> list[WeightsSeen]:
        """Where something of it is missing, or never was."""
        return [seen for (of, _), seen in self._seen.items() if of == model and seen.missing_bytes != 0]

    def bandwidth(self, node: str, host: str) -> Bandwidth | None:
        """From this source; before the first fetch from it, from all sources to this node; else None."""
        rates = self._rates.get((node, host)) or [
            rate for (to, _), rates in self._rates.items() if to == node for rate in rates
        ]
        if not rates:
            return None
        logs = [log(rate) for rate in rates]
        spread = max(SPREAD_LEAST, pstdev(logs)) if len(logs) > 2 else SPREAD_UNKNOWN
        return Bandwidth(exp(fmean(logs)), spread, len(logs))

    def fetch_s(self, model: ModelId, node: str | None = None, ratio: float = 0.5) -> float | None:
        """What is missing is here after so many seconds with such a probability; on the best node when none is
        named. 0 where nothing is missing, and for a model of which nothing was ever said: its weights are not
        ours to fetch. None when it is not known how much there is, or how fast it comes."""
        seen = [each for (of, at), each in self._seen.items() if of == model and node in (None, at)]
        if not seen:
            return 0.0
        known = [took_s for each in seen if (took_s := self._took_s(each, ratio)) is not None]
        return min(known, default=None)

    def spread(self, model: ModelId) -> float:
        """Of the logarithm of ``fetch_s``."""
        found = [self.bandwidth(node, seen.host) for (of, node), seen in self._seen.items() if of == model]
        return min((each.spread for each in found if each is not None), default=SPREAD_UNKNOWN)

    def _took_s(self, seen: WeightsSeen, ratio: float) -> float | None:
        if seen.missing_bytes == 0:
            return 0.0
        bandwidth = self.bandwidth(seen.node, seen.host)
        if seen.missing_bytes is None or bandwidth is None:
            return None
        return seen.missing_bytes / bandwidth.slow_per_s(ratio)


def joined_spread(one_s: float, one: float, other_s: float, other: float) -> float:
    """Of the logarithm of a sum of two times with these medians and spreads, to first order."""
    total_s = one_s + other_s
    return sqrt((one * one_s) ** 2 + (other * other_s) ** 2) / total_s if total_s > 0 else max(one, other)
