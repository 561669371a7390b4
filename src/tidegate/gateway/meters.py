"""What the gateway counts, and its page for Prometheus.

A label is a configured model's name, an outcome or a reason of ours; whatever else a client writes is
counted as "other", so no client can add a series.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tidegate.core.effects import Record
from tidegate.core.outcomes import Outcome
from tidegate.gateway.histogram import GAP_BUCKETS_S, WAIT_BUCKETS_S, Histogram

OTHER = "other"


class ModelMeters:
    """One model's counts."""

    __slots__ = (
        "cached_tokens",
        "completed",
        "e2e_s",
        "failed",
        "output_tokens",
        "prompt_tokens",
        "queue_s",
        "statuses",
        "ttft_s",
        "yields",
    )

    def __init__(self) -> None:
        self.completed = 0
        self.failed: dict[Outcome, int] = {}
        self.ttft_s = Histogram(WAIT_BUCKETS_S)
        self.e2e_s = Histogram(WAIT_BUCKETS_S)
        self.queue_s = Histogram(WAIT_BUCKETS_S)
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.output_tokens = 0
        self.yields = 0
        self.statuses: dict[int, int] = {}

    def count(self, outcome: Outcome) -> None:
        """Count an ending that is not a completion."""
        self.failed[outcome] = self.failed.get(outcome, 0) + 1

    def outcomes(self) -> dict[Outcome, int]:
        """How many requests ended how."""
        return {Outcome.COMPLETED: self.completed} | self.failed


class Meters(Collector):
    """All counts of one gateway. ``record`` takes every request's one ledger entry."""

    def __init__(self, models: Callable[[], Collection[str]]) -> None:
        self._known = models
        self._models: dict[str, ModelMeters] = {}
        self._refusals: dict[str, int] = {}
        self.gap = Histogram(GAP_BUCKETS_S)
        """Between two reads of a stream, over all models."""
        self.open_connections: Callable[[], int] = int
        self.open_requests: Callable[[], int] = int
        self.upstream_connections: Callable[[], int] = int

    def __repr__(self) -> str:
        return f"<Meters models={len(self._models)} refusals={sum(self._refusals.values())}>"

    def record(self, record: Record) -> None:
        """Count a request that has ended."""
        of_model = self._models.get(record.model)
        if of_model is None:
            of_model = self._open(record.model)
        of_model.queue_s.observe(record.queued_s)
        of_model.yields += record.yields
        if record.ttft_s is not None:
            of_model.ttft_s.observe(record.ttft_s)
        if record.status is not None:
            of_model.statuses[record.status] = of_model.statuses.get(record.status, 0) + 1
        if record.outcome is not Outcome.COMPLETED:
            of_model.count(record.outcome)
            return
        of_model.completed += 1
        of_model.e2e_s.observe(record.e2e_s)
        of_model.prompt_tokens += record.prompt_tokens
        of_model.cached_tokens += record.cached_tokens or 0
        of_model.output_tokens += record.output_tokens or 0

    def refused(self, outcome: Outcome, reason: str) -> None:
        """Count a request that the dispatcher never heard of."""
        self.cut_off(reason=reason)
        self._of_others().count(outcome)

    def cut_off(self, *, reason: str) -> None:
        """Count why a client was cut off. Its request, if it had one, ends in the dispatcher's books."""
        self._refusals[reason] = self._refusals.get(reason, 0) + 1

    def refusals(self, reason: str) -> int:
        """How often this reason was given."""
        return self._refusals.get(reason, 0)

    def requests(self, model: str, outcome: Outcome) -> int:
        """How many requests of this model ended so."""
        meters = self._models.get(model)
        return 0 if meters is None else meters.outcomes().get(outcome, 0)

    def outcomes(self) -> dict[str, int]:
        """How often each way of ending came, over all models."""
        counts: dict[str, int] = {}
        for meters in self._models.values():
            for outcome, count in meters.outcomes().items():
                counts[outcome.value] = counts.get(outcome.value, 0) + count
        return counts

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        """The page, read by a registry."""
        yield from self._counters()
        yield from self._histograms()
        for name, text, read in (
            ("tidegate_open_connections", "Connections of clients.", self.open_connections),
            ("tidegate_open_requests", "Requests accepted and not ended.", self.open_requests),
            ("tidegate_upstream_connections", "Connections to engines.", self.upstream_connections),
        ):
            yield GaugeMetricFamily(name, text, value=read())

    def _counters(self) -> Iterator[CounterMetricFamily]:
        requests = CounterMetricFamily(
            "tidegate_requests", "Requests by how they ended.", labels=("model", "outcome")
        )
        prompt = CounterMetricFamily(
            "tidegate_prompt_tokens", "Prompt tokens of completed requests.", labels=("model",)
        )
        output = CounterMetricFamily(
            "tidegate_output_tokens", "Output tokens of completed requests.", labels=("model",)
        )
        cached = CounterMetricFamily(
            "tidegate_cached_tokens", "Of these, found in engines' prefix caches.", labels=("model",)
        )
        statuses = CounterMetricFamily(
            "tidegate_engine_statuses",
            "HTTP status of each request's last engine.",
            labels=("model", "status"),
        )
        yields = CounterMetricFamily(
            "tidegate_yields",
            "Times that requests without a token gave way to others.",
            labels=("model",),
        )
        for model, meters in self._models.items():
            yields.add_metric((model,), meters.yields)
            for outcome, count in meters.outcomes().items():
                requests.add_metric((model, outcome.value), count)
            for status, count in sorted(meters.statuses.items()):
                statuses.add_metric((model, str(status)), count)
            prompt.add_metric((model,), meters.prompt_tokens)
            cached.add_metric((model,), meters.cached_tokens)
            output.add_metric((model,), meters.output_tokens)
        refusals = CounterMetricFamily(
            "tidegate_refusals", "Requests turned away at the door and clients cut off.", labels=("reason",)
        )
        for reason, count in self._refusals.items():
            refusals.add_metric((reason,), count)
        yield from (requests, statuses, prompt, cached, output, yields, refusals)

    def _histograms(self) -> Iterator[HistogramMetricFamily]:
        ttft = HistogramMetricFamily(
            "tidegate_ttft_seconds", "Arrival to first byte passed on.", labels=("model",)
        )
        e2e = HistogramMetricFamily(
            "tidegate_e2e_seconds", "Arrival to last byte passed on.", labels=("model",)
        )
        queue = HistogramMetricFamily(
            "tidegate_queue_wait_seconds", "Arrival to being sent to an engine.", labels=("model",)
        )
        for model, meters in self._models.items():
            ttft.add_metric((model,), meters.ttft_s.buckets(), meters.ttft_s.total)
            e2e.add_metric((model,), meters.e2e_s.buckets(), meters.e2e_s.total)
            queue.add_metric((model,), meters.queue_s.buckets(), meters.queue_s.total)
        yield from (ttft, e2e, queue)
        yield HistogramMetricFamily(
            "tidegate_stream_gap_seconds",
            "Between two reads of one stream.",
            buckets=self.gap.buckets(),
            sum_value=self.gap.total,
        )

    def _open(self, model: str) -> ModelMeters:
        return self._models.setdefault(model, ModelMeters()) if model in self._known() else self._of_others()

    def _of_others(self) -> ModelMeters:
        return self._models.setdefault(OTHER, ModelMeters())
