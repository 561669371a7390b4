"""One set of settings, and what it comes to on a load in the fluid world."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from tidegate.core.scaling_settings import FLOOR_POLICIES, OWN_POLICIES, Promise, Scaling, ScalingPolicy
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId
from tidegate.sim.fluid import Load, Score, flow, oracle_of_load, scored
from tidegate.sim.fluid.needing import fleet_for, needs_of_load
from tidegate.sim.oracle import Oracle, regret
from tidegate.sim.scenario import Scenario

BY_CONCURRENCY = (ScalingPolicy.CONCURRENCY, ScalingPolicy.KPA)
"""Laws that read ``concurrency_target``."""

BY_PROMISE = tuple(
    policy
    for policy in ScalingPolicy
    if policy.value in ("tidal", "tokens", "slo", "slo-keda", "dynamo-sla", "token-keda")
)
"""Laws that plan for the promise: for them it can be tightened beyond the one that is judged."""

SEARCHED = tuple(policy for policy in OWN_POLICIES if policy not in FLOOR_POLICIES)
"""Ours. A schedule knows hours, and a forecast days, which a part of a trace need not have."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is searched for: the five settings, the law, and how much tighter than the promise it plans."""

    policy: ScalingPolicy
    min_replicas: int
    max_replicas: int
    window_s: float
    scale_down_delay_s: float
    concurrency_target: float | None
    """None: ``auto``."""
    margin: float = 1.0
    """The law is told this share of the promise."""

    @classmethod
    def of(cls, scaling: Scaling) -> Settings:
        """As a policy file has them."""
        return cls(
            scaling.policy,
            scaling.min_replicas,
            scaling.max_replicas,
            scaling.window_s,
            scaling.scale_down_delay_s,
            scaling.concurrency_target,
        )

    def put_into(self, scaling: Scaling) -> Scaling:
        """A policy's scaling with these; what else it says of another law is left out."""
        same = self.policy is scaling.policy
        promise = Promise(scaling.promise.ttft_s * self.margin, scaling.promise.tpot_s * self.margin)
        return replace(
            scaling,
            policy=self.policy,
            min_replicas=self.min_replicas,
            max_replicas=self.max_replicas,
            window_s=self.window_s,
            scale_down_delay_s=self.scale_down_delay_s,
            concurrency_target=self.concurrency_target,
            promise=promise,
            law=scaling.law if same else (),
            also=scaling.also if same else (),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """What settings are tried on: one model's load and the fleet that is to serve it."""

    model: ModelId
    load: Load
    scenario: Scenario

    def judge(self, settings: Settings, seed: int = 1) -> Score:
        """What they come to. The fleet that the first minutes need runs already, within the bounds.

        What is spilt counts as the replica-hours that its money would buy; where a replica has no price it cannot be
        weighed, and nothing is spilt. Where there are variants all is weighed in money.
        """
        setup = self.scenario.models[self.model]
        scaling = settings.put_into(setup.fleet.scaling)
        first = fleet_for(
            self.load.between(0.0, 300.0),
            setup,
            self.scenario.slo,
            settings.min_replicas,
            settings.max_replicas,
        )
        fleet: FleetModel = replace(setup.fleet, scaling=scaling)
        price_per_h = fleet.price_per_h
        dispatch = setup.dispatch if price_per_h else replace(setup.dispatch, spill=None)
        variants = {name: replace(way, running=first[name]) for name, way in setup.variants.items()}
        tried = replace(setup, dispatch=dispatch, fleet=fleet, running=first[""], variants=variants)
        scenario = replace(self.scenario, models={self.model: tried})
        oracle = _cheapest(self)
        score = scored(flow({self.model: self.load}, scenario, seed), oracle)
        if not score.spilt_cost or setup.variants:
            return score
        hours = score.replica_hours + score.spilt_cost / price_per_h
        return replace(score, replica_hours=hours, spent=hours, regret=regret(hours, oracle))

    @property
    def most_needed(self) -> int:
        """Replicas that the busiest minute needs, of the weakest variant."""
        ways = self.scenario.models[self.model].ways.values()
        slo = self.scenario.slo
        return max((need for way in ways for need in needs_of_load(self.load, way, slo)), default=1)


@lru_cache(maxsize=4)
def _cheapest(ground: Ground) -> Oracle:
    """Whatever is tried there, it is the same."""
    return oracle_of_load(ground.load, ground.scenario.models[ground.model], ground.scenario.slo)


def split(load: Load, held_out: float) -> tuple[Load, Load]:
    """The first part to tune on, the last ``held_out`` to report."""
    cut_s = ceil((1.0 - held_out) * len(load)) * load.slot_s
    return load.between(0.0, cut_s), load.between(cut_s, load.span_s + load.slot_s)
