"""Judging the roofline on models that it was not calibrated on, with an 80 % interval on each prediction.

Leave one model out: each point is predicted with costs fitted to all *other* models (DeepSeek-R1 and V3 are
one). The interval comes from leaving out, among those others, one more at a time: how far such
predictions were off, each model counting alike. So neither a prediction nor its interval has seen
anything measured on its model.

Where nothing says whether a point predicts several tokens a step (see ``points``), it is taken to do so or
not with even odds, at the 1.8 tokens a step that DeepSeek-V3's own report gives (arXiv 2412.19437, 2024).
The prediction lies half way, in ratios; a tenth of the mixture lies below the lowest fifth of the faster
half, and above the highest fifth of the slower one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.fidelity.calibration import Model
from benchmarks.fidelity.points import Point, plain

OUTSIDE = 0.1
"""Of the points, to each side of the interval."""
TOKENS_A_STEP = 1.8
ROWS_A_MODEL = 300
"""What a model with many points and one with few both come near to in the fit (as a geometric mean)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Predictions for all points: time to first token in the first row, time per token in the second."""

    measured: np.ndarray
    predicted: np.ndarray
    low: np.ndarray
    high: np.ndarray
    is_plain: np.ndarray

    @property
    def errors(self) -> np.ndarray:
        """Relative, without sign."""
        return np.abs(self.predicted / self.measured - 1)

    @property
    def is_covered(self) -> np.ndarray:
        return (self.low <= self.measured) & (self.measured <= self.high)


def weights(points: list[Point], surely_plain: np.ndarray) -> np.ndarray:
    """What each point counts in a fit: rows of one measurement together as one, guessed ones half, and
    those that may not decode plainly not at all."""
    copies = Counter(point.measured for point in points)
    counted = np.array([1 / copies[point.measured] for point in points]) * surely_plain
    counted *= [0.5 if point.is_split else 1.0 for point in points]
    counted *= [0.5 if point.is_guessed else 1.0 for point in points]
    models = np.array([point.model for point in points])
    for name in set(models):
        counted[models == name] *= (ROWS_A_MODEL / max(counted[models == name].sum(), 1e-9)) ** 0.5
    return counted


def judge(model: Model, points: list[Point]) -> Verdict:
    """Every point, from all models but its own."""
    surely_plain = np.array(plain(points))
    counted = weights(points, surely_plain)
    names = np.array([point.model for point in points])
    unsure = np.array([np.zeros(len(points)), np.where(surely_plain, 0.0, np.log(TOKENS_A_STEP) / 2)])
    logs, low, high = (np.empty((2, len(points))) for _ in range(3))
    for name in sorted(set(names)):
        mine, others = np.flatnonzero(names == name), sorted(set(names) - {name})
        fitted = _fit(model, counted, np.isin(names, others))
        logs[:, mine] = model.predict(fitted, mine).reshape(2, -1)
        off = _off(model, counted, names, others, fitted)
        for split, figure, is_unsure in product((False, True), (0, 1), (False, True)):
            some = mine[(model.data["is_split"][mine] == split) & ((unsure[figure, mine] > 0) == is_unsure)]
            outside = OUTSIDE * (1 + is_unsure)
            low[figure, some], high[figure, some] = _quantiles(off, split, figure, outside)
    predicted = logs - unsure
    return Verdict(
        measured=np.exp(model.measured(np.arange(len(points))).reshape(2, -1)),
        predicted=np.exp(predicted),
        low=np.exp(predicted + low - unsure),
        high=np.exp(predicted + high + unsure),
        is_plain=surely_plain,
    )


def _fit(
    model: Model, counted: np.ndarray, chosen: np.ndarray, start: np.ndarray | None = None
) -> np.ndarray:
    rows = np.flatnonzero(chosen & (counted > 0))
    return model.fit(rows, counted[rows], start)


@dataclass(frozen=True, slots=True)
class _Off:
    """By how much the logarithm of one more model's figures was missed."""

    missed: np.ndarray
    weight: np.ndarray
    is_split: bool
    figure: int


def _off(
    model: Model, counted: np.ndarray, names: np.ndarray, others: list[str], start: np.ndarray
) -> list[_Off]:
    found = []
    for name in others:
        fitted = _fit(model, counted, np.isin(names, [other for other in others if other != name]), start)
        for split in (False, True):
            rows = np.flatnonzero((names == name) & (model.data["is_split"] == split) & (counted > 0))
            if len(rows):
                missed = (model.measured(rows) - model.predict(fitted, rows)).reshape(2, -1)
                weight = counted[rows] / counted[rows].sum()
                found += [_Off(missed[figure], weight, split, figure) for figure in (0, 1)]
    return found


def _quantiles(off: list[_Off], split: bool, figure: int, outside: float) -> tuple[float, float]:
    """Of what was missed with GPUs used alike; with all, where no other model used them so."""
    alike = [one for one in off if one.figure == figure and one.is_split == split]
    chosen = alike or [one for one in off if one.figure == figure]
    missed = np.concatenate([one.missed for one in chosen])
    order = np.argsort(missed)
    below = np.cumsum(np.concatenate([one.weight for one in chosen])[order]) / len(chosen)
    low, high = (float(missed[order][np.searchsorted(below, share)]) for share in (outside, 1 - outside))
    return low, high
