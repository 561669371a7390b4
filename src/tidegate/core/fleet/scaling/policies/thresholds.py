"""The threshold law: one step an evaluation, each direction with its own cooldown.

Up when any of queue depth, latency (95th percentile) or GPU utilisation is above its maximum. Down, and
only when nothing asks for up, when queue depth and GPU utilisation are both below their minimum. A
signal that is missing triggers nothing: it cannot be above a maximum, and it is not below a minimum.

Where nobody measures GPUs, the share of slots in use stands in for their utilisation: an engine with
every slot taken is busy, one with hardly any is not, and the gateways' ledgers always know it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.fleet.scaling.policies.base import FLOORS, Proposal, Situation
from tidegate.core.scaling_settings import Scaling


class ThresholdSteps:
    """The law for one model, with the moments of its last steps."""

    def __init__(self, scaling: Scaling, standing: int, now_s: float) -> None:
        del standing  # Each step starts from what the situation says is standing.
        self._limits = scaling.thresholds
        # As if a step each way had been taken now: the first one waits for its cooldown too.
        self._last_up_s = now_s
        self._last_down_s = now_s

    def __repr__(self) -> str:
        return f"<ThresholdSteps last_up_s={self._last_up_s:g} last_down_s={self._last_down_s:g}>"

    def propose(self, seen: Situation, now_s: float) -> Proposal:
        """One step up, one step down, or none.

        1. Something is above its maximum: up, unless the cooldown runs.
        2. All that count are below their minimum: down, unless data, floor or cooldown forbid it.
        3. Neither.
        """
        above = "; ".join(self._above(seen))
        if above:  # 1
            return self._up(seen, above, now_s)
        below = self._below(seen)
        if below and seen.standing > seen.min_replicas:  # 2
            return self._down(seen, below, now_s)
        return self._stay(seen, seen.standing, "nothing is above its maximum or below its minimum", None)  # 3

    def _up(self, seen: Situation, above: str, now_s: float) -> Proposal:
        asked = seen.standing + 1
        if now_s - self._last_up_s <= self._limits.scale_up_cooldown_s:
            return self._stay(seen, asked, above, "scale_up_cooldown")
        if asked <= seen.max_replicas:
            self._last_up_s = now_s
        # Beyond the maximum too: the final clamp is the one that says so.
        return Proposal(asked, asked, above, inputs=self._inputs(seen))

    def _down(self, seen: Situation, below: str, now_s: float) -> Proposal:
        if not seen.standing:
            return self._stay(seen, 0, below, None)
        asked = seen.standing - 1
        if not seen.is_complete:
            return self._stay(seen, asked, f"{below}, but not every gateway is heard", "no data")
        if not seen.may_shrink:
            return self._stay(seen, asked, f"{below}, but not for a full window yet", "window")
        if asked < seen.floor:
            why = FLOORS[seen.floor_by] if seen.floor_by else ""
            return self._stay(seen, asked, f"{below}; not below {seen.floor} while {why}", seen.floor_by)
        if now_s - self._last_down_s <= self._limits.scale_down_cooldown_s:
            return self._stay(seen, asked, below, "scale_down_cooldown")
        self._last_down_s = now_s
        return Proposal(asked, asked, below, inputs=self._inputs(seen))

    def _stay(self, seen: Situation, asked: int, because: str, held_by: str | None) -> Proposal:
        wanted = max(seen.standing, seen.floor)
        if wanted > seen.standing:
            because, held_by = f"{seen.demand.concurrency:g} queued or in flight and no replica wanted", None
            asked = wanted
        return Proposal(wanted, asked, because, held_by, inputs=self._inputs(seen))

    def _above(self, seen: Situation) -> Iterator[str]:
        limits, demand = self._limits, seen.demand
        if demand.queued > limits.max_queue_depth:
            yield f"{demand.queued} queued is above {limits.max_queue_depth}"
        if demand.latency_p95_s is not None and demand.latency_p95_s * 1000 > limits.max_latency_p95_ms:
            yield f"latency p95 of {demand.latency_p95_s * 1000:.0f} ms is above {limits.max_latency_p95_ms:g}"
        what, utilization = _utilization(seen)
        if utilization is not None and utilization > limits.max_gpu_utilization:
            yield f"{what} {utilization:.2f} is above {limits.max_gpu_utilization:g}"

    def _below(self, seen: Situation) -> str | None:
        limits, demand = self._limits, seen.demand
        what, utilization = _utilization(seen)
        if utilization is None or utilization >= limits.min_gpu_utilization:
            return None
        if demand.queued >= limits.min_queue_depth:
            return None
        return (
            f"{demand.queued} queued is below {limits.min_queue_depth} and {what} "
            f"{utilization:.2f} below {limits.min_gpu_utilization:g}"
        )

    def _inputs(self, seen: Situation) -> dict[str, float]:
        """Only what is known: an input that is missing is left out, never 0."""
        demand = seen.demand
        inputs = {"queue_depth": float(demand.queued)}
        if demand.latency_p95_s is not None:
            inputs["latency_p95_ms"] = demand.latency_p95_s * 1000
        what, utilization = _utilization(seen)
        if utilization is not None:
            inputs[what.lower().replace(" ", "_")] = utilization
        return inputs


def _utilization(seen: Situation) -> tuple[str, float | None]:
    """How busy the engines are, and what says so."""
    if seen.demand.gpu_utilization is not None:
        return "GPU utilization", seen.demand.gpu_utilization
    return "slot usage", seen.slot_usage_ratio
