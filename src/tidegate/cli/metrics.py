"""The fleet's and the journal's numbers for Prometheus, beside the gateway's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import nan

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate.core.fleet import FleetView
from tidegate.core.lifecycle import ENDED, State
from tidegate.runtime.controlling import ControlOwner
from tidegate.runtime.journal import FileJournal, NoJournal


class FleetMetrics(Collector):
    """Read from the controller's view at each scrape; it counts nothing itself."""

    def __init__(self, control: ControlOwner, journal: FileJournal | NoJournal) -> None:
        self._control = control
        self._journal = journal

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """The page, read by a registry."""
        view = self._control.view()
        desired = GaugeMetricFamily("tidegate_desired_replicas", "Replicas wanted.", labels=("model",))
        replicas = GaugeMetricFamily(
            "tidegate_replicas", "Replicas by state.", labels=("model", "state", "variant")
        )
        queued = GaugeMetricFamily("tidegate_queued_requests", "Requests that wait.", labels=("model",))
        failures = GaugeMetricFamily(
            "tidegate_failed_starts_in_a_row",
            "Starts that failed since the last good one.",
            labels=("model",),
        )
        for model in view.models:
            desired.add_metric((model.model,), model.desired)
            queued.add_metric((model.model,), model.queued)
            failures.add_metric((model.model,), model.failures)
            counts = Counter((replica.state, replica.variant) for replica in model.replicas)
            for variant in sorted({*model.variants, *(replica.variant for replica in model.replicas)}):
                for state in State:
                    if state not in ENDED:
                        replicas.add_metric((model.model, state.value, variant), counts[state, variant])
        yield from (desired, replicas, queued, failures)
        yield _batches(view)
        yield _adapters(view)
        yield from _forecasts(view)
        yield from _shadows(view)
        yield GaugeMetricFamily("tidegate_starts_last_hour", "Replicas started.", value=view.starts_last_hour)
        spending = view.spending
        yield GaugeMetricFamily("tidegate_cost_per_hour", "Price of all that runs.", value=spending.per_h)
        yield GaugeMetricFamily("tidegate_cost_last_day", "Spent in 24 hours.", value=spending.last_day)
        if isinstance(self._journal, FileJournal):
            yield from self._of_journal(self._journal)

    @staticmethod
    def _of_journal(journal: FileJournal) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily("tidegate_journal_turns", "Turns kept.", value=journal.turns_total)
        yield CounterMetricFamily(
            "tidegate_journal_dropped_turns", "Turns that could not be written.", value=journal.dropped_total
        )
        yield CounterMetricFamily(
            "tidegate_journal_dropped_segments",
            "Old segments removed to make room.",
            value=journal.segments_dropped_total,
        )


def _batches(view: FleetView) -> GaugeMetricFamily:
    """The smallest of each model's variant. Where none is known there is none, and never a 0."""
    family = GaugeMetricFamily(
        "tidegate_engine_batch_size",
        "Requests that an engine was seen to run at once while others waited in it.",
        labels=("model", "variant"),
    )
    for model in view.models:
        for variant in model.variants:
            alike = (each for each in model.replicas if each.variant == variant and each.state not in ENDED)
            known = [each.batch for each in alike if each.batch]
            if known:
                family.add_metric((model.model, variant), min(known))
    return family


def _adapters(view: FleetView) -> GaugeMetricFamily:
    """Of models whose adapters are known. One that no replica has yet is 0, and one that is gone is not there."""
    family = GaugeMetricFamily(
        "tidegate_adapter_replicas",
        "Replicas that serve and can be asked for a LoRA adapter.",
        labels=("model", "adapter"),
    )
    for model in view.models:
        serving = [replica for replica in model.replicas if replica.state is State.SERVING]
        counts = Counter(name for replica in serving for name in replica.adapters or ())
        for adapter in model.adapters:
            family.add_metric((model.model, adapter), counts[adapter])
    return family


def _forecasts(view: FleetView) -> Iterator[GaugeMetricFamily]:
    """Of models about which something is expected."""
    rate = GaugeMetricFamily(
        "tidegate_expected_requests_per_second", "Expected within a lead time.", labels=("model",)
    )
    tokens = GaugeMetricFamily(
        "tidegate_expected_tokens_per_second",
        "Of these requests' prompts and answers.",
        labels=("model", "part"),
    )
    believed = GaugeMetricFamily(
        "tidegate_forecast_believed", "1: the forecast has proven itself.", labels=("model",)
    )
    floor = GaugeMetricFamily(
        "tidegate_forecast_sets_floor", "1: more is held for it than would be without.", labels=("model",)
    )
    for model in view.models:
        if model.forecast is not None:
            rate.add_metric((model.model,), model.forecast.requests_per_s)
            for part, length in zip(("prompt", "answer"), model.forecast.lengths or (), strict=False):
                tokens.add_metric((model.model, part), model.forecast.requests_per_s * length)
            believed.add_metric((model.model,), float(model.forecast.is_believed))
            floor.add_metric((model.model,), float(model.forecast.sets_floor))
    yield from (rate, tokens, believed, floor)


def _shadows(view: FleetView) -> Iterator[GaugeMetricFamily]:
    """How second policies do beside those that act. What is not known is no number (NaN), and never 0."""
    labels = ("model", "policy")
    number = GaugeMetricFamily(
        "tidegate_shadow_replicas", "Replicas that a second policy would want.", labels=labels
    )
    kept = GaugeMetricFamily(
        "tidegate_shadow_attainment_ratio",
        "Predicted share of requests in time, by whose replicas.",
        labels=(*labels, "fleet"),
    )
    hours = GaugeMetricFamily(
        "tidegate_shadow_replica_hours", "Since it began, by whose replicas.", labels=(*labels, "fleet")
    )
    regret = GaugeMetricFamily(
        "tidegate_shadow_regret_ratio", "How much more the acting policy has cost.", labels=labels
    )
    for model in view.models:
        said = model.shadow
        if said is None:
            continue
        name = (said.model, said.policy)
        number.add_metric(name, said.desired)
        hours.add_metric((*name, "shadow"), said.replica_hours)
        hours.add_metric((*name, "acting"), said.acting_replica_hours)
        for fleet, share in (("shadow", said.attainment), ("acting", said.acting_attainment)):
            kept.add_metric((*name, fleet), nan if share is None else share)
        regret.add_metric(name, nan if said.regret is None else said.regret)
    yield from (number, kept, hours, regret)


def page_of(*collectors: Collector) -> Callable[[], bytes]:
    """A function that gives the page of all these, in Prometheus' text format."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return lambda: generate_latest(registry)
