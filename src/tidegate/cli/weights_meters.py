"""Numbers about weights and compiled engines on this machine, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from tidegate.backends.local.provisions import Provisions


class WeightsMeters(Collector):
    """Read from the local backend at each scrape; it counts nothing itself."""

    def __init__(self, provisions: Callable[[], Provisions | None]) -> None:
        """``provisions`` is None while the fleet is not open."""
        self._provisions = provisions

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The page, read by a registry."""
        provisions = self._provisions()
        puller = None if provisions is None else provisions.puller
        if provisions is None or puller is None:
            return
        yield CounterMetricFamily("tidegate_weights_fetches", "Sources fetched.", value=puller.fetches)
        yield CounterMetricFamily(
            "tidegate_weights_failed_fetches", "Sources that could not be fetched.", value=puller.failures
        )
        yield CounterMetricFamily(
            "tidegate_weights_fetched_bytes",
            "Bytes fetched as fast as they came.",
            value=puller.fetched_bytes,
        )
        starts = CounterMetricFamily(
            "tidegate_compiled_starts",
            "Engines that became ready with a folder for compiling.",
            labels=("cache",),
        )
        starts.add_metric(("hit",), provisions.compiled_hits)
        starts.add_metric(("miss",), provisions.compiled_misses)
        yield starts
