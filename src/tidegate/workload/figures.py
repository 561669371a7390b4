"""Figures of columns: percentiles, counts in windows, how bursty they are."""

from __future__ import annotations

import math
from array import array
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


def window_counts(arrived_s: array[float], width_s: float) -> array[int]:
    """Arrivals in each window since the first."""
    if not arrived_s:
        return array("q")
    first_s = arrived_s[0]
    counts = array("q", [0]) * (int((arrived_s[-1] - first_s) // width_s) + 1)
    for moment_s in arrived_s:
        counts[int((moment_s - first_s) // width_s)] += 1
    return counts


def dispersion(arrived_s: array[float], width_s: float) -> float | None:
    """Variance by mean of the counts; None without two windows."""
    counts = window_counts(arrived_s, width_s)
    if len(counts) < 2:
        return None
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 for count in counts) / len(counts) / mean


def gap_cv(arrived_s: array[float]) -> float | None:
    """None without a gap above 0."""
    count = len(arrived_s) - 1
    if count < 1 or arrived_s[-1] == arrived_s[0]:
        return None
    mean = (arrived_s[-1] - arrived_s[0]) / count
    squares = math.fsum((after - before - mean) ** 2 for before, after in pairwise(arrived_s))
    return math.sqrt(squares / count) / mean
