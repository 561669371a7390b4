"""What a story has come to: numbers of replicas over time, orders, and how requests ended."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise

from tidegate.core.effects import Decision


@dataclass(slots=True)
class Course:
    """One place a moment, in order of time."""

    at_s: list[float] = field(default_factory=list)
    desired: list[int] = field(default_factory=list)
    serving: list[int] = field(default_factory=list)
    launches: list[float] = field(default_factory=list)
    """When each start was ordered."""
    longest_start_s: float = 0.0
    """For so long a start was waited for, whether it came to anything or not."""
    decisions: list[tuple[float, Decision]] = field(default_factory=list)
    endings: dict[str, int] = field(default_factory=dict)
    """Requests by outcome, where the story has requests."""

    def note(self, at_s: float, desired: int, serving: int) -> None:
        """The numbers from this moment on."""
        self.at_s.append(at_s)
        self.desired.append(desired)
        self.serving.append(serving)

    def wanted_at(self, at_s: float) -> int:
        """The number in force at a moment."""
        return self.desired[max(0, bisect_right(self.at_s, at_s) - 1)]

    def wanted(self, from_s: float, until_s: float) -> list[int]:
        """The numbers in force within a span."""
        inside = [n for at_s, n in zip(self.at_s, self.desired, strict=True) if from_s < at_s <= until_s]
        return [self.wanted_at(from_s), *inside]

    def reversals(self, from_s: float, until_s: float) -> int:
        """How often the number changed its direction."""
        numbers, turns, way = self.wanted(from_s, until_s), 0, 0
        for before, after in pairwise(numbers):
            step = (after > before) - (after < before)
            if step and way and step != way:
                turns += 1
            way = step or way
        return turns
