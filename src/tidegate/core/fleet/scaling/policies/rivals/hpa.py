"""Kubernetes' horizontal pod autoscaler with a metric of its pods, every 15 s.

Source: kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator.go, ``calcPlainMetricReplicas``
(autoscaling/v2, 2026). With ``r`` ready of ``n`` replicas and the ready ones' mean metric:

    ratio = mean / target;  within 10 % of 1: n
    ratio < 1, or all are ready:  ceil(ratio * r)
    ratio > 1 and some are not ready: those count as 0, ratio' = ratio * r/n;
        n when ratio' is within 10 % of 1 or on the other side of it, else ceil(ratio' * n)

then the default behaviour: at most double or 4 more in 15 s, down as far as the last 300 s allow.

The metric is left to the user by Kubernetes. Here it is requests, queued ones included, for each slot of the ready
replicas, with a target of 80 %, which is Kubernetes' own default for the metric that it takes when none is
named. It is the kindest choice: it has no ceiling, where the utilization of a GPU ends at 100 %.
It neither reaches nor leaves zero by itself (``HPAScaleToZero`` is a gate and off); the floor does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.behaviour import SYNC_S, TOLERANCE, Behaviour, Rates
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling


@dataclass(frozen=True, slots=True)
class HpaConstants:
    """Kubernetes' defaults."""

    target: float = 0.8
    """Requests for each slot, queued ones included."""
    metric_window_s: float = 15.0
    down_window_s: float = 300.0
    up_window_s: float = 0.0
    every_s: float = SYNC_S


class Hpa:
    """The law for one model, with the memory of its behaviour."""

    def __init__(self, constants: HpaConstants) -> None:
        self._law = constants
        self._behaviour = Behaviour(
            Rates(up_window_s=constants.up_window_s, down_window_s=constants.down_window_s)
        )

    def __repr__(self) -> str:
        return f"<Hpa {self._behaviour!r}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """The replica calculator, then the behaviour."""
        n, ready, target = seen.live, seen.serving, self._law.target
        concurrency = seen.demand.past.mean_concurrency(self._law.metric_window_s, now_s)
        if not ready or not seen.serving_slots or concurrency is None:
            return Answer(seen.standing, seen.standing, "no ready replica to measure", "no data")
        usage = concurrency / seen.serving_slots
        asked = self._calculated(usage / target, ready, n)
        wanted = max(1, self._behaviour.settle(asked, seen, now_s))
        because = f"{usage:.2f} requests a slot at a target of {target:g}, {ready} of {n} are ready"
        held_by = None if wanted == seen.within(asked) else "behaviour"
        return Answer(wanted, asked, because, held_by, {"usage_ratio": usage})

    def _calculated(self, ratio: float, ready: int, n: int) -> int:
        if ratio <= 1.0 or ready == n:
            return n if abs(ratio - 1.0) <= TOLERANCE else ceil(ratio * ready - 1e-9)
        damped = ratio * ready / n
        if damped <= 1.0 + TOLERANCE:
            return n
        return ceil(damped * n - 1e-9)


def hpa(scaling: Scaling, standing: int, now_s: float) -> tuple[Hpa, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing, now_s
    constants = with_changes(HpaConstants(), scaling.law)
    return Hpa(constants), constants.every_s
