"""Numbers about engines' own pages, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from tidegate.core.types import ModelId


class EngineMeters(Collector):
    """Read from the backends at each scrape; it counts nothing itself."""

    def __init__(self, unread: Callable[[], Mapping[ModelId, int]]) -> None:
        """``unread``: by model, how many pages could not be read."""
        self._unread = unread

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The page, read by a registry."""
        unread = CounterMetricFamily(
            "tidegate_engine_pages_unread",
            "Pages of engines' own metrics that could not be read.",
            labels=("model",),
        )
        for model, count in self._unread().items():
            unread.add_metric((model,), count)
        yield unread
