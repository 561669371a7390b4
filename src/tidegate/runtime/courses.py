"""One model's numbers over a day, and what they came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tidegate.core.effects import Decision
from tidegate.core.events import DemandReported, FleetConfigured
from tidegate.core.fleet.crews import Counted, counted, crew_of, number_of, price_per_h
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.judging import Judged
from tidegate.core.fleet.predicting import traffic_of
from tidegate.core.fleet.replicas import route_gpu
from tidegate.core.fleet.variants import OWN, Variants
from tidegate.core.lifecycle import State
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId, ReplicaId, Route, RouteTable

JUDGED_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Step:
    """A number from a moment on."""

    at_s: float
    desired: int
    because: str
    held_by: str | None


@dataclass(slots=True)
class Course:
    """One model's numbers under some settings."""

    steps: list[Step] = field(default_factory=list)
    judged: Judged = field(default_factory=Judged)
    starts: int = 0

    def note(self, at_s: float, decision: Decision) -> None:
        """A decision was made; only changes are kept."""
        if not self.steps or self.steps[-1].desired != decision.desired:
            self.steps.append(Step(at_s, decision.desired, decision.because, decision.held_by))


class Roll:
    """Who is there and who serves, each with its model and its variant."""

    def __init__(self) -> None:
        self._model_of: dict[ReplicaId, ModelId] = {}
        self._variant_of: dict[ReplicaId, str] = {}
        self._routes: tuple[Route, ...] = ()
        self.changes = 0
        """How often somebody came, went or was told to the gateways otherwise."""

    def enter(self, replica_id: ReplicaId, model: ModelId, variant: str) -> None:
        """It is there from now on."""
        self.changes += 1
        self._model_of[replica_id] = model
        self._variant_of[replica_id] = variant

    def leave(self, replica_id: ReplicaId) -> None:
        """It is gone; gateways may learn that later."""
        self.changes += 1
        self._model_of.pop(replica_id, None)

    def publish(self, table: RouteTable) -> None:
        """The gateways know these."""
        self.changes += _serving(table.routes) != _serving(self._routes)
        self._routes = table.routes

    def serving(self, model: ModelId) -> Counter[str]:
        """So many of each variant."""
        return Counter(
            self._variant_of.get(route.replica_id, "")
            for route in self._routes
            if route.model == model and route.state is State.SERVING
        )

    def there(self, model: ModelId) -> Counter[str]:
        """So many of each variant, from their launch to their end."""
        return Counter(
            self._variant_of[name] for name, its_model in self._model_of.items() if its_model == model
        )


def _serving(routes: tuple[Route, ...]) -> set[ReplicaId]:
    return {route.replica_id for route in routes if route.state is State.SERVING}


class Judge:
    """Traffic as the reports have it, and what replicas make of it."""

    def __init__(self, models: dict[ModelId, FleetModel]) -> None:
        self._variants = {model: Variants(spec) for model, spec in models.items()}
        self._former: dict[ModelId, dict[str, FleetModel]] = {}
        """Variants that these settings do not have, or on other GPUs."""
        self._book = DemandBook()
        self._since_s: float | None = None
        self._changes = 0
        self._were: dict[ModelId, tuple[list[Counted], list[Counted]]] = {}
        """Who serves of each model since it was judged last, and who is there."""

    def hear(self, event: DemandReported, now_s: float) -> None:
        """A report."""
        self._book.hear(event.report, now_s)

    def hear_settings(self, event: FleetConfigured) -> None:
        """What the replicas that are judged from now on were started with."""
        for model, variants in self._variants.items():
            before = event.models.get(model)
            if before is None:
                continue
            ways = {one.name: before.as_variant(one) for one in before.variants}
            self._former[model] = {
                name: spec
                for name, spec in ways.items()
                if (now := variants.spec(name)) is None or route_gpu(name, now) != route_gpu(name, spec)
            }

    def judge(self, courses: dict[ModelId, Course], roll: Roll, now_s: float) -> None:
        """Every few seconds, and when others serve than before: from the last time until now those did, of those that were
        there."""
        if self._since_s is None:
            self._since_s = now_s
        span_s = now_s - self._since_s
        if span_s < JUDGED_EVERY_S and roll.changes == self._changes:
            return
        self._since_s, self._changes = now_s, roll.changes
        for model, variants in self._variants.items():
            own, former = variants.specs[OWN], self._former.get(model, {})
            demand = self._book.demand(model, own.scaling.window_s, now_s)
            variants.learn(demand, now_s)
            if model in self._were:
                serving, there = self._were[model]
                courses[model].judged.go_on(
                    span_s,
                    demand.past.arrivals,
                    traffic_of(demand, now_s),
                    crew_of(serving, own, demand),
                    own.scaling.promise,
                    there=number_of(there),
                    price_per_h=price_per_h(there),
                )
            self._were[model] = (
                counted(variants, roll.serving(model), former),
                counted(variants, roll.there(model), former),
            )
