"""How well prompts' beginnings are foreseen, for the metrics page and, when they are not at all, for the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate.core.dispatch.prefix import PrefixStats
from tidegate.core.types import ModelId


class PrefixMeters(Collector):
    """Reads the dispatcher's own sums; keeps none."""

    def __init__(self, stats: Callable[[], Mapping[ModelId, PrefixStats]]) -> None:
        self._stats = stats
        self._told: set[ModelId] = set()

    def __repr__(self) -> str:
        return f"<PrefixMeters warned={sorted(self._told)}>"

    def findings(self) -> list[str]:
        """What is to be said of models whose prompts' beginnings are not found again, as long as they are not."""
        warnings = ((model, stats.warning) for model, stats in self._stats().items())
        return [_finding(model, warning) for model, warning in warnings if warning is not None]

    def complaints(self) -> list[str]:
        """The same, once each time that it begins."""
        found = []
        for model, stats in self._stats().items():
            if stats.warning is None:
                self._told.discard(model)
            elif model not in self._told:
                self._told.add(model)
                found.append(_finding(model, stats.warning))
        return found

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """The page, read by a registry."""
        by_model = ("model",)
        predicted = CounterMetricFamily(
            "tidegate_prefix_predicted_tokens", "Prompt tokens expected in engines' caches.", labels=by_model
        )
        real = CounterMetricFamily(
            "tidegate_prefix_cached_tokens", "Prompt tokens that engines found in them.", labels=by_model
        )
        vain = GaugeMetricFamily(
            "tidegate_prefix_in_vain",
            "1 while next to nothing that was computed before is found again.",
            labels=by_model,
        )
        index_bytes = 0
        for model, stats in self._stats().items():
            predicted.add_metric((model,), stats.predicted_tokens)
            real.add_metric((model,), stats.real_tokens)
            vain.add_metric((model,), stats.warning is not None)
            index_bytes = stats.index_bytes  # one index for all models
        yield from (predicted, real, vain)
        yield GaugeMetricFamily(
            "tidegate_prefix_index_bytes", "What is remembered of prompts' beginnings.", value=index_bytes
        )


def _finding(model: ModelId, warning: str) -> str:
    return f"model {model}: {warning}"
