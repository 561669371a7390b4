"""Random values from dice, by methods that are short and exact.

``Dice.uniform`` is in [0, 1), so ``1 - u`` is in (0, 1] and its logarithm is finite.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from tidegate.core.types import Dice


def exponential(mean: float, dice: Dice) -> float:
    """By inversion (Devroye, Non-Uniform Random Variate Generation, 1986, section II.2)."""
    return -mean * math.log(1.0 - dice.uniform())


def weibull(shape: float, scale: float, dice: Dice) -> float:
    """By inversion (Devroye 1986, section II.2)."""
    return scale * math.pow(-math.log(1.0 - dice.uniform()), 1.0 / shape)


def normal(mean: float, deviation: float, dice: Dice) -> float:
    """By the polar angle (Box and Muller, Annals of Mathematical Statistics 29, 1958).

    The second value that the method gives is not kept: no state, and always two uniforms a value.
    """
    radius = math.sqrt(-2.0 * math.log(1.0 - dice.uniform()))
    return mean + deviation * radius * math.cos(2.0 * math.pi * dice.uniform())


def gamma(shape: float, scale: float, dice: Dice) -> float:
    """By Marsaglia and Tsang, A simple method for generating gamma variables, ACM TOMS 26(3), 2000.

    Squeezed rejection for a shape of 1 or more; below 1 a value for ``shape + 1`` times u^(1/shape),
    as they propose in section 6.
    """
    if shape < 1.0:
        boost = math.pow(1.0 - dice.uniform(), 1.0 / shape)
        return boost * gamma(shape + 1.0, scale, dice)
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(0.0, 1.0, dice)
        v = (1.0 + c * x) ** 3
        if v <= 0.0:
            continue
        u = 1.0 - dice.uniform()
        if u < 1.0 - 0.0331 * x**4 or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return d * v * scale


def lognormal(mean: float, cv: float, dice: Dice) -> float:
    """The exponential of a normal value, so set that mean and coefficient of variation come out."""
    variance = math.log1p(cv * cv)
    return math.exp(normal(math.log(mean) - variance / 2.0, math.sqrt(variance), dice))


def chosen(count: int, size: int, dice: Dice) -> array[int]:
    """``size`` of the numbers below ``count``, in order; every such set is as likely.

    Selection sampling (Knuth, The Art of Computer Programming 2, section 3.4.2, algorithm S).
    """
    kept = array("q")
    for number in range(count):
        wanted = size - len(kept)
        if wanted == 0:
            break
        if dice.below(count - number) < wanted:
            kept.append(number)
    return kept


class Weights:
    """Draws a place in a list in proportion to its weight, by inversion of the running sums."""

    __slots__ = ("_sums",)

    def __init__(self, weights: Iterable[float]) -> None:
        self._sums: Sequence[float] = array("d", accumulate(weights))
        if not self._sums or not self._sums[-1] > 0.0:
            raise ValueError("weights must have a sum above 0")

    def __repr__(self) -> str:
        return f"<Weights places={len(self._sums)} sum={self._sums[-1]:g}>"

    def draw(self, dice: Dice) -> int:
        # A place of weight 0 ends where it begins, and bisect_right passes it by.
        place = bisect_right(self._sums, dice.uniform() * self._sums[-1])
        return min(place, len(self._sums) - 1)


def zipf_weights(count: int, exponent: float) -> list[float]:
    """Weights 1, 1/2^s, 1/3^s, ...: the first name is the most popular."""
    return [rank**-exponent for rank in range(1, count + 1)]
