"""The fleet of a recorded day as it was."""

from __future__ import annotations

from typing import Any

from tidegate.core.effects import Decision, Launch, PublishRoutes
from tidegate.core.events import DemandReported, ReplicaAdopted, ReplicaSeen
from tidegate.core.lifecycle import Seen, State
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId, ReplicaId
from tidegate.runtime.courses import Course, Judge

Turn = tuple[float, object, list[Any]]
"""A moment, what was told to the controller, what it ordered."""


class Recorded:
    """The fleet as it was."""

    def __init__(self, models: dict[ModelId, FleetModel]) -> None:
        self.courses = {model: Course() for model in models}
        self._judge = Judge(models)
        self._models = models
        self._model_of: dict[ReplicaId, ModelId] = {}
        self._routed: dict[ModelId, int] = dict.fromkeys(models, 0)

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
            self._judge.judge(self.courses, self._counts(), at_s)

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
