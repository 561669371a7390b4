"""Latency against promise: P90 of first tokens and of times per token, each by what was promised.

    s = max(P90 TTFT / TTFT, oldest wait / TTFT, P90 TPOT / TPOT)
    s > 0.8:  ceil(serving * min(s, 2) / 0.8), those that come up counted, never fewer than there are
    s < 0.4, known, and no wait:  one fewer, when what is in flight fits into the survivors' slots

llm-d's law (``slo-keda``) with its three faults mended: the way up never ends below what there is, a latency that nobody
has measured shrinks nothing, and the wait of the request at the head of the queue counts before it has ended. Traffic
that has stopped is a measurement: with no arrival within the window the last replicas may go one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling


@dataclass(frozen=True, slots=True)
class SloConstants:
    """What may be set."""

    up_ratio: float = 0.8
    """Of the promise: above this it grows."""
    down_ratio: float = 0.4
    """Of the promise: below this one may go."""
    most: float = 2.0
    """A single reading counts for no more than this."""
    fill: float = 0.8
    """Of the survivors' slots, what may be in flight for one to go."""
    window_s: float = 60.0
    every_s: float = 5.0


class SloLaw:
    """The law for one model."""

    def __init__(self, constants: SloConstants, delay_s: float, now_s: float) -> None:
        self._law = constants
        self._delay_s = delay_s
        self._low_since_s: float | None = None
        self._changed_s = now_s

    def __repr__(self) -> str:
        return f"<SloLaw low_since_s={self._low_since_s}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """Up by the ratio, down by one."""
        law, standing = self._law, seen.standing
        if not seen.serving and seen.demand.concurrency > 0:
            wanted = max(standing, ceil(seen.demand.concurrency / seen.slots - 1e-9))
            return Answer(
                wanted, wanted, f"{seen.demand.concurrency:g} wait at no replica that could be measured"
            )
        if not seen.live:
            return Answer(standing, standing, "no replica to measure")
        strain = self._strain(seen)
        is_idle = seen.demand.past.arrivals_per_s(law.window_s, now_s) == 0.0 and not seen.demand.concurrency
        if strain is None and not is_idle:
            return Answer(standing, standing, "no latency is known", "no data")
        strain = 0.0 if strain is None or is_idle else strain
        said = f"latency is {strain:.2f} of the promise"
        if strain > law.up_ratio:
            self._low_since_s = None
            asked = max(seen.live, ceil(seen.serving * min(strain, law.most) / law.up_ratio - 1e-9))
            return Answer(max(asked, standing), max(asked, standing), f"{said}, above {law.up_ratio:g}")
        room = (seen.serving - 1) * seen.slots * law.fill
        is_changing = seen.live != seen.serving and not is_idle
        if strain >= law.down_ratio or seen.demand.concurrency > room or is_changing:
            self._low_since_s = None
            return Answer(standing, standing, said)
        if self._low_since_s is None:
            self._low_since_s = now_s
        if now_s - max(self._low_since_s, self._changed_s) < self._delay_s:
            return Answer(standing, standing - 1, f"{said}, below {law.down_ratio:g}", "scale_down_delay")
        self._changed_s = now_s
        return Answer(standing - 1, standing - 1, f"{said}, below {law.down_ratio:g}")

    def _strain(self, seen: Situation) -> float | None:
        demand, promise = seen.demand, seen.promise
        known = [
            measured / promised
            for measured, promised in (
                (demand.ttft_p90_s, promise.ttft_s),
                (demand.tpot_p90_s, promise.tpot_s),
            )
            if measured is not None
        ]
        if demand.queued:
            known.append(demand.oldest_wait_s / promise.ttft_s)
        return max(known, default=None)


def slo(scaling: Scaling, standing: int, now_s: float) -> tuple[SloLaw, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing
    constants = with_changes(SloConstants(), scaling.law)
    return SloLaw(constants, scaling.scale_down_delay_s, now_s), constants.every_s
