"""The schedule alone: as many replicas as it says for this hour, whatever comes.

The schedule's floors hold under every policy (``scaling.schedule``); with this one nothing else asks for replicas,
but whoever waits still gets the first one.
"""

from __future__ import annotations

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.scaling_settings import Scaling


class Cron:
    """Asks for none; the minimum and the schedule lift that."""

    def __repr__(self) -> str:
        return "<Cron>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """None."""
        del now_s
        return Answer(seen.min_replicas, 0, "only the schedule asks for replicas")


def cron(scaling: Scaling, standing: int, now_s: float) -> tuple[Cron, float]:
    """The law, and how often it is evaluated."""
    del scaling, standing, now_s
    return Cron(), 1.0
