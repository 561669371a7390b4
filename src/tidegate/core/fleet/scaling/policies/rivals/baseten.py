"""Baseten's autoscaler: mean concurrency by replica against a share of a target, with a delay on the way down.

Source: docs.baseten.co/deploy/autoscaling (2026; the service is closed). With the mean concurrency of 60 s:

    ceil(mean / (concurrency target 1 * target utilization 0.70))

Up at once; down to the largest number of the last 900 s, the scale-down delay: "if traffic returns before the delay
ends, replicas remain active". The share of replicas that one step may remove (max scale-down rate) has no published
default, and is 1 here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.fleet.scaling.sliding import Hold
from tidegate.core.scaling_settings import Scaling


@dataclass(frozen=True, slots=True)
class BasetenConstants:
    """The documented defaults."""

    target: float = 1.0
    """Requests of one replica at once."""
    utilization: float = 0.70
    window_s: float = 60.0
    scale_down_delay_s: float = 900.0
    down_share: float = 1.0
    every_s: float = 1.0


class Baseten:
    """The law for one model, with what it has asked for lately."""

    def __init__(self, constants: BasetenConstants, standing: int) -> None:
        self._law = constants
        self._hold = Hold(constants.scale_down_delay_s, standing)

    def __repr__(self) -> str:
        return f"<Baseten {self._hold!r}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """The mean asks, the delay holds."""
        law = self._law
        mean = seen.demand.past.mean_concurrency(law.window_s, now_s)
        if mean is None:
            return Answer(seen.standing, seen.standing, "nothing is known of the demand", "no data")
        carried = law.target * law.utilization
        asked = ceil(mean / carried - 1e-9)
        held = self._hold.ask(seen.within(asked), now_s)
        wanted = max(held, floor(seen.standing * (1 - law.down_share) + 1e-9))
        because = f"{mean:.1f} over {law.window_s:g} s at {carried:g} a replica ask for {asked}"
        return Answer(wanted, asked, because, None if wanted == seen.within(asked) else "scale_down_delay")


def baseten(scaling: Scaling, standing: int, now_s: float) -> tuple[Baseten, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del now_s
    constants = with_changes(BasetenConstants(), scaling.law)
    return Baseten(constants, standing), constants.every_s
