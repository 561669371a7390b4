"""How regular arrivals are: gaps with a mean of 1, to be stretched by a rate curve.

``first`` is the wait from an arbitrary moment to the next arrival, ``draw`` the gap between two arrivals.
With the right first wait a process is in its steady state from the start, and its mean count is exactly
rate times time (Cox, Renewal Theory, 1962, section 2.2); beginning with an arrival instead would add
(cv^2 - 1) / 2 requests, 36 for the burstiest client of a recorded fortnight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.types import Dice
from tidegate.workload.chance import exponential, gamma, weibull


class Gaps(Protocol):
    """A distribution of gaps with mean 1."""

    def first(self, dice: Dice) -> float: ...

    def draw(self, dice: Dice) -> float: ...


@dataclass(frozen=True, slots=True)
class EvenGaps:
    """A metronome that was started at an arbitrary moment."""

    def first(self, dice: Dice) -> float:
        return 1.0 - dice.uniform()

    def draw(self, dice: Dice) -> float:
        return 1.0


@dataclass(frozen=True, slots=True)
class PoissonGaps:
    """Arrivals that know nothing of each other; coefficient of variation 1."""

    def first(self, dice: Dice) -> float:
        return exponential(1.0, dice)

    def draw(self, dice: Dice) -> float:
        return exponential(1.0, dice)


@dataclass(frozen=True, slots=True)
class GammaGaps:
    """Bursty below shape 1, regular above; coefficient of variation 1/sqrt(shape)."""

    shape: float

    @classmethod
    def with_cv(cls, cv: float) -> GammaGaps:
        return cls(1.0 / (cv * cv))

    def first(self, dice: Dice) -> float:
        # The gap around an arbitrary moment is long in proportion to its length: Gamma(shape + 1).
        return dice.uniform() * gamma(self.shape + 1.0, 1.0 / self.shape, dice)

    def draw(self, dice: Dice) -> float:
        return gamma(self.shape, 1.0 / self.shape, dice)


@dataclass(frozen=True, slots=True)
class WeibullGaps:
    """Heavier bursts than Gamma's at the same coefficient of variation."""

    shape: float

    @classmethod
    def with_cv(cls, cv: float) -> WeibullGaps:
        """Found by halving: the coefficient of variation falls as the shape grows."""
        low, high = 0.05, 200.0
        if not _weibull_cv(high) <= cv <= _weibull_cv(low):
            message = f"cv is {cv:g}; it must be from {_weibull_cv(high):.2g} to {_weibull_cv(low):.2g}"
            raise ValueError(message)
        for _ in range(100):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if _weibull_cv(middle) > cv else (low, middle)
        return cls(low)

    @property
    def _scale(self) -> float:
        return 1.0 / math.gamma(1.0 + 1.0 / self.shape)

    def first(self, dice: Dice) -> float:
        # x times the Weibull density is, in x^shape, a Gamma of shape 1 + 1/shape.
        around = self._scale * math.pow(gamma(1.0 + 1.0 / self.shape, 1.0, dice), 1.0 / self.shape)
        return dice.uniform() * around

    def draw(self, dice: Dice) -> float:
        return weibull(self.shape, self._scale, dice)


def positions(gaps: Gaps, dice: Dice) -> Iterator[float]:
    """Endless arrivals at a rate of 1, in the steady state from 0 on."""
    position = gaps.first(dice)
    while True:
        yield position
        position += gaps.draw(dice)


def _weibull_cv(shape: float) -> float:
    # By logarithms: gamma(1 + 2/0.05) is near 1e48, and its square would still fit, but not much more.
    ratio = math.exp(math.lgamma(1.0 + 2.0 / shape) - 2.0 * math.lgamma(1.0 + 1.0 / shape))
    return math.sqrt(max(0.0, ratio - 1.0))
