"""What a Kubernetes autoscaler does with a number before it obeys: tolerance, stabilization windows, rates.

Source: kubernetes/kubernetes, pkg/controller/podautoscaler/horizontal.go (autoscaling/v2, 2026):
``stabilizeRecommendationWithBehaviors`` takes the least recommendation of the window on the way up and the
largest on the way down; ``calculateScaleUpLimit`` and its counterpart bound the change by what the replicas
at the start of the period allow, the more generous of two policies. Every law here that ends in such an
autoscaler (by itself, through KEDA, through llm-d's guides) has its own numbers for these.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil, floor, inf

from tidegate.core.fleet.scaling.policies.base import Situation

TOLERANCE = 0.1
"""Kubernetes' --horizontal-pod-autoscaler-tolerance."""
SYNC_S = 15.0
"""Its --horizontal-pod-autoscaler-sync-period, and KEDA's usual polling interval in llm-d's guides."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The ``behavior`` block. The defaults are Kubernetes' own."""

    up_window_s: float = 0.0
    up_share: float = 1.0
    """Of the replicas at the start of a period, or ``up_pods`` if that is more."""
    up_pods: float = 4
    up_period_s: float = 15.0
    down_window_s: float = 300.0
    down_share: float = 1.0
    """Of the replicas at the start of a period, or ``down_pods`` if that is more."""
    down_pods: float = 0
    down_period_s: float = 15.0


def external_average(value: float, target: float, replicas: int) -> int:
    """The number for an external metric of type AverageValue: ``ceil(value / target)``, unless the present
    number is within the tolerance of it. KEDA's metrics are of this type."""
    if replicas and abs(value / (target * replicas) - 1.0) <= TOLERANCE:
        return replicas
    return ceil(value / target - 1e-9)


def keda_sleeps(seen: Situation, cooldown_s: float, now_s: float) -> bool:
    """KEDA's own part, between zero and one: none while none is active, and the last one goes when the last activity
    was so long ago (cooldownPeriod)."""
    demand = seen.demand
    if demand.concurrency > 0:
        return False
    active_s = demand.last_active_s
    return seen.standing == 0 or active_s is None or now_s >= active_s + cooldown_s


class Behaviour:
    """The recommendations and changes that one autoscaler remembers."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._recommended: deque[tuple[float, int]] = deque()
        self._changes: deque[tuple[float, int]] = deque()
        """Changes that were made, removals negative."""

    def __repr__(self) -> str:
        return f"<Behaviour recommendations={len(self._recommended)}>"

    def settle(self, asked: int, seen: Situation, now_s: float) -> int:
        """The number that is obeyed.

        1. A change of up to a tenth is none.
        2. The windows hold back what not all of them agree on.
        3. The rates bound what is left.
        """
        standing = seen.standing
        bounded = seen.within(asked)
        if standing and abs(bounded / standing - 1) <= TOLERANCE:  # 1
            bounded = standing
        wanted = self._within_rates(self._stabilized(bounded, standing, now_s), standing, now_s)  # 2, 3
        if wanted < standing and not seen.may_shrink:
            wanted = standing
        if wanted != standing:
            self._changes.append((now_s, wanted - standing))
        return wanted

    def _stabilized(self, asked: int, standing: int, now_s: float) -> int:
        rates = self._rates
        self._recommended.append((now_s, asked))
        while self._recommended[0][0] < now_s - max(rates.up_window_s, rates.down_window_s):
            self._recommended.popleft()
        least = min(number for at_s, number in self._recommended if at_s >= now_s - rates.up_window_s)
        most = max(number for at_s, number in self._recommended if at_s >= now_s - rates.down_window_s)
        return min(max(standing, least), most)

    def _within_rates(self, wanted: int, standing: int, now_s: float) -> int:
        rates = self._rates
        while self._changes and self._changes[0][0] <= now_s - max(rates.up_period_s, rates.down_period_s):
            self._changes.popleft()
        if wanted > standing:
            start = standing - self._changed(rates.up_period_s, now_s)
            most = max(ceil(start * (1 + rates.up_share) - 1e-9), int(start + rates.up_pods))
            return min(wanted, max(standing, most))
        if wanted < standing:
            start = standing - self._changed(rates.down_period_s, now_s)
            by_share = floor(start * (1 - rates.down_share) + 1e-9) if rates.down_share else inf
            by_pods = start - rates.down_pods if rates.down_pods else inf
            return max(wanted, int(min(standing, by_share, by_pods)))
        return standing

    def _changed(self, period_s: float, now_s: float) -> int:
        return sum(number for at_s, number in self._changes if at_s > now_s - period_s)
