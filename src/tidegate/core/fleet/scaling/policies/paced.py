"""Laws that are evaluated at a rate of their own, and what holds for each of them.

Between two evaluations what stands keeps standing. An answer never goes below the floor (somebody waits, or
the idle time is not over), and never shrinks anything while data is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Protocol

from tidegate.core.fleet.scaling.policies.base import FLOORS, Policy, Proposal, Situation
from tidegate.core.scaling_settings import Scaling
from tidegate.core.values import value


@value
class Answer:
    """What a law wants after its own windows and rates, and what it asked for before them."""

    wanted: int
    asked: int
    because: str
    held_by: str | None = None
    """The rule of the law that makes the two differ, limits aside."""
    inputs: dict[str, float] = field(default_factory=dict)


class Law(Protocol):
    """One law's memory and arithmetic. One with ``look(seen, now_s)`` is shown each situation in between, to sample it."""

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """The law's number. Called once in each period, and at no other time."""


class Paced:
    """A law that is asked each ``every_s``. A floor beside other laws lets what stands go in between: only what it last
    answered holds."""

    def __init__(self, law: Law, every_s: float, now_s: float, *, is_floor: bool = False) -> None:
        self._law = law
        self._is_floor = is_floor
        self._look: Callable[[Situation, float], None] | None = getattr(law, "look", None)
        self._every_s = every_s
        self._next_s = now_s
        self._last: Answer | None = None

    def __repr__(self) -> str:
        return f"<Paced {self._law!r} next_s={self._next_s:g}>"

    @property
    def reads_engines(self) -> bool:
        """The law looks at the engines' own pages."""
        return bool(getattr(self._law, "reads_engines", False))

    def propose(self, seen: Situation, now_s: float) -> Proposal:
        """The law's number when it is its turn; else what stands."""
        last = self._last
        if self._look is not None:
            self._look(seen, now_s)
        if last is not None and now_s < self._next_s:
            return self._as_before(last, seen, now_s)
        # In one step after a pause, so that a quiet hour costs nothing.
        missed = max(0, int((now_s - self._next_s) / self._every_s))
        self._next_s += (missed + 1) * self._every_s
        self._last = self._law.evaluate(seen, now_s)
        return self._proposal(seen, self._last, now_s)

    def _as_before(self, last: Answer, seen: Situation, now_s: float) -> Proposal:
        """What stands, for the reason that the law's turn gave while that still holds: who looks once a second at a
        law that is asked every two must not read another reason each time."""
        again = self._proposal(seen, last, now_s)
        if self._is_floor or again.wanted == seen.standing:
            return again
        held_by = last.held_by or (None if seen.standing == seen.within(last.asked) else "pace")
        return self._proposal(
            seen, Answer(seen.standing, last.asked, last.because, held_by, last.inputs), now_s
        )

    def _proposal(self, seen: Situation, answer: Answer, now_s: float) -> Proposal:
        wanted, asked, held_by, because = answer.wanted, max(0, answer.asked), answer.held_by, answer.because
        if wanted < seen.standing and not seen.may_shrink:
            wanted = seen.standing
            held_by = "window" if seen.is_complete else "no data"
        if wanted < seen.floor:
            why = FLOORS[seen.floor_by] if seen.floor_by else ""
            wanted, held_by = seen.floor, seen.floor_by
            because = f"{because}; not below {seen.floor} while {why}"
        if held_by is None and wanted == seen.within(asked):
            # As asked, beyond minimum and maximum too: the final clamp is the one that says so.
            return Proposal(asked, asked, because, None, None, answer.inputs)
        return Proposal(wanted, asked, because, held_by or "pace", self._next_s, answer.inputs)


LawFactory = Callable[[Scaling, int, float], tuple[Law, float]]
"""From a model's settings, the number that stands and the moment to a law and its period."""


def paced(make: LawFactory, *, is_floor: bool = False) -> Callable[[Scaling, int, float], Policy]:
    """From a law's factory to its policy's."""

    def policy(scaling: Scaling, standing: int, now_s: float) -> Policy:
        law, every_s = make(scaling, standing, now_s)
        return Paced(law, every_s, now_s, is_floor=is_floor)

    return policy
