"""Demand of every model, from the ledgers of all gateways: the latest report of each, summed.

Unknown is not zero. A gateway that falls silent keeps its last figures, which may ask for more replicas
but never for fewer: while one is not heard, the model's demand is not *complete*, and completeness
begins anew after a gap. A figure that is missing, negative or not a number counts as not heard.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.core.capacity import KNOWN_AFTER, Capacity
from tidegate.core.events import SignalsReported
from tidegate.core.fleet.heard import (
    GONE_AFTER_S,
    SILENT_AFTER_S,
    Figures,
    added,
    counted,
    heard,
    known,
    prompts_waiting,
)
from tidegate.core.fleet.scaling.forecast import EVERY_S, Forecast
from tidegate.core.fleet.scaling.past import KEPT_S, Past, Totals
from tidegate.core.fleet.scaling.policies import Demand
from tidegate.core.fleet.scaling.sliding import PeakWindow
from tidegate.core.knowledge import KnownRates, is_sane
from tidegate.core.types import (
    CapacityFigures,
    DemandReport,
    ModelId,
    ReplicaId,
    ReplicaLoad,
)

SIGNAL_GOOD_FOR_S = 30.0
"""Latency and utilisation older than this are not known. Metric scrapes come each 15 s or faster."""


@dataclass(slots=True)
class _Gateway:
    """One gateway: its last figures by model, its load by replica, the table it used."""

    heard_s: float
    route_version: int = 0
    models: dict[ModelId, Figures] = field(default_factory=dict)
    replicas: dict[ReplicaId, ReplicaLoad] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Signals:
    at_s: float
    gpu_utilization: float | None
    latency_p95_s: float | None
    ttft_p90_s: float | None
    tpot_p90_s: float | None
    coverage: float = 1.0
    """Of all that could say so, the share that has."""


class _Model:
    """What is kept of one model from report to report."""

    __slots__ = ("capacities", "capacity", "figures", "forecast", "past", "peak", "totals")

    def __init__(self) -> None:
        self.peak = PeakWindow()
        self.past = Past()
        self.forecast = Forecast()
        self.totals = Totals()
        """Over all gateways that there have been, since this controller began."""
        self.figures: dict[str, dict[str, CapacityFigures]] = {}
        """By kind of replica and gateway."""
        self.capacity: Capacity | None = None
        """Of the model's own settings."""
        self.capacities: dict[str, Capacity] = {}
        """Of each kind of which much has been seen."""

    def learn(self, gateway: str, figures: CapacityFigures) -> None:
        """A gateway has learned this of its replicas. Who has seen most is believed; what cannot be is not kept."""
        if not all(map(is_sane, (*figures.prefill, *figures.decode, figures.kv_tokens or 0.0))):
            return
        told = self.figures.setdefault(figures.gpu, {})
        told[gateway] = figures
        best = max(told.values(), key=lambda one: one.prefill_samples + one.decode_samples)
        if best.prefill_samples + best.decode_samples < 2 * KNOWN_AFTER:
            return  # mostly the prior: on a CPU that is wrong by a factor of fifty
        capacity = Capacity.told(best)
        if not figures.gpu:
            self.capacity = capacity
        if min(best.prefill_samples, best.decode_samples) >= KNOWN_AFTER:
            self.capacities[figures.gpu] = capacity

    def foresee(self, now_s: float) -> None:
        """Tell the forecast what came."""
        if self.forecast.is_due(now_s):
            past = self.past
            rate, prompt = past.arrivals_per_s(EVERY_S, now_s), past.mean_prompt_tokens(EVERY_S, now_s)
            # What has come has not all been answered: it will be as long as what was lately.
            output = past.mean_output_tokens(EVERY_S, now_s) or past.mean_output_tokens(KEPT_S, now_s)
            if rate is not None:
                self.forecast.add(rate, now_s, None if prompt is None or output is None else (prompt, output))


