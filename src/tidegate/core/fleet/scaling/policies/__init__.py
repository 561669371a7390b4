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
from tidegate.core.fleet.scaling.policies.cron import cron
from tidegate.core.fleet.scaling.policies.expected import ForecastConstants, forecast
from tidegate.core.fleet.scaling.policies.largest import Largest
from tidegate.core.fleet.scaling.policies.paced import paced
from tidegate.core.fleet.scaling.policies.queue import QueueConstants, queue
from tidegate.core.fleet.scaling.policies.rivals import RIVALS
from tidegate.core.fleet.scaling.policies.slo import SloConstants, slo
from tidegate.core.fleet.scaling.policies.thresholds import ThresholdSteps
from tidegate.core.fleet.scaling.policies.tidal import Tidal
from tidegate.core.fleet.scaling.policies.tokens import TokensConstants, tokens
from tidegate.core.fleet.scaling.reading import TidalConstants
from tidegate.core.scaling_settings import Scaling, ScalingPolicy

POLICIES: dict[ScalingPolicy, Callable[[Scaling, int, float], Policy]] = {
    ScalingPolicy.TIDAL: Tidal,
    ScalingPolicy.CONCURRENCY: Concurrency,
    ScalingPolicy.THRESHOLDS: ThresholdSteps,
    ScalingPolicy.TOKENS: paced(tokens),
    ScalingPolicy.QUEUE: paced(queue),
    ScalingPolicy.SLO: paced(slo),
    ScalingPolicy.CRON: paced(cron),
    ScalingPolicy.FORECAST: paced(forecast, is_floor=True),
    **{name: paced(make) for name, (make, _) in RIVALS.items()},
}
"""How each is made: from its settings, the number that stands, and the moment."""

CONSTANTS: dict[ScalingPolicy, type] = {
    ScalingPolicy.TIDAL: TidalConstants,
    ScalingPolicy.TOKENS: TokensConstants,
    ScalingPolicy.QUEUE: QueueConstants,
    ScalingPolicy.SLO: SloConstants,
    ScalingPolicy.FORECAST: ForecastConstants,
    **{name: constants for name, (_, constants) in RIVALS.items()},
}
"""What a policy file may change of each law: a dataclass of numbers. Those that are not here have settings of
their own, or none."""


def policy_for(scaling: Scaling, standing: int, now_s: float) -> Policy:
    """The policy that these settings name, or the largest of several."""
    first = POLICIES[scaling.policy](scaling, standing, now_s)
    if not scaling.also:
        return first
    others = [
        (law.policy.value, POLICIES[law.policy](scaling.under([law]), standing, now_s))
        for law in scaling.also
    ]
    return Largest([(scaling.policy.value, first), *others])


__all__ = [
    "CONSTANTS",
    "POLICIES",
    "Coming",
    "Demand",
    "EngineSeen",
    "Policy",
    "Proposal",
    "Situation",
    "policy_for",
]
