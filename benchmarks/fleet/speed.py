"""How fast policies can be judged, and how fast the controller decides for large fleets."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.fleet.engines import MODEL, fleet
from benchmarks.fleet.frame import Asked
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.sim.fluid import Load, flow, load_of_rates, scored
from tidegate.sim.kernel import SeededDice
from tidegate.workload.curves import daily

EVALUATIONS = 1_000
SMALL = 100
HOUR_S = 3_600.0
SLOT_S = 5.0
GOAL_S = 600.0


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    count = EVALUATIONS if asked.size != "small" else SMALL
    tasks = list(range(count))
    began_s, began_cpu_s = time.monotonic(), 0.0
    for _, cpu_s in asked.each(evaluation, tasks, "speed"):
        began_cpu_s += cpu_s
    took_s = time.monotonic() - began_s
    all_s = took_s / count * EVALUATIONS
    asked.say(
        f"{count} evaluations of one hour in slots of {SLOT_S:g} s: {took_s:.1f} s on {asked.jobs} processes, "
        f"{1e3 * began_cpu_s / count:.0f} ms of CPU each"
    )
    asked.say(f"{EVALUATIONS} of them: {all_s:.0f} s; goal {GOAL_S:.0f} s: {GOAL_S / all_s:.1f} times")
    return {
        "evaluations": count,
        "took_s": took_s,
        "cpu_s": began_cpu_s,
        "thousand_s": all_s,
        "goal_s": GOAL_S,
    }


def hour() -> Load:
    """The busiest hour of a day with a mean of 40 requests a second."""
    curve = daily(40.0, peak_ratio=1.8, peak_at_h=0.5)
    return load_of_rates(curve.rate_after, lambda _: (1000.0, 200.0), HOUR_S, SLOT_S, SeededDice(1))


def evaluation(number: int) -> float:
    """One policy on the hour; CPU seconds."""
    policies = tuple(ScalingPolicy)
    scaling = Scaling(
        policies[number % len(policies)],
        min_replicas=2,
        max_replicas=24,
        window_s=10.0 + number % 60,
        scale_down_delay_s=60.0 + number % 300,
        concurrency_target=16.0 + number % 32,
    )
    began_s = time.process_time()
    scored(flow({MODEL: hour()}, fleet(scaling)))
    return time.process_time() - began_s
