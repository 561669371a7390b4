"""The measured points as a verdict, and that verdict as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fidelity import features, points, traces
from benchmarks.fidelity.calibration import Model
from benchmarks.fidelity.judging import Verdict, judge
from benchmarks.fidelity.points import Point
from benchmarks.fidelity.waves import Waves

TTFT_BOUND, TPOT_BOUND = 0.25, 0.10
COVERED = (0.75, 0.85)


@dataclass(frozen=True, slots=True)
class Line:
    """One group of points. Errors are medians; a spread is the interval's upper end over its lower one."""

    group: tuple[str, ...]
    points: int
    ttft_error: float
    tpot_error: float
    ttft_covered: float
    tpot_covered: float
    ttft_spread: float
    tpot_spread: float


@dataclass(frozen=True, slots=True)
class Judged:
    points: list[Point]
    verdict: Verdict

    def line(self, group: tuple[str, ...], chosen: np.ndarray) -> Line:
        verdict = self.verdict
        errors, covered = verdict.errors[:, chosen], verdict.is_covered[:, chosen]
        spread = verdict.high[:, chosen] / verdict.low[:, chosen]
        medians = (*np.median(errors, 1), *covered.mean(1), *np.median(spread, 1))
        return Line(group, int(chosen.sum()), *map(float, medians))

    def lines(self, key: Callable[[Point], tuple[str, ...]]) -> Iterator[Line]:
        """One for each group, in order of their names."""
        keys = [key(point) for point in self.points]
        for group in sorted(set(keys)):
            yield self.line(group, np.array([found == group for found in keys]))

    def summary(self) -> list[Line]:
        """All points, and the parts that differ in what is known of them."""
        split = np.array([point.is_split for point in self.points])
        guessed = np.array([point.is_guessed for point in self.points])
        sure = self.verdict.is_plain
        every = np.ones(len(split), bool)
        return [
            self.line(("all points",), every),
            self.line(("prompts and answers on the same GPUs",), ~split),
            self.line(("on GPUs of their own, all stated",), split & ~guessed),
            self.line(("on GPUs of their own, groups guessed",), split & guessed),
            self.line(("surely decoding plainly",), sure),
            self.line(("perhaps several tokens a step",), ~sure),
        ]

    def by_model(self) -> list[Line]:
        return list(self.lines(lambda point: (point.model,)))

    def by_model_gpu_backend(self) -> list[Line]:
        return list(self.lines(lambda point: (point.model, point.gpu, point.backend)))

    def promises(self) -> dict[str, bool]:
        """Which of the four promises are kept, over all points."""
        line = self.summary()[0]
        low, high = COVERED
        return {
            f"median TTFT error at most {TTFT_BOUND:.0%}": line.ttft_error <= TTFT_BOUND,
            f"median TPOT error at most {TPOT_BOUND:.0%}": line.tpot_error <= TPOT_BOUND,
            "80 % intervals of TTFT cover 75-85 %": low <= line.ttft_covered <= high,
            "80 % intervals of TPOT cover 75-85 %": low <= line.tpot_covered <= high,
        }

    def as_rows(self) -> list[dict[str, Any]]:
        """Every point with both predictions and their intervals, in seconds."""
        verdict = self.verdict
        return [
            {
                "name": point.name,
                "ttft_s": dict(zip(_FIGURES, map(float, columns[0]), strict=True)),
                "tpot_s": dict(zip(_FIGURES, map(float, columns[1]), strict=True)),
            }
            for point, columns in zip(
                self.points,
                np.stack([verdict.measured, verdict.predicted, verdict.low, verdict.high]).transpose(2, 1, 0),
                strict=True,
            )
        ]


_FIGURES = ("measured", "predicted", "low", "high")


def run(cache: Path) -> Judged:
    """Some 80 seconds on one core; the closed loops are kept in that folder."""
    found = points.read(traces.folder("silicon-points") / "silicon_sample.csv.gz")
    waves = Waves.made(cache / "waves.json")
    return Judged(found, judge(Model.of(features.table(found), waves), found))
