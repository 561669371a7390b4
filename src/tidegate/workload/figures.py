"""Figures of columns: percentiles, counts in windows, how bursty they are."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidegate.workload.traces import UNKNOWN


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Lengths of the rows that have one."""

    known: int
    total: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: int


def percentile(ordered: Sequence[float], ratio: float) -> float:
    """Between the two nearest ranks of a sorted list, in proportion."""
    place = ratio * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def token_counts(column: array[int]) -> TokenCounts | None:
    """None when no row has a length."""
    ordered = sorted(tokens for tokens in column if tokens != UNKNOWN)
    if not ordered:
        return None
    return TokenCounts(
        known=len(ordered),
        total=sum(ordered),
        mean=sum(ordered) / len(ordered),
        p50=percentile(ordered, 0.50),
        p95=percentile(ordered, 0.95),
        p99=percentile(ordered, 0.99),
        max=ordered[-1],
    )


class Windows:
    """Arrivals in windows of one width, from the first arrival on. Only windows with arrivals take room: a trace
    of two rows may span years."""

    def __init__(self, arrived_s: array[float], width_s: float) -> None:
        first_s = arrived_s[0] if arrived_s else 0.0
        self._counts = Counter(int((moment_s - first_s) // width_s) for moment_s in arrived_s)
        self._rows = len(arrived_s)
        self.total = int((arrived_s[-1] - first_s) // width_s) + 1 if arrived_s else 0
        """How many windows there are, the last one as it is."""

    def __repr__(self) -> str:
        return f"<Windows {len(self._counts)} of {self.total} with arrivals>"

    @property
    def most(self) -> int | None:
        """Arrivals in the fullest window; None without a window."""
        return max(self._counts.values(), default=None)

    def least(self, windows: int) -> int | None:
        """Arrivals in the emptiest of the first so many windows; None when that is none."""
        found = [count for window, count in self._counts.items() if window < windows]
        return 0 if len(found) < windows else min(found, default=None)

    def dispersion(self) -> float | None:
        """Variance by mean of the counts; None without two windows."""
        if self.total < 2:
            return None
        mean = self._rows / self.total
        empty = (self.total - len(self._counts)) * mean * mean
        return (sum((count - mean) ** 2 for count in self._counts.values()) + empty) / self.total / mean


def gap_cv(arrived_s: array[float]) -> float | None:
    """None without a gap above 0."""
    count = len(arrived_s) - 1
    if count < 1 or arrived_s[-1] == arrived_s[0]:
        return None
    mean = (arrived_s[-1] - arrived_s[0]) / count
    squares = math.fsum((after - before - mean) ** 2 for before, after in pairwise(arrived_s))
    return math.sqrt(squares / count) / mean
