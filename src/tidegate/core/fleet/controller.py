"""The second brain: how many replicas of each model, in which state, and why.

It owns the records of all replicas, the reports of all gateways and one plan for each model. Facts come
in through ``on``, orders go out; it reads no clock and waits for nothing.

Theory of operation. It is level-triggered: each turn looks at everything that is known and orders what
is missing, whatever event began the turn, so a lost event costs time and not correctness. A wait is a
moment (``WakeAt``), never a count of ticks. Nothing known is never taken for zero.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tidegate.core.effects import WakeAt
from tidegate.core.events import (
    AdapterSeen,
    DemandReported,
    EngineReported,
    FleetConfigured,
    KnowledgeRestored,
    ReplicaAdopted,
    ReplicaSeen,
    ScaledByHand,
    SignalsReported,
    SpendingRestored,
    Tick,
    WeightsSeen,
)
from tidegate.core.fleet.byhand import HandNumber
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.interface import FleetEffect, FleetEvent
from tidegate.core.fleet.keeper import Keeper
from tidegate.core.fleet.means import Means
from tidegate.core.fleet.numbers import Numbers
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.prefetching import Prefetcher
from tidegate.core.fleet.remembering import Learners
from tidegate.core.fleet.routes import RouteBook, model_route, routes_of
from tidegate.core.fleet.variants import OWN
from tidegate.core.fleet.view import FleetView, SpendingView, model_view, replica_views
from tidegate.core.knowledge import FleetKnowledge
from tidegate.core.lifecycle import State
from tidegate.core.types import ModelId, ModelRoute


class FleetController:
    """Decides about replicas. One for a fleet."""

    def __init__(self) -> None:
        self._plans: dict[ModelId, Plan] = {}
        self._demand = DemandBook()
        self._keeper = Keeper(self._demand)
        self._means = Means(self._keeper.roster.replicas)
        self._numbers = Numbers(self._keeper, self._demand, self._means)
        self._prefetcher = Prefetcher(self._keeper.roster.cold.artifacts)
        self._learners = Learners(self._demand, self._keeper.pools.reserves, self._keeper.roster.cold)
        self._routes = RouteBook()
        self._early: list[ReplicaAdopted | ReplicaSeen | ScaledByHand] | None = []
        """What was seen of replicas, and set by hand, before the first configuration; None once there is one."""
        self._wake_s: float | None = None

    def __repr__(self) -> str:
        return (
            f"<FleetController models={len(self._plans)} {self._keeper.roster.replicas!r} {self._demand!r} "
            f"route_version={self._routes.version}>"
        )

    def on(self, event: FleetEvent, now_s: float) -> list[FleetEffect]:
        """One turn.

        1. Take in the fact. Metrics alone start no turn; neither does anything before the first
           configuration, which would make every replica one of an unknown model.
        2. Give up starts that took too long, promote what is ready, forgive what has proven itself.
           Begin to replace a replica at which request after request fails.
        3. Decide each model's number: policy, guards, and last the limits over all. What is seen of a replica is no news
           of other models' demand: their policies are asked then only where their replicas are not as they were.
        4. Act on the difference: keep, launch, drain.
        5. Stop what has drained; have LoRA adapters loaded that are missing, and unloaded that are not wanted.
        6. Publish the table if it has changed, or if it is time.
        7. At each tick, order weights that are likely to be needed.
        8. Ask to be woken at the next moment at which something is due.
        """
        effects = self._take_in(event, now_s)  # 1
        if self._early is not None or isinstance(event, EngineReported | WeightsSeen | SignalsReported):
            return effects
        effects += self._keeper.look_after(now_s)  # 2
        by_model = self._keeper.roster.replicas.by_model()
        self._keeper.replace_failing(by_model, now_s)
        effects += self._numbers.decide(self._plans, by_model, self._concerned(event), now_s)  # 3
        effects += self._keeper.staffing.act(by_model, self._means.launching(now_s), now_s)  # 4
        effects += self._keeper.leaving.stop_drained(now_s)  # 5
        effects += self._keeper.adapting.orders(self._plans, now_s)
        self._means.spending.advance(self._keeper.roster.replicas.prices(), now_s)
        effects += self._publish(now_s, on_tick=isinstance(event, Tick))  # 6
        if isinstance(event, Tick):
            effects += self._prefetch(now_s)  # 7
        effects += self._wake(now_s)  # 8
        return effects

    def state(self, now_s: float) -> FleetView:
        """The fleet as it is. Looking changes nothing."""
        by_model = self._keeper.roster.replicas.by_model()
        leftover = [replica for replica in self._keeper.roster.replicas if replica.model not in self._plans]
        cold = self._keeper.roster.cold
        return FleetView(
            at_s=now_s,
            route_version=self._routes.version,
            starts_last_hour=self._means.starts.used(now_s),
            spending=SpendingView(
                self._means.spending.rate_per_h,
                self._means.spending.last_day(now_s),
                tuple(self._means.spending.ledger),
                self._means.spending.minutes(now_s),
                self._means.starts.ages_s(now_s),
            ),
            models=tuple(
                model_view(
                    self._plans[route.model],
                    route,
                    by_model.get(route.model, []),
                    self._demand,
                    self._keeper.roster.last_failure.get(route.model),
                    cold.view(
                        route.model,
                        self._plans[route.model].spec.expected_start_s,
                        cold.kinds.of_next(route.model, OWN),
                    ),
                )
                for route in self._model_routes(now_s)
            ),
            leftover=replica_views(leftover, self._demand),
            failures=tuple(self._keeper.roster.failures),
        )

    @property
    def hands(self) -> dict[ModelId, HandNumber]:
        """The numbers that somebody set, and those that came of somebody ending a replica."""
        numbers = {model: plan.by_hand.number for model, plan in self._plans.items()}
        return {model: number for model, number in numbers.items() if number is not None}

    @property
    def lessons(self) -> int:
        """Starts measured since this controller began: what is dearest to learn anew."""
        return self._keeper.roster.cold.learned

    def remember(self, now_s: float) -> FleetKnowledge:
        """What has been learned, to be given to a later controller as ``KnowledgeRestored``. Looking changes nothing."""
        return self._learners.remember(self._plans.values(), now_s)

    # ---- 1. facts ----

    def _take_in(self, event: FleetEvent, now_s: float) -> list[FleetEffect]:
        match event:
            case FleetConfigured():
                return self._configure(event, now_s)
            case ReplicaAdopted() | ReplicaSeen() | ScaledByHand() if self._early is not None:
                self._early.append(event)
            case ReplicaAdopted():
                self._keeper.adapting.look_again()
                return list(self._keeper.seeing.adopt(event, now_s))
            case ReplicaSeen():
                self._keeper.adapting.look_again()
                return list(self._keeper.seeing.see(event, now_s))
            case AdapterSeen():
                self._keeper.adapting.hear(event, now_s)
            case DemandReported():
                if self._routes.hear_version(event.report.route_version):
                    self._keeper.leaving.begin_drains_anew()
                self._demand.hear(event.report, now_s)
                for said in event.report.models:
                    self._means.spending.hear_spilt(
                        event.report.gateway, said.model, said.spilt_cost_total, now_s
                    )
                self._keeper.hear(event.report, now_s)
            case ScaledByHand():
                if event.model in self._plans:
                    self._plans[event.model].by_hand.set(event, now_s)
            case SpendingRestored():
                self._means.spending.restore(event.minutes, now_s)
                self._means.starts.restore(event.starts, now_s)
            case KnowledgeRestored() if self._early is None:
                pass  # what has been learned since is newer
            case KnowledgeRestored():
                self._learners.restore(event.knowledge, now_s)
            case SignalsReported():
                self._demand.hear_signals(event, now_s)
            case WeightsSeen():
                self._keeper.roster.cold.artifacts.hear(event)
            case EngineReported():
                self._keeper.seeing.hear_engine(event, now_s)
            case Tick():
                self._demand.forget_gone(now_s)
                self._keeper.forget_gone(now_s)
            case _:
                assert_never(event)
        return []

    def _configure(self, event: FleetConfigured, now_s: float) -> list[FleetEffect]:
        self._means.configure(event.limits)
        plans: dict[ModelId, Plan] = {}
        for model, spec in sorted(event.models.items()):
            plans[model] = self._plans.get(model) or Plan(model, spec, now_s)
            plans[model].configure(spec, now_s)
        self._plans = plans
        self._demand.keep_only(plans)
        self._keeper.roster.cold.artifacts.keep_only(plans)
        self._keeper.roster.cold.kinds.configure(event.nodes)
        self._keeper.configure(plans)
        self._means.places.configure(
            event.nodes, [plan.size_as(name) for plan in plans.values() for name in plan.variants.specs]
        )
        self._learners.give(plans.values(), now_s)
        early, self._early = self._early or [], None
        return [effect for fact in early for effect in self._take_in(fact, now_s)]

    # ---- 3. numbers ----

    def _concerned(self, event: FleetEvent) -> ModelId | None:
        """The one model that an event is about; None: it may be about any."""
        if not isinstance(event, ReplicaSeen | AdapterSeen):
            return None
        replica = self._keeper.roster.replicas.get(event.replica_id)
        return None if replica is None else replica.model

    # ---- 6. routes ----

    def _publish(self, now_s: float, *, on_tick: bool) -> list[FleetEffect]:
        routes = routes_of(self._keeper.roster.replicas, self._keeper.roster.cold)
        published = self._routes.publish(self._model_routes(now_s), routes, now_s, on_tick=on_tick)
        self._keeper.leaving.note_published(self._routes.version)
        return list(published)

    def _model_routes(self, now_s: float) -> tuple[ModelRoute, ...]:
        launching = self._means.launching(now_s)
        by_model = self._keeper.roster.replicas.by_model()
        routes = tuple(
            model_route(plan, by_model.get(model, []), launching, self._keeper.roster.cold, now_s)
            for model, plan in self._plans.items()
        )
        if self._means.may_spill(self._plans.values(), now_s):
            return routes
        return tuple(replace(route, may_spill=False) for route in routes)

    # ---- 7. weights ----

    def _prefetch(self, now_s: float) -> list[FleetEffect]:
        settings = {model: plan.spec.prefetch for model, plan in self._plans.items()}
        pulling = [r.model for r in self._keeper.roster.replicas.not_serving() if r.state is State.PULLING]
        bought = {model for model in self._plans if self._keeper.pools.reserves.mix(model).cached}
        return list(self._prefetcher.look(settings, self._demand.forecast, bought, pulling, now_s))

    # ---- 8. the next moment ----

    def _wake(self, now_s: float) -> list[FleetEffect]:
        moments: list[float | None] = []
        for plan in self._plans.values():
            moments += plan.due_s, *plan.variants.blocked_until_s(now_s)
        if self._plans:
            moments.append(self._means.next_start_s(now_s))
        moments += self._keeper.moments(now_s)
        moments.append(self._means.places.due_s)
        wake_s = min([moment for moment in moments if moment is not None and moment > now_s], default=None)
        if wake_s is None or wake_s == self._wake_s:
            return []
        self._wake_s = wake_s
        return [WakeAt(wake_s)]
