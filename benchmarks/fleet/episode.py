"""llm-d's public episode under our default law, its own law, and a fixed fleet, in one run.

The load and the score are the publication's (``benchmarks.episode.published``); each request is moved. Nothing is known of
the model before the first request. ``hot`` is a tier whose replicas are awake in 4 s.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Any

from benchmarks.episode.published import (
    LEAST,
    MOST,
    PROMISE,
    READY_S,
    Assumptions,
    Scored,
    fixed,
    fleet,
    load,
)
from benchmarks.episode.published import under_the_law as under_slo_keda
from benchmarks.fleet.frame import Asked
from tidegate.core.scaling_settings import Promise, Scaling, ScalingPolicy
from tidegate.engine.coldstart import ColdStart
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate

HOT_S = 4.0
AIMS = {"tidal": (0.98, 5.9), "tidal, hot": (0.995, 4.8)}
"""Score at least, and replicas on the mean at most."""
PUBLISHED = "published: slo-keda 95.8 % at 5.93, a fixed fleet of 8 100 %"


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    seeds = (1,) if asked.size == "small" else (1, 2, 3)
    tasks = [(name, seed) for name in ("fixed 8", "slo-keda", "tidal", "tidal, hot") for seed in seeds]
    asked.say(PUBLISHED)
    asked.say(f"{'law':<14}{'score':>9}{'replicas':>10}{'aim':>22}")
    found = dict(zip(tasks, asked.in_order(play, tasks, "episode"), strict=True))
    rows = []
    for name in dict.fromkeys(name for name, _ in tasks):
        score = fmean(found[name, seed][0] for seed in seeds)
        replicas = fmean(found[name, seed][1] for seed in seeds)
        aim = AIMS.get(name)
        said = "" if aim is None else f">= {aim[0]:.1%} at <= {aim[1]:g}"
        asked.say(f"{name:<14}{score:>9.2%}{replicas:>10.2f}{said:>22}")
        rows.append({"law": name, "score": score, "replicas": replicas, "aim": aim})
    return {"seeds": seeds, "rows": rows}


def play(task: tuple[str, int]) -> tuple[float, float]:
    """Score and mean replicas."""
    name, seed = task
    match name:
        case "fixed 8":
            scored = fixed(8, seed)
        case "slo-keda":
            scored = under_slo_keda(Assumptions(), seed)
        case _:
            scored = under_tidal(seed, HOT_S if name.endswith("hot") else READY_S)
    return scored.score, scored.mean_replicas


def under_tidal(seed: int = 1, ready_s: float = READY_S) -> Scored:
    """Our law, from the same floor; it reads the same pages as late as the other."""
    promise = Promise(PROMISE.ttft_s, PROMISE.tpot_s)
    scenario = fleet(Scaling(ScalingPolicy.TIDAL, LEAST, MOST, promise=promise))
    models = {
        model: replace(setup, cold_start=ColdStart(engine_start_s=ready_s))
        for model, setup in scenario.models.items()
    }
    run = simulate(load(seed), replace(scenario, models=models), seed)
    summary = summarize(run)
    score = 1 - (1 - summary.ttft_attainment) - (1 - summary.tpot_attainment)
    return Scored(score, summary.mean_provisioned, summary, run)
