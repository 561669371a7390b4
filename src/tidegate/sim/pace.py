"""The gaps between tokens, as a histogram.

Every token of a decoding sequence comes at the end of a step, so the gaps are the steps' times, each
counted once for every sequence that decodes in it. The long gap that a preemption makes in one answer is in
that answer's TPOT and not here.
"""

from __future__ import annotations

from array import array
from math import exp, log

LEAST_S = 1e-4
RATIO = 0.01
"""Bins grow by a hundredth, so a percentile is within half of that."""
BINS = 1_400
"""Up to 112 s."""

_PER_LOG = 1 / log(1 + RATIO)


class Pace:
    """Counts gaps."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = array("d", bytes(8 * BINS))

    def __repr__(self) -> str:
        return f"<Pace of {sum(self._counts):g} gaps>"

    def add(self, gap_s: float, gaps: int) -> None:
        """So many gaps of this length."""
        place = int(log(gap_s / LEAST_S) * _PER_LOG) if gap_s > LEAST_S else 0
        self._counts[place if place < BINS else BINS - 1] += gaps

    def percentile(self, ratio: float) -> float | None:
        """The gap that ``ratio`` of all gaps do not exceed; None without one."""
        wanted = ratio * sum(self._counts)
        passed = 0.0
        for place, count in enumerate(self._counts):
            passed += count
            if count and passed >= wanted:
                return LEAST_S * exp((place + 0.5) / _PER_LOG)
        return None
