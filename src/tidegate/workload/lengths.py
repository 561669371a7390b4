"""How long prompts and answers are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.core.types import Dice
from tidegate.workload.arrival import MAX_TOKENS
from tidegate.workload.chance import Weights, lognormal
from tidegate.workload.traces import UNKNOWN, Trace


class Spread(Protocol):
    """A distribution of token counts."""

    def draw(self, dice: Dice) -> int: ...


class Lengths(Protocol):
    """A distribution of (prompt tokens, output tokens)."""

    def draw(self, dice: Dice) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same."""

    tokens: int

    def draw(self, dice: Dice) -> int:
        return self.tokens


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every whole number from ``low`` to ``high`` is as likely."""

    low: int
    high: int

    def draw(self, dice: Dice) -> int:
        return self.low + dice.below(self.high - self.low + 1)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A long right tail; rounded, and kept from ``low`` to ``high``."""

    mean: float
    cv: float
    low: int = 1
    high: int = MAX_TOKENS

    def draw(self, dice: Dice) -> int:
        return min(self.high, max(self.low, round(lognormal(self.mean, self.cv, dice))))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bins of whole numbers, both ends included, each with a weight; within a bin all are as likely."""

    bins: tuple[tuple[int, int, float], ...]
    """(lowest, highest, weight), in order."""
    _weights: Weights = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_weights", Weights(weight for _, _, weight in self.bins))

    @property
    def weight(self) -> float:
        return sum(weight for _, _, weight in self.bins)

    @property
    def mean(self) -> float:
        return sum((low + high) / 2.0 * weight for low, high, weight in self.bins) / self.weight

    def quantile(self, ratio: float) -> int:
        """The lowest number of the bin in which this share of the weight is reached."""
        goal, passed = ratio * self.weight, 0.0
        for low, _, weight in self.bins:
            passed += weight
            if passed >= goal:
                return low
        return self.bins[-1][0]

    def draw(self, dice: Dice) -> int:
        low, high, _ = self.bins[self._weights.draw(dice)]
        return low + dice.below(high - low + 1)


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of several independent spreads: text and image tokens of one prompt."""

    parts: tuple[Spread, ...]

    def draw(self, dice: Dice) -> int:
        return sum(part.draw(dice) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Independent:
    """Prompt and answer drawn apart from each other."""

    prompt: Spread
    output: Spread

    def draw(self, dice: Dice) -> tuple[int, int]:
        return self.prompt.draw(dice), self.output.draw(dice)


@dataclass(frozen=True, slots=True)
class Recorded:
    """Pairs that were seen together, each as likely: long prompts keep their short answers."""

    pairs: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, trace: Trace) -> Recorded:
        """The pairs of a trace that are known in full."""
        both = zip(trace.prompt_tokens, trace.output_tokens, strict=True)
        return cls([pair for pair in both if UNKNOWN not in pair])

    def draw(self, dice: Dice) -> tuple[int, int]:
        if not self.pairs:
            raise ValueError("no request of that trace has both its lengths")
        return self.pairs[dice.below(len(self.pairs))]


def filled(trace: Trace, lengths: Lengths, dice: Dice) -> Trace:
    """The trace with a drawn length wherever it has none; lengths that are known stay."""
    if trace.is_complete:
        return trace
    complete = trace.at(trace.arrived_s)
    complete.prompt_tokens, complete.output_tokens = trace.prompt_tokens[:], trace.output_tokens[:]
    for row in _gaps(trace):
        prompt_tokens, output_tokens = lengths.draw(dice)
        if complete.prompt_tokens[row] == UNKNOWN:
            complete.prompt_tokens[row] = prompt_tokens
        if complete.output_tokens[row] == UNKNOWN:
            complete.output_tokens[row] = output_tokens
    return complete


def _gaps(trace: Trace) -> Iterable[int]:
    both = zip(trace.prompt_tokens, trace.output_tokens, strict=True)
    return (row for row, pair in enumerate(both) if UNKNOWN in pair)
