"""How long a start takes, learned from the last ones: the median, since one slow pull is not the rule."""

from __future__ import annotations

from collections import deque
from statistics import median

from tidegate.core.types import ModelId

SAMPLES_MAX = 16
"""Enough for a steady median, few enough to follow a new image or a faster disk within a day."""


class ColdStarts:
    """Measured start times by model."""

    def __init__(self) -> None:
        self._took_s: dict[ModelId, deque[float]] = {}

    def __repr__(self) -> str:
        return f"<ColdStarts of {len(self._took_s)} models>"

    def learn(self, model: ModelId, took_s: float) -> None:
        """A replica took this long from its launch to its first real token."""
        self._took_s.setdefault(model, deque(maxlen=SAMPLES_MAX)).append(took_s)

    def expected_s(self, model: ModelId, otherwise_s: float | None) -> float | None:
        """The median of the last starts; before the first, what the settings say; else None."""
        took_s = self._took_s.get(model)
        return median(took_s) if took_s else otherwise_s
