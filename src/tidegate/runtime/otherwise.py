"""A recorded day under other settings: what the controller would have decided, and what that would have come to.

The recorded reports are played to a fresh controller that has the new settings. Its own fleet is imagined: a start
takes as long as the variant's starts of the journal did (their median; without any, what the settings expect), and a drain
is over with the next report. Demand is open loop: it is what came on that day, with the queue that stood before the fleet of that
day, and does not answer to what is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tidegate.core.effects import Launch
from tidegate.core.events import DemandReported, ReplicaSeen
from tidegate.core.fleet.variants import Variants
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Node
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import ModelId, ReplicaId
from tidegate.runtime.courses import Course, Step
from tidegate.runtime.imagined import Imagined
from tidegate.runtime.recorded import Recorded, Turn
from tidegate.runtime.replay import JournalError, Replayed, event_of, read, recorded_effects


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
    recorded, imagined = Recorded(known), Imagined(known, limits, nodes, found.start_s)
    recorded.play(turns)
    imagined.play(turns)
    found.recorded, found.replayed = recorded.courses, imagined.courses
    return found


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
