"""A straight law in three terms, learned from a stream: least squares that forgets and distrusts outliers.

``y = k0 * x0 + k1 * x1 + k2 * x2`` with no k below zero. A sample counts by its relative error, so that short and
long ones teach alike; one that is far off what was expected counts for little; each is worth a little less
than the one after it. A prior stands in until there is data. Adding costs the same however many came before.
"""

from __future__ import annotations

from math import isfinite

from tidegate.core.knowledge import KnownLaw, is_sane

Terms = tuple[float, float, float]

FORGET = 0.995
"""Weight of a sample when the next one has come: about the last 200 count."""
PRIOR_SAMPLES = 4.0
"""So many samples outweigh the prior."""
TYPICAL_ERROR = 1.0
"""Relative, before any has been seen."""
TRUSTED_ERRORS = 2.5
"""Times the usual error; a sample that is further off counts only as if it were this far off."""
SOLVE_EVERY = 8
"""Samples between two solutions, once there are as many."""
TOO_LARGE = 1e100


class Law:
    """The learned coefficients. Owns its sums."""

    __slots__ = ("_count", "_error", "_floor", "_prior", "_sums", "_typical", "_weight", "k0", "k1", "k2")

    def __init__(self, prior: Terms, typical: Terms, floor: float) -> None:
        """``prior`` is believed at first; ``typical`` says what each x usually is; below ``floor`` a y is noise."""
        self.k0, self.k1, self.k2 = prior
        self._prior = prior
        self._typical = typical
        self._floor = floor
        self._sums = [0.0] * 9
        self._weight = 1.0
        self._error = TYPICAL_ERROR
        self._count = 0

    def __repr__(self) -> str:
        return f"<Law {self.k0:.3g} {self.k1:.3g} {self.k2:.3g} of {self._count} samples>"

    @property
    def samples(self) -> int:
        """Seen so far."""
        return self._count

    def at(self, x0: float, x1: float, x2: float) -> float:
        """What the law says."""
        return self.k0 * x0 + self.k1 * x1 + self.k2 * x2

    def add(self, x0: float, x1: float, x2: float, y: float, trust: float = 1.0) -> None:
        """Learn from one sample; one that is trusted less counts less."""
        scale = self._floor + self.at(x0, x1, x2)
        miss = abs(y - scale) / scale
        trusted = TRUSTED_ERRORS * self._error
        self._weight /= FORGET
        weight = trust * self._weight / (scale * scale)
        if miss > trusted:
            weight *= trusted / miss
        self._error += 0.02 * (min(miss, 4 * self._error) - self._error)
        sums = self._sums
        sums[0] += weight * x0 * x0
        sums[1] += weight * x0 * x1
        sums[2] += weight * x0 * x2
        sums[3] += weight * x1 * x1
        sums[4] += weight * x1 * x2
        sums[5] += weight * x2 * x2
        sums[6] += weight * x0 * y
        sums[7] += weight * x1 * y
        sums[8] += weight * x2 * y
        self._count += 1
        if self._count < SOLVE_EVERY or self._count % SOLVE_EVERY == 0:
            self._solve()

    def remember(self) -> KnownLaw | None:
        """What outlives this process; None before the first sample."""
        if not self._count:
            return None
        s = [value / self._weight for value in self._sums]
        sums = (s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8])
        return KnownLaw((self.k0, self.k1, self.k2), sums, self._error, self._count)

    def restore(self, known: KnownLaw | None) -> None:
        """Go on from there. What cannot be sums of squares is no law, and changes nothing."""
        if known is None or known.count <= 0 or not _can_be(known):
            return
        self.k0, self.k1, self.k2 = known.coefficients
        self._sums, self._weight = list(known.sums), 1.0
        self._error, self._count = known.error, known.count

    def _solve(self) -> None:
        if self._weight > TOO_LARGE:
            self._sums = [value / self._weight for value in self._sums]
            self._weight = 1.0
        s = [value / self._weight for value in self._sums]
        # As many samples as PRIOR_SAMPLES at each term's usual size would pull, and no more where all is slower than the
        # prior: samples count by their relative error, and so does the prior.
        y = self._floor + max(self.at(*self._typical), _at(self._prior, self._typical))
        a, b, c = (PRIOR_SAMPLES * (x / y) ** 2 for x in self._typical)
        k, p = self._prior, (a * self._prior[0], b * self._prior[1], c * self._prior[2])
        rows = (
            (s[0] + a, s[1], s[2], s[6] + p[0]),
            (s[1], s[3] + b, s[4], s[7] + p[1]),
            (s[2], s[4], s[5] + c, s[8] + p[2]),
        )
        free = [0, 1, 2]
        while free:
            k = _solved(rows, free)
            negative = [term for term in free if k[term] < 0.0]
            if not negative:
                break
            # The most negative term is left out, and the others take over its part.
            free.remove(min(negative, key=lambda term: k[term] * rows[term][term]))
        self.k0, self.k1, self.k2 = k if free else self._prior


def _can_be(known: KnownLaw) -> bool:
    s = known.sums
    if not (all(map(is_sane, (*known.coefficients, *s))) and 0.0 < known.error < TOO_LARGE):
        return False
    # Cauchy and Schwarz, with room for what rounding does.
    squares = ((s[1], s[0] * s[3]), (s[2], s[0] * s[5]), (s[4], s[3] * s[5]))
    return all(isfinite(both) and cross * cross <= both * (1.0 + 1e-6) + 1e-12 for cross, both in squares)


def _at(coefficients: Terms, x: Terms) -> float:
    return sum(k * each for k, each in zip(coefficients, x, strict=True))


def _solved(rows: tuple[tuple[float, ...], ...], free: list[int]) -> Terms:
    """The normal equations of these terms, the others being zero."""
    m = [[rows[i][j] for j in free] + [rows[i][3]] for i in free]
    size = len(free)
    for i in range(size):
        for j in range(i + 1, size):
            # The prior makes every pivot positive.
            factor = m[j][i] / m[i][i]
            for column in range(i, size + 1):
                m[j][column] -= factor * m[i][column]
    k = [0.0, 0.0, 0.0]
    for i in reversed(range(size)):
        rest = sum(m[i][j] * k[free[j]] for j in range(i + 1, size))
        k[free[i]] = (m[i][size] - rest) / m[i][i]
    return k[0], k[1], k[2]
