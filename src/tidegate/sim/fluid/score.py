"""The figures of a fluid run."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.sim.fluid.world import FluidRun
from tidegate.sim.oracle import Oracle, regret
from tidegate.sim.provision import ORDER, PROVISIONED, Phase
from tidegate.sim.summary import HOUR_S, scale_steps


@dataclass(frozen=True, slots=True)
class Score:
    """What a policy is judged by."""

    requests: float
    attainment: float
    """Share of the requests that kept both parts of the promise; who was turned away did not."""
    ttft_attainment: float
    tpot_attainment: float
    replica_hours: float
    gpu_hours: float
    cost: float
    """Of replicas, and of what was spilt."""
    spilt: float
    spilt_cost: float
    mean_provisioned: float
    mean_serving: float
    max_provisioned: int
    scale_ups: int
    scale_downs: int
    reversals: int
    reversals_per_h: float
    cold_starts: int
    simulated_s: float
    spent: float
    """What is to be little: replica-hours, or money where replicas are of several kinds."""
    regret: float | None = None
    """How much more than the cheapest known afterwards, as a share; None when that was not asked for."""


def scored(run: FluidRun, oracle: Oracle | None = None) -> Score:
    """The figures of a run, all models together."""
    flowed = list(run.flowed.values())
    over = sum(each.over for each in flowed)
    seconds = run.provision.seconds
    ups, downs, reversals = scale_steps(run.decisions)
    span_s = run.simulated_s or 1.0
    hours = sum(seconds[phase] for phase in PROVISIONED) / HOUR_S
    cost = run.provision.money + sum(each.spilt_cost for each in flowed)

    def share(kept: float) -> float:
        return kept / over if over > 0 else 1.0

    return Score(
        requests=sum(each.requests for each in flowed),
        attainment=share(sum(each.kept for each in flowed)),
        ttft_attainment=share(sum(each.ttft_kept for each in flowed)),
        tpot_attainment=share(sum(each.tpot_kept for each in flowed)),
        replica_hours=hours,
        gpu_hours=run.provision.gpu_seconds / HOUR_S,
        cost=cost,
        spilt=sum(each.spilt for each in flowed),
        spilt_cost=sum(each.spilt_cost for each in flowed),
        mean_provisioned=sum(seconds[phase] for phase in ORDER) / span_s,
        mean_serving=seconds[Phase.SERVING] / span_s,
        max_provisioned=run.provision.most,
        scale_ups=ups,
        scale_downs=downs,
        reversals=reversals,
        reversals_per_h=reversals / (span_s / HOUR_S),
        cold_starts=run.launches,
        simulated_s=run.simulated_s,
        spent=cost if any(setup.variants for setup in run.scenario.models.values()) else hours,
        regret=None if oracle is None else regret(hours, oracle, cost),
    )
