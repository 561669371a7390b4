"""The fleet that a recorded day would have had under other settings.

A start takes as long as it is told to, a drain is over with the next report.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tidegate.core.effects import Decision, Launch, PublishRoutes, Stop
from tidegate.core.events import (
    DemandReported,
    FleetConfigured,
    KnowledgeRestored,
    ReplicaAdopted,
    ReplicaSeen,
    SignalsReported,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen, State
from tidegate.core.nodes import Node
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.tiers import Tier
from tidegate.core.types import Address, DemandReport, ModelId, ReplicaId, ReplicaLoad, Route, RouteTable
from tidegate.runtime.courses import Course, Judge, Roll
from tidegate.runtime.recorded import Turn

ANYWHERE = Address("replayed", 1)


class Imagined:
    """A controller with other settings, and the fleet that it would have had."""

    def __init__(
        self,
        models: dict[ModelId, FleetModel],
        limits: FleetLimits,
        nodes: tuple[Node, ...],
        start_s: dict[ModelId, dict[str, float]],
    ) -> None:
        """``start_s``: of each model's variants."""
        self._models = models
        self._limits = limits
        self._nodes = nodes
        self._start_s = start_s
        self.courses = {model: Course() for model in models}
        self._judge = Judge(models)
        self._controller = FleetController()
        self._roll = Roll()
        self._ready_s: dict[ReplicaId, float] = {}
        self._table = RouteTable(0, (), ())
        self._is_configured = False

    def play(self, turns: list[Turn]) -> None:
        """All reports, the passing of time, and what was known at the beginning; what was seen of the recorded fleet is not for this one."""
        for at_s, event, _ in turns:
            self._see_ready(at_s)
            match event:
                case FleetConfigured():
                    self._configure(at_s)
                case ReplicaAdopted(replica_id, model) if model in self._models:
                    self._roll.enter(replica_id, model, event.variant)
                    # Nobody sleeps in this fleet.
                    tier = Tier.WARM if event.tier is Tier.WARM else Tier.SERVING
                    found = ReplicaAdopted(replica_id, model, ANYWHERE, tier, event.variant, event.place)
                    self._turn(found, at_s)
                case DemandReported():
                    self._judge.hear(event, at_s)
                    self._turn(DemandReported(self._report(event.report)), at_s)
                case SignalsReported() if event.model in self._models:
                    self._turn(event, at_s)
                case Tick() | KnowledgeRestored():
                    self._turn(event, at_s)
                case _:
                    pass
            self._judge.judge(self.courses, self._roll, at_s)

    def _configure(self, at_s: float) -> None:
        """Once: what the settings were changed to on that day is what is being left out."""
        if not self._is_configured:
            self._is_configured = True
            self._turn(FleetConfigured(self._models, self._limits, self._nodes), at_s)

    def _see_ready(self, at_s: float) -> None:
        for replica_id in [name for name, ready_s in self._ready_s.items() if ready_s <= at_s]:
            del self._ready_s[replica_id]
            self._turn(ReplicaSeen(replica_id, Seen.READY, ANYWHERE), at_s)

    def _turn(self, event: Any, at_s: float) -> None:
        gone: list[ReplicaId] = []
        for effect in self._controller.on(event, at_s):
            match effect:
                case Decision():
                    self.courses[effect.model].note(at_s, effect)
                case Launch():
                    self.courses[effect.model].starts += 1
                    self._roll.enter(effect.replica_id, effect.model, effect.variant)
                    self._ready_s[effect.replica_id] = at_s + self._start_s[effect.model][effect.variant]
                case Stop():
                    gone.append(effect.replica_id)
                case PublishRoutes():
                    self._table = effect.table
                    self._roll.publish(effect.table)
                case _:
                    pass
        for replica_id in gone:
            self._roll.leave(replica_id)
            self._ready_s.pop(replica_id, None)
            self._turn(ReplicaSeen(replica_id, Seen.EXITED, None, "stopped"), at_s)

    def _report(self, report: DemandReport) -> DemandReport:
        """The same demand, spread by slots over the replicas that there would have been. A drain is over at once."""
        in_flight = {told.model: told.in_flight for told in report.models}
        slots: Counter[ModelId] = Counter()
        for route in self._table.routes:
            slots[route.model] += _slots(route)
        loads = tuple(
            ReplicaLoad(
                route.replica_id,
                in_flight.get(route.model, 0) * _slots(route) // max(1, slots[route.model]),
                0,
            )
            for route in self._table.routes
        )
        models = tuple(told for told in report.models if told.model in self._models)
        return replace(report, route_version=self._table.version, models=models, replicas=loads)


def _slots(route: Route) -> int:
    return route.slots if route.state is State.SERVING else 0
