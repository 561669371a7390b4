"""A recorded day under other settings: what the controller would have decided, and what that would have come to.

The recorded reports are played to a fresh controller that has the new settings. Its own fleet is imagined: a start
takes as long as the variant's starts of the journal did (their median; without any, what the settings expect), and a drain
is over with the next report. Demand is open loop: it is what came on that day, with the queue that stood before the fleet of that
day, and does not answer to what is decided here.

Where the settings are those of that day, and today's code decides as that day's did, nothing is imagined: the course is the
recorded one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from tidegate.core.effects import Launch
from tidegate.core.events import DemandReported, FleetConfigured, ReplicaSeen
from tidegate.core.fleet.variants import Variants
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Node
from tidegate.core.scaling_settings import Scaling, Schedule
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import ModelId, ReplicaId
from tidegate.runtime.courses import Course, Step
from tidegate.runtime.imagined import Imagined
from tidegate.runtime.recorded import Recorded, Turn
from tidegate.runtime.replay import JournalError, Replayed, event_of, read, recorded_effects, replay


@dataclass(slots=True)
class Otherwise:
    """What a replay under other settings found."""

    span_s: float = 0.0
    start_s: dict[ModelId, dict[str, float]] = field(default_factory=dict)
    """How long a start was taken to last, of each variant of the new settings."""
    recorded: dict[ModelId, Course] = field(default_factory=dict)
    replayed: dict[ModelId, Course] = field(default_factory=dict)
    missing: int = 0
    left_out: list[ModelId] = field(default_factory=list)
    """Models of the journal that the new settings do not have."""
    is_same: bool = False
    """The settings are those of that day, and so are all decisions: both courses are the recorded one."""

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
    recorded = Recorded(known)
    recorded.play(turns)
    found.recorded = found.replayed = recorded.courses
    found.is_same = _are_same(turns, models, limits, nodes) and replay(files).is_faithful
    if not found.is_same:
        imagined = Imagined(known, limits, nodes, found.start_s)
        imagined.play(turns)
        found.replayed = imagined.courses
    return found


def _are_same(
    turns: list[Turn], models: dict[ModelId, FleetModel], limits: FleetLimits, nodes: tuple[Node, ...]
) -> bool:
    """The journal knows no other settings than these."""
    told = [event for _, event, _ in turns if isinstance(event, FleetConfigured)]
    return bool(told) and all(
        (_acting(event.models), event.limits, event.nodes) == (_acting(models), limits, nodes)
        for event in told
    )


def _acting(models: dict[ModelId, FleetModel]) -> dict[ModelId, FleetModel]:
    """Without what makes no difference: a second policy that only looks on, and the local time where no floor needs it."""
    return {
        model: replace(spec, shadow=None, scaling=_timeless(spec.scaling)) for model, spec in models.items()
    }


def _timeless(scaling: Scaling) -> Scaling:
    return scaling if scaling.schedule.floors else replace(scaling, schedule=Schedule())


def _fleet_turns(files: list[Path], found: Otherwise) -> Iterator[Turn]:
    counts = Replayed()
    for source, turn in read(files, counts):
        if turn.brain == "fleet":
            yield turn.t, event_of(turn, source)[1], recorded_effects(turn, source)
    found.missing = counts.missing


def _start_s(turns: list[Turn], model: ModelId, spec: FleetModel) -> dict[str, float]:
    """The median of each variant's recorded starts; of one that was not started, what the settings expect."""
    launched: dict[ReplicaId, tuple[str, float]] = {}
    took_s: dict[str, list[float]] = {}
    for at_s, event, effects in turns:
        if isinstance(event, ReplicaSeen) and event.seen is Seen.READY and event.replica_id in launched:
            variant, began_s = launched.pop(event.replica_id)
            took_s.setdefault(variant, []).append(at_s - began_s)
        launched |= {
            e.replica_id: (e.variant, at_s) for e in effects if isinstance(e, Launch) and e.model == model
        }
    return {
        name: median(took_s[name]) if name in took_s else way.expected_start_s or 0.0
        for name, way in Variants(spec).specs.items()
    }


def _at(steps: list[Step], at_s: float) -> int | None:
    return next((step.desired for step in reversed(steps) if step.at_s <= at_s), None)
