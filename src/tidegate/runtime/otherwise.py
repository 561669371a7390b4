"""A recorded day under other settings: what the controller would have decided, and what that would have come to.

The recorded reports are played to a fresh controller that has the new settings. Its own fleet is imagined: a start
takes as long as the starts of the journal did (their median; without any, what the settings expect), and a drain is over
with the next report. Demand is open loop: it is what came on that day, with the queue that stood before the fleet of that
day, and does not answer to what is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
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
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.judging import Judged
from tidegate.core.fleet.predicting import traffic_of
from tidegate.core.lifecycle import Seen, State
from tidegate.core.nodes import Node
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import Address, DemandReport, ModelId, ReplicaId, ReplicaLoad, RouteTable
from tidegate.runtime.replay import JournalError, Replayed, event_of, read, recorded_effects

JUDGED_EVERY_S = 5.0
ANYWHERE = Address("replayed", 1)


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


@dataclass(slots=True)
class Otherwise:
    """What a replay under other settings found."""

    span_s: float = 0.0
    start_s: dict[ModelId, float] = field(default_factory=dict)
    """How long a start was taken to last."""
    recorded: dict[ModelId, Course] = field(default_factory=dict)
    replayed: dict[ModelId, Course] = field(default_factory=dict)
    missing: int = 0
    left_out: list[ModelId] = field(default_factory=list)
    """Models of the journal that the new settings do not have."""

    def first_difference(self, model: ModelId) -> float | None:
        """The first moment at which the two courses of a model differ."""
        moments = sorted(
            {step.at_s for course in (self.recorded, self.replayed) for step in course[model].steps}
        )
        for at_s in moments:
            if _at(self.recorded[model].steps, at_s) != _at(self.replayed[model].steps, at_s):
                return at_s
        return None


def otherwise(
    files: list[Path],
    models: dict[ModelId, FleetModel],
    limits: FleetLimits,
    nodes: tuple[Node, ...] = (),
) -> Otherwise:
    """Play one run to a controller with these settings.

    Raises:
        JournalError: a line cannot be read, or the journal has none of these models.
    """
    found = Otherwise()
    turns = list(_fleet_turns(files, found))
    if not turns:
        raise JournalError("the journal has no turn of the fleet's controller")
    seen = {
        told.model
        for _, event, _ in turns
        if isinstance(event, DemandReported)
        for told in event.report.models
    }
    known = {model: spec for model, spec in models.items() if model in seen}
    if not known:
        raise JournalError(
            f"the journal is about {', '.join(sorted(seen)) or 'no model'}; the file has none of these"
        )
    found.left_out = sorted(seen - set(known))
    found.start_s = {model: _start_s(turns, model, spec) for model, spec in known.items()}
    found.span_s = turns[-1][0] - turns[0][0]
    _Recorded(known, found).play(turns)
    _Replay(known, limits, nodes, found).play(turns)
    return found


Turn = tuple[float, object, list[Any]]


def _fleet_turns(files: list[Path], found: Otherwise) -> Iterator[Turn]:
    counts = Replayed()
    for source, turn in read(files, counts):
        if turn.brain == "fleet":
            yield turn.t, event_of(turn, source)[1], recorded_effects(turn, source)
    found.missing = counts.missing


def _start_s(turns: list[Turn], model: ModelId, spec: FleetModel) -> float:
    """The median of the recorded starts."""
    launched: dict[ReplicaId, float] = {}
    took_s: list[float] = []
    for at_s, event, effects in turns:
        if isinstance(event, ReplicaSeen) and event.seen is Seen.READY and event.replica_id in launched:
            took_s.append(at_s - launched.pop(event.replica_id))
        launched |= {e.replica_id: at_s for e in effects if isinstance(e, Launch) and e.model == model}
    if took_s:
        return median(took_s)
    return spec.expected_start_s or 0.0


class _Judge:
    """Traffic as the reports have it, and what a number of replicas makes of it."""

    def __init__(self, models: dict[ModelId, FleetModel]) -> None:
        self._models = models
        self._book = DemandBook()
        self._since_s: float | None = None

    def hear(self, event: DemandReported, now_s: float) -> None:
        """A report."""
        self._book.hear(event.report, now_s)

    def judge(
        self, courses: dict[ModelId, Course], counts: dict[ModelId, tuple[int, int]], now_s: float
    ) -> None:
        """From the last time until now so many served, of so many that were there."""
        if self._since_s is None:
            self._since_s = now_s
        span_s = now_s - self._since_s
        if span_s < JUDGED_EVERY_S:
            return
        self._since_s = now_s
        for model, spec in self._models.items():
            demand = self._book.demand(model, spec.scaling.window_s, now_s)
            serving, there = counts[model]
            courses[model].judged.go_on(
                span_s, traffic_of(demand, now_s), demand.capacity, spec, serving=serving, there=there
            )


class _Recorded:
    """The fleet as it was."""

    def __init__(self, models: dict[ModelId, FleetModel], found: Otherwise) -> None:
        self._courses = found.recorded = {model: Course() for model in models}
        self._judge = _Judge(models)
        self._models = models
        self._model_of: dict[ReplicaId, ModelId] = {}
        self._routed: dict[ModelId, int] = dict.fromkeys(models, 0)

    def play(self, turns: list[Turn]) -> None:
        """All turns."""
        for at_s, event, effects in turns:
            self._take_in(event, at_s)
            for effect in effects:
                match effect:
                    case Decision() if effect.model in self._courses:
                        self._courses[effect.model].note(at_s, effect)
                    case Launch() if effect.model in self._courses:
                        self._courses[effect.model].starts += 1
                        self._model_of[effect.replica_id] = effect.model
                    case PublishRoutes():
                        self._routed = {
                            model: sum(
                                r.model == model and r.state is State.SERVING for r in effect.table.routes
                            )
                            for model in self._models
                        }
                    case _:
                        pass
            self._judge.judge(self._courses, self._counts(), at_s)

    def _take_in(self, event: object, at_s: float) -> None:
        match event:
            case DemandReported():
                self._judge.hear(event, at_s)
            case ReplicaAdopted():
                self._model_of[event.replica_id] = event.model
            case ReplicaSeen(replica_id, Seen.EXITED | Seen.GAVE_UP):
                self._model_of.pop(replica_id, None)
            case _:
                pass

    def _counts(self) -> dict[ModelId, tuple[int, int]]:
        there = list(self._model_of.values())
        return {model: (self._routed[model], there.count(model)) for model in self._models}


class _Replay:
    """A controller with other settings, and the fleet that it would have had."""

    def __init__(
        self,
        models: dict[ModelId, FleetModel],
        limits: FleetLimits,
        nodes: tuple[Node, ...],
        found: Otherwise,
    ) -> None:
        self._models = models
        self._limits = limits
        self._nodes = nodes
        self._start_s = found.start_s
        self._courses = found.replayed = {model: Course() for model in models}
        self._judge = _Judge(models)
        self._controller = FleetController()
        self._model_of: dict[ReplicaId, ModelId] = {}
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
                    self._model_of[replica_id] = model
                    self._turn(ReplicaAdopted(replica_id, model, ANYWHERE, place=event.place), at_s)
                case DemandReported():
                    self._judge.hear(event, at_s)
                    self._turn(DemandReported(self._report(event.report)), at_s)
                case SignalsReported() if event.model in self._models:
                    self._turn(event, at_s)
                case Tick() | KnowledgeRestored():
                    self._turn(event, at_s)
                case _:
                    pass
            self._judge.judge(self._courses, self._counts(), at_s)

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
                    self._courses[effect.model].note(at_s, effect)
                case Launch():
                    self._courses[effect.model].starts += 1
                    self._model_of[effect.replica_id] = effect.model
                    self._ready_s[effect.replica_id] = at_s + self._start_s[effect.model]
                case Stop():
                    gone.append(effect.replica_id)
                case PublishRoutes():
                    self._table = effect.table
                case _:
                    pass
        for replica_id in gone:
            self._model_of.pop(replica_id, None)
            self._ready_s.pop(replica_id, None)
            self._turn(ReplicaSeen(replica_id, Seen.EXITED, None, "stopped"), at_s)

    def _report(self, report: DemandReport) -> DemandReport:
        """The same demand, spread over the replicas that there would have been. A drain is over at once."""
        serving = self._serving()
        each = {
            told.model: told.in_flight // max(1, len(serving.get(told.model, ()))) for told in report.models
        }
        loads = [
            ReplicaLoad(replica_id, each.get(model, 0), 0)
            for model, ids in serving.items()
            for replica_id in ids
        ]
        routed = {load.replica_id for load in loads}
        loads += [
            ReplicaLoad(route.replica_id, 0, 0)
            for route in self._table.routes
            if route.replica_id not in routed
        ]
        models = tuple(told for told in report.models if told.model in self._models)
        return replace(report, route_version=self._table.version, models=models, replicas=tuple(loads))

    def _serving(self) -> dict[ModelId, list[ReplicaId]]:
        found: dict[ModelId, list[ReplicaId]] = {}
        for route in self._table.routes:
            if route.state is State.SERVING:
                found.setdefault(route.model, []).append(route.replica_id)
        return found

    def _counts(self) -> dict[ModelId, tuple[int, int]]:
        serving, there = self._serving(), list(self._model_of.values())
        return {model: (len(serving.get(model, ())), there.count(model)) for model in self._models}


def _at(steps: list[Step], at_s: float) -> int | None:
    return next((step.desired for step in reversed(steps) if step.at_s <= at_s), None)
