"""The concurrency law: as many replicas as the largest recent concurrency needs.

    replicas = ceil(max over the window of (queued + in flight) / concurrency target)

Up at once. Down only when nothing higher has been asked for within the scale-down delay. Hosted platforms
that scale by concurrent requests have the same law with other names; Knative's takes the mean over its
stable window where this one takes the largest, and has the same scale-down delay. Queued requests count: a metric
that ends at what the replicas can carry never asks for more of them.

A target that is left to the law is the fullest that a replica may be with the promise kept, as ``tidal`` learns it; the
engine's batch size until then.
"""

from __future__ import annotations

from math import ceil

from tidegate.core.fleet.scaling.carrying import Carrying
from tidegate.core.fleet.scaling.estimates import Memory
from tidegate.core.fleet.scaling.policies.base import FLOORS, Proposal, Situation
from tidegate.core.fleet.scaling.sliding import Hold
from tidegate.core.scaling_settings import Scaling


def replicas_for(concurrency: float, target: float) -> int:
    """The smallest number of replicas that carries this concurrency at ``target`` each."""
    # 2.1 / 0.7 is 3.0000000000000004 in floats; it must not ask for a fourth.
    return ceil(concurrency / target - 1e-9)


class Concurrency:
    """The law for one model, with what it has asked for lately."""

    def __init__(self, scaling: Scaling, standing: int, now_s: float) -> None:
        del now_s  # The delay begins when something lower is asked for, not now.
        self._scaling = scaling
        self._carrying, self._memory = Carrying(scaling), Memory()
        self._hold = Hold(scaling.scale_down_delay_s, standing)

    def __repr__(self) -> str:
        return f"<Concurrency target={self._scaling.concurrency_target or 'auto'} {self._hold!r}>"

    @property
    def reads_engines(self) -> bool:
        """How full their memory is says how full they may be."""
        return self._scaling.concurrency_target is None

    def propose(self, seen: Situation, now_s: float) -> Proposal:
        """The law's number.

        1. The window's peak gives the suggestion.
        2. The hold keeps every higher suggestion for the scale-down delay.
        3. The floor and the ban on shrinking come last: while a gateway is not heard, and until a full
           window has been, the number may only rise.
        """
        target = self._scaling.concurrency_target or self._fullest(seen, now_s)
        asked = replicas_for(seen.demand.concurrency, target)
        suggested = seen.within(replicas_for(seen.demand.peak, target))  # 1
        held = self._hold.ask(suggested, now_s)  # 2
        wanted = max(held, seen.floor)  # 3
        if not seen.may_shrink:
            wanted = max(wanted, seen.standing)
        held_by = self._holder(seen, asked, suggested, held, wanted)
        return Proposal(
            # As asked, beyond minimum and maximum too: the final clamp is the one that says so.
            wanted=wanted if held_by else asked,
            asked=asked,
            because=self._because(seen, target, asked, held_by, wanted),
            held_by=held_by,
            due_at_s=self._due_s(seen) if held_by else None,
            inputs={"concurrency_target": target, "peak": seen.demand.peak},
            needed=seen.demand.concurrency / target,
        )

    def _fullest(self, seen: Situation, now_s: float) -> float:
        """To a tenth: it is learned, and moves a little all the time."""
        self._memory.look(seen, now_s)
        return round(self._carrying.look(seen, self._memory.room, now_s).batch, 1)

    def _holder(self, seen: Situation, asked: int, suggested: int, held: int, wanted: int) -> str | None:
        if wanted <= seen.within(asked):
            return None
        if wanted > max(held, seen.floor):
            return "window" if seen.is_complete else "no data"
        if wanted > held:
            return seen.floor_by
        return "scale_down_delay" if wanted > suggested else "window"

    def _due_s(self, seen: Situation) -> float | None:
        moments = (self._hold.due_s, seen.demand.peak_leaves_at_s)
        return min((moment for moment in moments if moment is not None), default=None)

    def _because(self, seen: Situation, target: float, asked: int, held_by: str | None, wanted: int) -> str:
        asks = f"{seen.demand.concurrency:g} queued or in flight at {target:g} a replica ask for {asked}"
        if not seen.is_complete and seen.demand.concurrency == 0:
            asks = "nothing is known of the demand"
        match held_by:
            case None:
                return asks
            case "no data":
                return f"{asks}; {wanted} kept, since not every gateway is heard"
            case "window":
                return f"{asks}; the last {self._scaling.window_s:g} s needed {wanted}"
            case "scale_down_delay":
                return f"{asks}; {wanted} was needed within the last {self._scaling.scale_down_delay_s:g} s"
            case rule:
                return f"{asks}; not below {wanted} while {FLOORS[rule]}"
