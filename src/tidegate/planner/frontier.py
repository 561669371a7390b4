"""Of all that was tried, what nothing else beats; and the one to take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidegate.planner.search import ROW, Tried
from tidegate.planner.trial import Settings
from tidegate.sim.fluid import Score

EQUAL = 1e-4
"""Of the promise: less is no reason to pay more."""


def frontier(tried: Sequence[Tried]) -> list[Tried]:
    """Those of which no other keeps as much for less, the cheapest first."""
    found: list[Tried] = []
    for one in sorted(tried, key=_by_cost):
        if not found or one.score.attainment > found[-1].score.attainment + EQUAL:
            found.append(one)
    return found


def able(tried: Sequence[Tried], goal: float) -> list[Tried]:
    """Those that keep the goal on the part tuned on, the cheapest first; the one that keeps most when none does.

    Not only the frontier's: where that part is easy one setting beats all others there, and may be the worst elsewhere.
    """
    return [one for one in sorted(tried, key=_by_cost) if one.score.attainment >= goal] or frontier(tried)[
        -1:
    ]


class HeldOut:
    """What settings come to on the part that is not tuned on; each is judged once."""

    def __init__(self, judge_all: Callable[[list[Settings]], Iterator[Score]]) -> None:
        self._judge_all = judge_all
        self.scores: dict[int, Score] = {}
        """By number of the trial."""

    def __repr__(self) -> str:
        return f"<HeldOut {len(self.scores)} judged>"

    def judge(self, some: Sequence[Tried]) -> None:
        """Judge those that have not been."""
        new = [one for one in some if one.number not in self.scores]
        scores = self._judge_all([one.settings for one in new])
        self.scores.update(zip((one.number for one in new), scores, strict=True))

    def choose(self, candidates: Sequence[Tried], goal: float) -> Tried:
        """The first candidate that keeps the goal here too; when none does, the first of those that keep most here."""
        for begin in range(0, len(candidates), ROW):
            row = candidates[begin : begin + ROW]
            self.judge(row)
            for one in row:
                if self.scores[one.number].attainment >= goal:
                    return one
        return max(candidates, key=lambda one: self.scores[one.number].attainment)


def thinned(found: Sequence[Tried], most: int) -> list[Tried]:
    """At most so many of a frontier, evenly by place."""
    if len(found) <= most:
        return list(found)
    places = {round(step * (len(found) - 1) / (most - 1)) for step in range(most)}
    return [one for place, one in enumerate(found) if place in places]


def _by_cost(one: Tried) -> tuple[float, float]:
    return one.score.spent, -one.score.attainment
