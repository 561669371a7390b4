"""Is the fluid world fit to judge by? The same loads and laws in it and in the simulator that moves each request.

Printed: both figures of each, and how many pairs of laws the two worlds rank alike. A pair counts as alike when the
order is the same or when both worlds see no more than a tenth (of the hours) or one point (of the promise) between them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from benchmarks.fleet.engines import MODEL, fleet
from benchmarks.fleet.frame import Asked
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.sim.fluid import flow, load_of_trace, scored
from tidegate.sim.kernel import SeededDice
from tidegate.sim.scenario import Scenario, Slo
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate
from tidegate.workload.curves import RateCurve, flash_crowd, steps
from tidegate.workload.generate import generated
from tidegate.workload.lengths import Independent, LogNormal

SLOT_S = 2.0
NEAR_HOURS = 0.10
NEAR_SHARE = 0.01

LONG = Independent(LogNormal(1000, 0.8), LogNormal(200, 1.0))
SHORT = Independent(LogNormal(100, 0.8), LogNormal(12, 1.0))
"""Prompts decide here: while a line is let in they take most of the engines' time."""

CURVES: dict[str, RateCurve] = {
    "swing": RateCurve(
        tuple((300.0 * at, rate) for at, rate in enumerate((4, 6, 10, 16, 20, 14, 8, 4, 10, 18, 6)))
    ),
    "flash": flash_crowd(5.0, 25.0, for_s=2_400, at_s=600, rise_s=10, hold_s=240, half_life_s=120),
    "short": steps([(200, 80), (400, 200), (200, 100)]),
    "steps": steps([(400, 4), (500, 12), (500, 24), (400, 12), (400, 3)]),
}

LAWS: dict[str, Scaling] = {
    "static 4": Scaling(min_replicas=4, max_replicas=4),
    "concurrency 12": Scaling(
        ScalingPolicy.CONCURRENCY, 1, 12, concurrency_target=12, window_s=30, scale_down_delay_s=300
    ),
    "concurrency 32": Scaling(
        ScalingPolicy.CONCURRENCY, 1, 12, concurrency_target=32, window_s=30, scale_down_delay_s=300
    ),
    "concurrency 56": Scaling(
        ScalingPolicy.CONCURRENCY, 1, 12, concurrency_target=56, window_s=30, scale_down_delay_s=60
    ),
    "thresholds": Scaling(ScalingPolicy.THRESHOLDS, min_replicas=1, max_replicas=12),
    "slo-keda": Scaling(ScalingPolicy.SLO_KEDA, min_replicas=2, max_replicas=12),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """One case in both worlds."""

    curve: str
    law: str
    fluid_kept: float
    fluid_hours: float
    exact_kept: float
    exact_hours: float


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    curves = list(CURVES) if asked.size != "small" else ["swing", "flash", "short"]
    tasks = [(curve, law) for curve in curves for law in LAWS]
    asked.say(
        f"{'load':<8}{'law':<16}{'kept: fluid':>12}{'exact':>8}{'hours: fluid':>14}{'exact':>8}{'off':>7}"
    )
    pairs = asked.in_order(both_worlds, tasks, "check")
    for pair in pairs:
        off = pair.fluid_hours / pair.exact_hours - 1
        asked.say(
            f"{pair.curve:<8}{pair.law:<16}{pair.fluid_kept:>12.1%}{pair.exact_kept:>8.1%}"
            f"{pair.fluid_hours:>14.2f}{pair.exact_hours:>8.2f}{off:>+7.0%}"
        )
    ranks = {curve: ranked_alike([pair for pair in pairs if pair.curve == curve]) for curve in curves}
    for curve, (hours, kept, of) in ranks.items():
        asked.say(f"{curve}: of {of} pairs of laws, {hours} ranked alike by hours and {kept} by the promise")
    return {"pairs": [asdict(pair) for pair in pairs], "ranked_alike": ranks}


def both_worlds(task: tuple[str, str]) -> Pair:
    """One case."""
    curve, law = task
    lengths = SHORT if curve == "short" else LONG
    trace = generated(CURVES[curve], lengths, SeededDice(5))
    scenario = _scenario(law)
    fluid = scored(flow({MODEL: load_of_trace(trace, SLOT_S)}, scenario))
    exact = summarize(simulate(trace, scenario))
    return Pair(curve, law, fluid.attainment, fluid.replica_hours, exact.attainment, exact.replica_hours)


def _scenario(law: str) -> Scenario:
    return fleet(LAWS[law], slo=Slo(ttft_s=2.0, tpot_s=0.05))


def ranked_alike(pairs: list[Pair]) -> tuple[int, int, int]:
    """Pairs of laws that both worlds put in the same order, by hours and by the promise; and how many there are."""
    hours = kept = of = 0
    for one, other in combinations(pairs, 2):
        of += 1
        near_h = abs(one.exact_hours / other.exact_hours - 1) <= NEAR_HOURS
        hours += near_h or (one.exact_hours > other.exact_hours) is (one.fluid_hours > other.fluid_hours)
        near_k = abs(one.exact_kept - other.exact_kept) <= NEAR_SHARE
        kept += near_k or (one.exact_kept > other.exact_kept) is (one.fluid_kept > other.fluid_kept)
    return hours, kept, of