class DemandBook:
    """All reports, latest of each gateway. Owns the demand windows, and what is known of earlier days."""

    def __init__(self) -> None:
        self._gateways: dict[str, _Gateway] = {}
        self._models: dict[ModelId, _Model] = {}
        self._signals: dict[ModelId, _Signals] = {}
        self._loads: dict[ReplicaId, ReplicaLoad | None] = {}
        """Answers since a gateway was last heard, or dropped: many ask for the same ones."""

    def __repr__(self) -> str:
        return f"<DemandBook gateways={len(self._gateways)} models={len(self._models)}>"

    def hear(self, report: DemandReport, now_s: float) -> None:
        """Take in a gateway's report; the one before is replaced whole."""
        gateway = self._gateways.get(report.gateway)
        if gateway is None:
            gateway = self._gateways[report.gateway] = _Gateway(now_s)
            self._gateways = dict(sorted(self._gateways.items()))
        self._loads.clear()
        gateway.heard_s = now_s
        gateway.route_version = report.route_version
        gateway.replicas = {load.replica_id: load for load in report.replicas}
        for demand in report.models:
            before = gateway.models.get(demand.model)
            said = gateway.models[demand.model] = heard(before, demand, now_s)
            self._note(demand.model, before, said, now_s)
        for figures in report.capacities:
            if figures.model in self._models:
                self._models[figures.model].learn(report.gateway, figures)

    def hear_signals(self, event: SignalsReported, now_s: float) -> None:
        """Take in what a metrics source says about one model."""
        self._signals[event.model] = _Signals(
            now_s,
            known(event.gpu_utilization),
            known(event.latency.e2e_p95_s),
            known(event.latency.ttft_p90_s),
            known(event.latency.tpot_p90_s),
        )

    def forget_gone(self, now_s: float) -> None:
        """Drop gateways that are gone. The last one is kept: without it nothing would be known."""
        if any(now_s <= gateway.heard_s + SILENT_AFTER_S for gateway in self._gateways.values()):
            gone = [name for name, each in self._gateways.items() if now_s > each.heard_s + GONE_AFTER_S]
            for name in gone:
                del self._gateways[name]
                self._loads.clear()

    def keep_only(self, models: Iterable[ModelId]) -> None:
        """Drop what is known of models that are no longer configured."""
        kept = set(models)
        self._models = {model: known for model, known in self._models.items() if model in kept}
        self._signals = {model: signals for model, signals in self._signals.items() if model in kept}
        for gateway in self._gateways.values():
            gateway.models = {model: said for model, said in gateway.models.items() if model in kept}

    def demand(self, model: ModelId, window_s: float, now_s: float) -> Demand:
        """The model's demand over all gateways as of now."""
        figures = self._figures(model)
        queued, in_flight, concurrency, last_active_s, are_heard = added(figures, now_s)
        is_complete = bool(are_heard) and len(are_heard) == len(self._gateways)
        peak, leaves_at_s = concurrency, None
        kept = self._models.get(model) or _Model()
        found = kept.peak.peak(window_s, now_s)
        if found is not None and found[0] > concurrency:
            peak, leaves_at_s = found
        signals = self._fresh_signals(model, now_s)
        latest = signals or self._told_by_gateways(figures, now_s)
        return Demand(
            queued=queued,
            in_flight=in_flight,
            concurrency=concurrency,
            peak=peak,
            peak_leaves_at_s=leaves_at_s,
            complete_since_s=max([said.since_s for said in are_heard]) if is_complete else None,
            coverage=len(are_heard) / max(1, len(self._gateways)),
            heard_at_s=min([said.heard_s for said in are_heard or figures], default=None),
            last_active_s=last_active_s,
            latency_p95_s=self._latency_p95_s(model, figures, now_s),
            gpu_utilization=signals.gpu_utilization if signals else None,
            ttft_p90_s=latest.ttft_p90_s if latest else None,
            tpot_p90_s=latest.tpot_p90_s if latest else None,
            signals_at_s=latest.at_s if latest else None,
            signals_coverage=latest.coverage if latest else 0.0,
            queued_tokens=sum([said.queued_tokens for said in figures]),
            queued_prompt_tokens=prompts_waiting(figures),
            in_flight_tokens=sum([said.in_flight_tokens for said in figures]),
            oldest_wait_s=max([said.oldest_wait_s for said in figures], default=0.0),
            past=kept.past,
            forecast=kept.forecast,
            capacity=kept.capacity,
            capacities=kept.capacities,
        )

    def remember(self, model: ModelId, now_s: float) -> KnownRates | None:
        """Of the model's earlier days, what outlives this process."""
        kept = self._models.get(model)
        return None if kept is None else kept.forecast.remember(now_s)

    def forecast(self, model: ModelId) -> Forecast:
        """What is known of the model's earlier days; begun when it is first asked for."""
        if model not in self._models:
            self._models[model] = _Model()
        return self._models[model].forecast

    def load(self, replica_id: ReplicaId) -> ReplicaLoad | None:
        """What all gateways together have in flight there; None when no gateway has said."""
        if replica_id not in self._loads:
            self._loads[replica_id] = self._load(replica_id)
        return self._loads[replica_id]

    def _load(self, replica_id: ReplicaId) -> ReplicaLoad | None:
        loads = [g.replicas[replica_id] for g in self._gateways.values() if replica_id in g.replicas]
        if not loads:
            return None
        in_flight = sum([int(known(load.in_flight) or 0) for load in loads])
        tokens = sum([int(known(load.tokens) or 0) for load in loads])
        alone_s = sum([known(load.alone_s) or 0.0 for load in loads])
        return ReplicaLoad(replica_id, in_flight, tokens, alone_s=alone_s)

    def is_empty(self, replica_id: ReplicaId, route_version: int) -> bool:
        """Every known gateway says so, having read the table of ``route_version`` or a later one."""
        return bool(self._gateways) and all(
            gateway.route_version >= route_version
            and replica_id in gateway.replicas
            and gateway.replicas[replica_id].in_flight == 0
            for gateway in self._gateways.values()
        )

    def _note(self, model: ModelId, before: Figures | None, said: Figures, now_s: float) -> None:
        """Keep what the laws look back at."""
        kept = self._models.get(model)
        if kept is None:
            kept = self._models[model] = _Model()
        figures = self._figures(model)
        kept.peak.add(sum([told.concurrency for told in figures]), now_s)
        if before is not None:
            kept.totals = counted(kept.totals, before.totals, said.totals)
        queued, in_flight = sum([told.queued for told in figures]), sum([told.in_flight for told in figures])
        kept.past.add(now_s, queued, in_flight, kept.totals)
        kept.foresee(now_s)

    def _figures(self, model: ModelId) -> list[Figures]:
        return [gateway.models[model] for gateway in self._gateways.values() if model in gateway.models]

    def _latency_p95_s(self, model: ModelId, figures: list[Figures], now_s: float) -> float | None:
        """The worst that is known and fresh: percentiles of several gateways can't be added up."""
        signals = self._signals.get(model)
        said = [(f.latency_p95_s, f.latency_at_s) for f in figures]
        if signals is not None:
            said.append((signals.latency_p95_s, signals.at_s))
        fresh = [value for value, at_s in said if value is not None and now_s <= at_s + SIGNAL_GOOD_FOR_S]
        return max(fresh, default=None)

    def _fresh_signals(self, model: ModelId, now_s: float) -> _Signals | None:
        signals = self._signals.get(model)
        return signals if signals and now_s <= signals.at_s + SIGNAL_GOOD_FOR_S else None

    def _told_by_gateways(self, figures: list[Figures], now_s: float) -> _Signals | None:
        """Where no metrics source speaks, the gateways' own percentiles; the worst of them, as they can't be added up."""
        fresh = [said for said in figures if now_s <= said.heard_s + SIGNAL_GOOD_FOR_S]
        if not fresh:
            return None
        ttft_s = max([said.ttft_p90_s for said in fresh if said.ttft_p90_s is not None], default=None)
        tpot_s = max([said.tpot_p90_s for said in fresh if said.tpot_p90_s is not None], default=None)
        at_s, coverage = min([said.heard_s for said in fresh]), len(fresh) / len(self._gateways)
        return _Signals(at_s, None, None, ttft_s, tpot_s, coverage)
