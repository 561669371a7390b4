"""The scaling policies by name. A new one is a file with one class, a line here, and a test."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.fleet.scaling.policies.base import (
    Coming,
    Demand,
    EngineSeen,
    Policy,
    Proposal,
    Situation,
)
from tidegate.core.fleet.scaling.policies.concurrency import Concurrency
from tidegate.core.fleet.scaling.policies.slo_keda import SloKedaLaw
from tidegate.core.fleet.scaling.policies.thresholds import ThresholdSteps
from tidegate.core.settings import Scaling, ScalingPolicy

POLICIES: dict[ScalingPolicy, Callable[[Scaling, int, float], Policy]] = {
    ScalingPolicy.CONCURRENCY: Concurrency,
    ScalingPolicy.THRESHOLDS: ThresholdSteps,
    ScalingPolicy.SLO_KEDA: SloKedaLaw,
}
"""How each is made: from its settings, the number that stands, and the moment."""

__all__ = ["POLICIES", "Coming", "Demand", "EngineSeen", "Policy", "Proposal", "Situation"]
