"""Of all that was tried, what nothing else beats; and the one to take."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.planner.search import Tried

EQUAL = 1e-4
"""Of the promise: less is no reason to pay more."""


def frontier(tried: Sequence[Tried]) -> list[Tried]:
    """Those of which no other keeps as much for less, the cheapest first."""
    found: list[Tried] = []
    for one in sorted(tried, key=lambda each: (each.score.replica_hours, -each.score.attainment)):
        if not found or one.score.attainment > found[-1].score.attainment + EQUAL:
            found.append(one)
    return found


def chosen(found: Sequence[Tried], goal: float) -> Tried:
    """The cheapest of a frontier that keeps the goal; the one that keeps most when none does."""
    return next((one for one in found if one.score.attainment >= goal), found[-1])


def thinned(found: Sequence[Tried], most: int, keep: Tried) -> list[Tried]:
    """At most so many of a frontier, evenly by place, ``keep`` among them."""
    if len(found) <= most:
        return list(found)
    places = {round(step * (len(found) - 1) / (most - 1)) for step in range(most)}
    return [one for place, one in enumerate(found) if place in places or one is keep]
