"""A hundred models, most of them hardly asked for: one warm replica each, beside sleepers that share the GPUs.

Each model has been started once when the run begins, as on any day but the first.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from benchmarks.fleet.frame import Asked
from benchmarks.fleet.worlds import scenario, setup, trace_of
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import Pool
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import ColdStart
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate

MODELS = 100
PER_S = 1.0
COLD = ColdStart(
    weights_gb=16, weights_gb_per_s=2, compile_s=30, engine_start_s=20, wake_s=4.0, sleep_s=2.0, sigma=0.3
)
WAYS = {
    "to zero, cold": Pool(),
    "to zero, asleep": Pool(max_sleeping=1, sleep_after_s=0.0),
    "asleep after 30 s warm": Pool(max_warm=1, max_sleeping=1, sleep_after_s=30.0),
}


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    hours = 6.0 if asked.size == "full" else 0.25
    answers = asked.in_order(played, [(name, hours) for name in WAYS], "tail")
    asked.say(
        f"  {MODELS} models, {PER_S:g} requests a second by Zipf's law, {hours:g} h, wake-up 4 s, cold start 58 s"
    )
    asked.say(
        f"  {'way':<24}{'GPU-hours':>10}{'saved':>8}{'TTFT p50':>10}{'p95':>8}{'p99':>8}{'starts':>8}{'lost':>6}"
    )
    found = {}
    for name, figures in zip(WAYS, answers, strict=True):
        found[name] = figures
        asked.say(
            f"  {name:<24}{figures['gpu_hours']:>10.1f}{100 * figures['saved']:>6.1f} %{figures['p50_s']:>8.2f} s"
            f"{figures['p95_s']:>6.1f} s{figures['p99_s']:>6.1f} s{figures['starts']:>8}{figures['lost']:>6}"
        )
    asked.say(f"  one warm replica each: {MODELS * answers[0]['hours']:.1f} GPU-hours")
    return {"models": MODELS, "requests_per_s": PER_S, "hours": hours, "ways": found}


def played(task: tuple[str, float]) -> dict[str, Any]:
    """One way through the same hours."""
    name, hours = task
    dice = random.Random(1)
    names = [ModelId(f"m{number:03}") for number in range(1, MODELS + 1)]
    weights = [1 / rank for rank in range(1, MODELS + 1)]
    at_s, rows, asked_for = 0.0, [], []
    while True:
        at_s += dice.expovariate(PER_S)
        if at_s >= 3600 * hours:
            break
        rows.append((at_s, dice.randint(100, 1500), dice.randint(20, 400)))
        asked_for += dice.choices(names, weights)
    scaling = Scaling(
        ScalingPolicy.CONCURRENCY, 0, 2, window_s=5.0, scale_down_delay_s=15.0, concurrency_target=16
    )
    models = {model: replace(setup(scaling, WAYS[name], COLD), running=1) for model in names}
    done = simulate(trace_of(rows, asked_for), scenario(models))
    figures = summarize(done)
    ran_h = done.simulated_s / 3600
    return {
        "gpu_hours": figures.gpu_hours,
        "hours": ran_h,
        "saved": 1 - figures.gpu_hours / (MODELS * ran_h),
        "p50_s": figures.ttft_s.p50,
        "p95_s": figures.ttft_s.p95,
        "p99_s": figures.ttft_s.p99 or float("inf"),
        "starts": figures.cold_starts,
        "lost": figures.requests - figures.completed,
        "cost": figures.cost,
        "requests": figures.requests,
    }
