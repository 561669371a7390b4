"""One model's numbers over a day, and what they came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.core.effects import Decision
from tidegate.core.events import DemandReported
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.judging import Judged
from tidegate.core.fleet.predicting import traffic_of
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId

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


class Judge:
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
