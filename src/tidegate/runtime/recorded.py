"""The fleet of a recorded day as it was."""

from __future__ import annotations

from typing import Any

from tidegate.core.effects import Decision, Launch, PublishRoutes
from tidegate.core.events import DemandReported, FleetConfigured, ReplicaAdopted, ReplicaSeen
from tidegate.core.lifecycle import Seen
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId
from tidegate.runtime.courses import Course, Judge, Roll

Turn = tuple[float, object, list[Any]]
"""A moment, what was told to the controller, what it ordered."""


class Recorded:
    """The fleet as it was."""

    def __init__(self, models: dict[ModelId, FleetModel]) -> None:
        self.courses = {model: Course() for model in models}
        self._judge = Judge(models)
        self._roll = Roll()

    def play(self, turns: list[Turn]) -> None:
        """All turns."""
        for at_s, event, effects in turns:
            self._take_in(event, at_s)
            for effect in effects:
                match effect:
                    case Decision() if effect.model in self.courses:
                        self.courses[effect.model].note(at_s, effect)
                    case Launch() if effect.model in self.courses:
                        self.courses[effect.model].starts += 1
                        self._roll.enter(effect.replica_id, effect.model, effect.variant)
                    case PublishRoutes():
                        self._roll.publish(effect.table)
                    case _:
                        pass
            self._judge.judge(self.courses, self._roll, at_s)

    def _take_in(self, event: object, at_s: float) -> None:
        match event:
            case FleetConfigured():
                self._judge.hear_settings(event)
            case DemandReported():
                self._judge.hear(event, at_s)
            case ReplicaAdopted():
                self._roll.enter(event.replica_id, event.model, event.variant)
            case ReplicaSeen(replica_id, Seen.EXITED | Seen.GAVE_UP):
                self._roll.leave(replica_id)
            case _:
                pass
