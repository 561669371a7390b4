"""A number that somebody set by hand, and for how long it counts instead of the law's.

Two ways lead to one. ``ScaledByHand`` says a number and a time: it holds for so long, whatever demand asks, or as a
floor when it was set as one. And where the policy adopts what is done by hand, a replica that somebody ended is not
started anew: one fewer holds until demand asks for more than it did then, or its time is over.

The law goes on deciding meanwhile, so it knows its past when the number ends. Minimum, maximum and all caps count as
ever: they are stronger than a hand.
"""

from __future__ import annotations

from math import inf

from tidegate.core.events import ScaledByHand
from tidegate.core.fleet.scaling.policies import Proposal
from tidegate.core.fleet.scaling.schedule import day_of_week, time_of_day
from tidegate.core.scaling_settings import DAY_S, Scaling, Schedule
from tidegate.core.values import value

BY_HAND = "hand"
"""What holds a number, where a hand does."""


@value
class HandNumber:
    """What was set, and until when."""

    replicas: int
    since_s: float
    until_s: float
    at_least: bool = False
    """A floor; else the number itself."""
    asked: int | None = None
    """What demand asked for when a replica was ended by hand: more than this ends the number. None: nothing does but
    its time."""

    def is_over(self, asked: int, now_s: float) -> bool:
        """The law's number counts again."""
        return now_s >= self.until_s or (self.asked is not None and asked > self.asked)

    def counts(self, wanted: int) -> bool:
        """It makes another number of what the law wants."""
        return wanted < self.replicas if self.at_least else wanted != self.replicas

    def said(self, schedule: Schedule) -> str:
        """In words."""
        what = f"{self.replicas} or more" if self.at_least else str(self.replicas)
        until = time_of_day(schedule, self.until_s)
        if self.until_s - self.since_s >= DAY_S:
            until = f"{day_of_week(schedule, self.until_s)} {until}"
        why = " since one was ended" if self.asked is not None else ""
        return f"held at {what} by hand{why} until {until}"

    def put_upon(self, proposal: Proposal, schedule: Schedule) -> Proposal:
        """The law's proposal, with this number in its place where it counts."""
        due_s = self.until_s if proposal.due_at_s is None else min(proposal.due_at_s, self.until_s)
        if not self.counts(proposal.wanted):
            return Proposal(
                proposal.wanted,
                proposal.asked,
                proposal.because,
                proposal.held_by,
                due_s,
                proposal.inputs,
                proposal.needed,
            )
        because = f"{proposal.because}; {self.said(schedule)}"
        return Proposal(self.replicas, proposal.asked, because, BY_HAND, due_s, proposal.inputs)


class ByHand:
    """One model's number that somebody set, while there is one."""

    def __init__(self) -> None:
        self.number: HandNumber | None = None

    def __repr__(self) -> str:
        return f"<ByHand {self.number}>"

    def set(self, event: ScaledByHand, now_s: float) -> None:
        """Somebody sets the number, or lets the law have it again."""
        if event.replicas is None or not 0.0 < event.for_s < inf:
            self.number = None
            return
        until_s = now_s + event.for_s
        self.number = HandNumber(max(0, event.replicas), now_s, until_s, event.at_least, event.asked)

    def end_one(self, desired: int, asked: int, for_s: float, now_s: float) -> None:
        """Somebody has ended one of ``desired`` replicas while demand asked for ``asked``: one fewer holds."""
        if self.number is not None and self.number.asked is None:
            return  # A number was set, and it says what is wanted.
        held = desired if self.number is None else self.number.replicas
        self.number = HandNumber(max(0, held - 1), now_s, now_s + for_s, False, asked)

    def kept_at_none(self, scaling: Scaling) -> tuple[str, float] | None:
        """Why none is to serve though it may be asked for, and until when; None: somebody may be started."""
        number = self.number
        if number is None or number.at_least or number.replicas or scaling.min_replicas:
            return None
        return f"it is {number.said(scaling.schedule)}", number.until_s
