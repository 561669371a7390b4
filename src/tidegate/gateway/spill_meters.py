"""What has been spilt to pay-per-token upstreams, for the metrics page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate.core.dispatch.spillbook import SpillStats
from tidegate.core.types import ModelId


class SpillMeters(Collector):
    """Reads the dispatcher's own books; keeps none."""

    def __init__(self, stats: Callable[[], Mapping[ModelId, SpillStats]]) -> None:
        self._stats = stats

    def __repr__(self) -> str:
        return f"<SpillMeters models={len(self._stats())}>"

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """The page, read by a registry."""
        by_model = ("model",)
        requests = CounterMetricFamily(
            "tidegate_spilt_requests", "Requests passed to a pay-per-token upstream.", labels=by_model
        )
        tokens = CounterMetricFamily(
            "tidegate_spilt_tokens", "Tokens of those that have ended.", labels=("model", "kind")
        )
        cost = CounterMetricFamily("tidegate_spilt_cost", "Money for those that have ended.", labels=by_model)
        in_flight = GaugeMetricFamily("tidegate_spilt_in_flight", "Requests that are there.", labels=by_model)
        last_hour = GaugeMetricFamily(
            "tidegate_spilt_cost_last_hour", "Spent in 60 minutes, and reserved.", labels=by_model
        )
        held = CounterMetricFamily(
            "tidegate_spill_refused",
            "Requests refused that could have been spilt, by the bound that kept them.",
            labels=("model", "bound"),
        )
        for model, stats in self._stats().items():
            requests.add_metric((model,), stats.requests_total)
            tokens.add_metric((model, "prompt"), stats.prompt_tokens_total)
            tokens.add_metric((model, "output"), stats.output_tokens_total)
            cost.add_metric((model,), stats.cost_total)
            in_flight.add_metric((model,), stats.in_flight)
            last_hour.add_metric((model,), stats.cost_last_h)
            for bound, count in stats.held_total:
                held.add_metric((model, bound), count)
        yield from (requests, tokens, cost, in_flight, last_hour, held)
