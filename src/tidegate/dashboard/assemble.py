"""From what the controller, the gateway's ledger and the policy file know to what the pages show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.config.settings import ModelSettings
from tidegate.core.effects import Decision
from tidegate.core.fleet import Failure, FleetView, ModelView, ReplicaView
from tidegate.core.types import (
    DemandReport,
    LatencySummary,
    ModelDemand,
    ModelId,
    ReplicaId,
    ReplicaLoad,
)
from tidegate.dashboard.page import (
    DecisionPage,
    FailurePage,
    FleetPage,
    ModelPage,
    QueuePage,
    ReplicaPage,
    SpillPage,
)


@dataclass(frozen=True, slots=True)
class Ledger:
    """One gateway's numbers, by model and by replica."""

    models: Mapping[ModelId, ModelDemand]
    replicas: Mapping[ReplicaId, ReplicaLoad]
    latency: Mapping[ModelId, LatencySummary]

    @classmethod
    def of(
        cls, report: DemandReport | None, latency: Mapping[ModelId, LatencySummary] | None = None
    ) -> Ledger:
        """A report's numbers. ``latency`` overrides the report's own percentiles, model by model."""
        if report is None:
            return cls({}, {}, latency or {})
        told = {demand.model: demand.latency for demand in report.models}
        return cls(
            {demand.model: demand for demand in report.models},
            {load.replica_id: load for load in report.replicas},
            {**told, **(latency or {})},
        )


def fleet_page(
    view: FleetView,
    ledger: Ledger,
    models: Mapping[ModelId, ModelSettings],
    *,
    gateway: str,
    outcomes: Mapping[str, int] | None = None,
    warnings: tuple[str, ...] = (),
    last_words: Callable[[ModelId, ReplicaId], str] = lambda _model, _replica_id: "",
) -> FleetPage:
    """The whole page. ``models`` are the settings in force; ``gateway`` is the address for clients."""
    return FleetPage(
        at_s=view.at_s,
        gateway=gateway,
        models=tuple(_model(model, ledger, models.get(model.model), last_words) for model in view.models),
        leftover=tuple(_replica(replica, ledger) for replica in view.leftover),
        outcomes=outcomes,
        warnings=(
            *warnings,
            *(f"{model.model}: {model.mismatch}" for model in view.models if model.mismatch),
        ),
        spending=view.spending,
    )


def decision_page(at_s: float, decision: Decision) -> DecisionPage:
    """One decision as the page lists it."""
    return DecisionPage(
        at_s=at_s,
        model=decision.model,
        before=decision.before,
        desired=decision.desired,
        because=decision.because,
        held_by=decision.held_by,
        inputs=decision.inputs,
        fewer=decision.fewer,
        chosen=decision.chosen,
        more=decision.more,
        variants=decision.variants,
        needed=decision.needed,
    )


def _model(
    view: ModelView,
    ledger: Ledger,
    settings: ModelSettings | None,
    last_words: Callable[[ModelId, ReplicaId], str],
) -> ModelPage:
    demand = ledger.models.get(view.model)
    scaling = settings.fleet.scaling if settings else None
    return ModelPage(
        id=view.model,
        desired=view.desired,
        because=view.decision.because if view.decision else "nothing has been decided yet",
        held_by=view.decision.held_by if view.decision else None,
        min_replicas=scaling.min_replicas if scaling else 0,
        max_replicas=scaling.max_replicas if scaling else view.desired,
        in_flight=demand.in_flight if demand else view.in_flight,
        queue=_queue(demand, view),
        latency=ledger.latency.get(view.model, LatencySummary()),
        arrivals_total=demand.arrivals_total if demand else 0,
        output_tokens_total=demand.output_tokens_total if demand else 0,
        replicas=tuple(_replica(replica, ledger) for replica in view.replicas),
        can_serve=view.can_serve,
        notice=view.because,
        expected_ready_s=view.expected_ready_s,
        last_failure=_failure(view.last_failure, last_words),
        shadow=view.shadow,
        forecast=view.forecast,
        hand=view.hand,
        starts=view.starts,
        spill=_spill(demand, settings),
    )


def _spill(demand: ModelDemand | None, settings: ModelSettings | None) -> SpillPage | None:
    bounds = settings.dispatch.spill if settings else None
    if bounds is None:
        return None
    if demand is None:
        return SpillPage(0, 0, 0.0, 0.0, bounds.max_cost_per_h)
    return SpillPage(
        demand.spilt_in_flight,
        demand.spilt_total,
        demand.spilt_cost_total,
        demand.spilt_cost_last_h,
        bounds.max_cost_per_h,
    )


def _queue(demand: ModelDemand | None, view: ModelView) -> QueuePage:
    if demand is None:
        return QueuePage(requests=view.queued)
    return QueuePage(demand.queued, demand.queued_tokens, demand.oldest_wait_s)


def _replica(view: ReplicaView, ledger: Ledger) -> ReplicaPage:
    load = ledger.replicas.get(view.replica_id)
    return ReplicaPage(
        id=view.replica_id,
        state=view.state,
        address=f"{view.address.host}:{view.address.port}" if view.address else None,
        in_flight=load.in_flight if load else view.in_flight,
        tokens=load.tokens if load else view.tokens,
        slots=view.slots,
        since_s=view.since_s,
        detail=view.detail,
        variant=view.variant,
        adapters=view.adapters,
        adapter_troubles=view.troubles,
        node=view.place.node if view.place else None,
        gpus=view.place.gpus if view.place else (),
        leaves_at_s=view.leaves_at_s,
        batch=view.batch,
    )


def _failure(failure: Failure | None, last_words: Callable[[ModelId, ReplicaId], str]) -> FailurePage | None:
    if failure is None:
        return None
    words = last_words(failure.model, failure.replica_id)
    return FailurePage(failure.at_s, failure.replica_id, failure.detail, words)
