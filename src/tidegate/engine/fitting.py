"""The linear law from measured steps.

Least squares on relative errors, so that a step of 10 ms counts as much as one of a second. Coefficients
are never negative: one that would be is left out and the others are fitted again (a plain active set;
Lawson and Hanson, "Solving Least Squares Problems", 1974, have the refined one).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tidegate.engine.latency import LinearLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSample:
    """One measured step."""

    took_s: float
    sequences: int = 0
    """Decoding ones."""
    kv_tokens: int = 0
    """Cached tokens of those, all together."""
    new_tokens: int = 0
    """Prompt tokens computed, over all chunks."""
    new_squares: int = 0
    """Sum of the chunks' squared lengths."""
    new_times_cached: int = 0
    """Sum over the chunks of length times tokens cached before."""

    def features(self) -> tuple[float, ...]:
        """What a, b, c, e, f and g are multiplied with, in the law's units."""
        return (
            1.0,
            float(self.sequences),
            self.kv_tokens / 1e3,
            self.new_tokens / 1e3,
            self.new_squares / 1e6,
            self.new_times_cached / 1e6,
        )


def fitted(samples: Collection[StepSample]) -> tuple[LinearLaw, float]:
    """The law that fits these steps best, and its mean relative error on them.

    With and without decoding sequences a step has the same base: whole steps do not tell them apart.

    Raises:
        ValueError: there are none, or one took no time.
    """
    if not samples or min(sample.took_s for sample in samples) <= 0:
        message = f"{len(samples)} steps to fit; there must be some, and each must have taken some time"
        raise ValueError(message)
    rows = [sample.features() for sample in samples]
    took_ms = [sample.took_s * 1e3 for sample in samples]
    relative = [tuple(value / took for value in row) for row, took in zip(rows, took_ms, strict=True)]
    a, b, c, e, f, g = _positive_fit(relative)
    errors = [
        abs(sum(map(float.__mul__, row, (a, b, c, e, f, g))) / took - 1)
        for row, took in zip(rows, took_ms, strict=True)
    ]
    return LinearLaw(a=a, b=b, c=c, d=a, e=e, f=f, g=g), sum(errors) / len(errors)


def _positive_fit(rows: Sequence[Sequence[float]]) -> list[float]:
    """Weights of the columns, none negative, that bring the rows' sums nearest to 1."""
    width = len(rows[0])
    products = [[sum(row[i] * row[j] for row in rows) for j in range(width)] for i in range(width)]
    totals = [sum(row[i] for row in rows) for i in range(width)]
    used = [column for column in range(width) if products[column][column] > 0]
    while True:
        weights = _solved([[products[i][j] for j in used] for i in used], [totals[i] for i in used])
        if min(weights) >= 0:
            found = dict(zip(used, weights, strict=True))
            return [found.get(column, 0.0) for column in range(width)]
        del used[weights.index(min(weights))]


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination with pivoting; a column that depends on others gets 0."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for column in range(size):
        _, pivot = max((abs(rows[row][column]), row) for row in range(column, size))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        if abs(rows[column][column]) <= 1e-12 * abs(matrix[column][column]):
            rows[column] = [float(place == column) for place in range(size)] + [0.0]
        for below in range(column + 1, size):
            share = rows[below][column] / rows[column][column]
            rows[below] = [x - share * y for x, y in zip(rows[below], rows[column], strict=True)]
    solution = [0.0] * size
    for row in reversed(range(size)):
        known = sum(rows[row][column] * solution[column] for column in range(row + 1, size))
        solution[row] = (rows[row][size] - known) / rows[row][row]
    return solution
