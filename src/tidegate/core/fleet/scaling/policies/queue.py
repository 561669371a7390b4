"""Queue drain time: as many replicas as empty the queue within a stated time, beside what keeps coming.

    replicas = (arrivals/s + queued / drain) * service time / slots

where the service time is what a request has been in flight for of late (Little's law: mean in flight by requests answered
each second). The backlog is a rate too: 2,500 waiting and 60 s to clear them are 42 requests a second.
Before a request has ended, nothing is known of the service time, and each full set of slots of what waits asks for a
replica. Down as the concurrency law goes, only when nothing higher was asked for within the scale-down delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.fleet.scaling.sliding import Hold
from tidegate.core.scaling_settings import Scaling

SERVICE_S = 300.0
"""The service time is over this span."""


@dataclass(frozen=True, slots=True)
class QueueConstants:
    """What may be set."""

    drain_s: float = 30.0
    """How soon what waits now is to be gone."""
    window_s: float = 30.0
    """Arrivals are over this span."""


class Queue:
    """The law for one model, with what it has asked for lately."""

    def __init__(self, constants: QueueConstants, delay_s: float, standing: int) -> None:
        self._law = constants
        self._hold = Hold(delay_s, standing)

    def __repr__(self) -> str:
        return f"<Queue {self._hold!r}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """Replicas for what comes and for what waits."""
        law, demand, past = self._law, seen.demand, seen.demand.past
        arrivals = past.arrivals_per_s(law.window_s, now_s)
        in_flight, ended = past.mean_in_flight(SERVICE_S, now_s), past.ended_per_s(SERVICE_S, now_s)
        # Who was turned away, or left the queue, was never in flight.
        answered = (ended or 0.0) - (past.refused_per_s(SERVICE_S, now_s) or 0.0)
        if not in_flight or answered <= 0.0:
            needed = demand.concurrency / seen.slots
            because = f"{demand.concurrency:g} requests at {seen.slots} slots, and none has ended yet"
        else:
            service_s = in_flight / answered
            needed = ((arrivals or 0.0) + demand.queued / law.drain_s) * service_s / seen.slots
            because = (
                f"{arrivals or 0.0:.2f} requests/s and {demand.queued} to be gone in {law.drain_s:g} s, "
                f"{service_s:.1f} s each at {seen.slots} slots"
            )
        # Never fewer than carry what is in flight now: those requests are not done yet.
        asked = ceil(max(needed, demand.in_flight / seen.slots) - 1e-9)
        if demand.concurrency > 0:
            asked = max(1, asked)
        held = self._hold.ask(seen.within(asked), now_s)
        return Answer(held, asked, because, None if held == seen.within(asked) else "scale_down_delay")


def queue(scaling: Scaling, standing: int, now_s: float) -> tuple[Queue, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del now_s
    return Queue(with_changes(QueueConstants(), scaling.law), scaling.scale_down_delay_s, standing), 1.0
