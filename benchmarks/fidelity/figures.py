"""Errors of predicted figures, and whether they keep their bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

STATISTICS = {"mean": np.mean} | {
    f"p{share}": lambda values, share=share: np.percentile(values, share) for share in (50, 90, 99)
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of one run."""

    run: str
    figure: str
    measured: float
    predicted: float
    bound: float | None = None
    """Largest relative error that is promised; None: shown only."""

    @property
    def error(self) -> float:
        """Relative; above zero when the prediction is too large."""
        return self.predicted / self.measured - 1

    @property
    def is_kept(self) -> bool:
        """Within its bound, or without one."""
        return self.bound is None or abs(self.error) <= self.bound

    def as_json(self) -> dict[str, object]:
        return asdict(self) | {"error": self.error, "is_kept": self.is_kept}


def compare(
    run: str,
    what: str,
    measured: Sequence[float],
    predicted: Sequence[float],
    bounds: dict[str, float],
) -> list[Comparison]:
    """Mean and percentiles of one quantity; ``bounds`` names those that are promised."""
    return [
        Comparison(run, f"{what} {name}", float(of(measured)), float(of(predicted)), bounds.get(name))
        for name, of in STATISTICS.items()
    ]
