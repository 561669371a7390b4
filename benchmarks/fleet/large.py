"""How long a large fleet's decisions take: 200 models, each run in one way or in four, and 1,000 replicas at one tick a
second."""

from __future__ import annotations

import gc
from dataclasses import replace
from statistics import fmean
from typing import Any

from benchmarks.fleet.frame import Asked
from benchmarks.fleet.thousand import Fleet
from tidegate.core.nodes import Gpu, Node
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel, Pool, Variant
from tidegate.core.windows import percentile

MODELS = 200
EACH = 5
WAITING = 50
"""Of a full fleet, models that wish for more than they may have."""
BEFORE_S = 300.0
"""What has passed before turns count: laws have seen enough of how demand grows, and caches are full."""
SECONDS = 30
DECISION_GOAL_S = 0.050
SHARE_GOAL = 0.10
LAWS = (ScalingPolicy.CONCURRENCY, ScalingPolicy.TIDAL)
ONE_WAY = FleetModel("vllm")
FOUR_WAYS = FleetModel(
    "vllm",
    variants=(
        Variant("a100", slots=6, gpus=1, price_per_h=1.4),
        Variant("l40s", slots=3, gpus=1, price_per_h=0.8),
        Variant("h100x2", slots=18, gpus=2, price_per_h=4.2),
    ),
)
SETTINGS = {
    "one way to run": (ONE_WAY, False),
    "pool": (FleetModel("vllm", pool=Pool(min_warm=0, max_warm=1, max_sleeping=1)), False),
    "four variants": (FOUR_WAYS, False),
    "full, 50 wait": (ONE_WAY, True),
    "four variants, full": (FOUR_WAYS, True),
}
"""What differs from one row to the next; whether the fleet is full, with models that wait for more."""
FULL_NODES = MODELS * EACH // 8
ROOMY_NODES = 160


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    asked.say(f"  {MODELS} models, {MODELS * EACH} replicas; their pages, a report and a tick each second")
    head = ("a turn", "p99", "longest", "turns a s", "of a core", "replicas")
    asked.say(f"  {'law':<13}{'with':<27}" + "".join(f"{word:>11}" for word in head))
    found = {}
    for law in LAWS:
        for has_nodes in (False, True):
            for setting in SETTINGS:
                name = f"{setting}, nodes" if has_nodes else setting
                figures = found[f"{law.value}, {name}"] = measured(law, setting, has_nodes=has_nodes)
                times = [f"{1e3 * figures[key]:>8.1f} ms" for key in ("turn_s", "p99_s", "longest_s")]
                asked.say(
                    f"  {law.value:<13}{name:<27}{''.join(times)}{figures['turns_per_s']:>11.1f}"
                    f"{100 * figures['share']:>9.1f} %{figures['replicas']:>11.0f}"
                )
    asked.say(f"  goals: {1e3 * DECISION_GOAL_S:g} ms a decision, {100 * SHARE_GOAL:g} % of a core")
    return {
        "models": MODELS,
        "replicas": MODELS * EACH,
        "goal_s": DECISION_GOAL_S,
        "goal_share": SHARE_GOAL,
        "laws": found,
    }


def fleet_of(law: ScalingPolicy, setting: str, *, has_nodes: bool) -> Fleet:
    """The fleet of one row, before its first second."""
    special, is_full = SETTINGS[setting]
    scaling = Scaling(law, min_replicas=EACH, max_replicas=2 * EACH, concurrency_target=8)
    spec = replace(special, slots=8, scaling=scaling, gpus=1, price_per_h=2.0, expected_start_s=60.0)
    count = FULL_NODES if is_full else ROOMY_NODES
    nodes = tuple(Node(f"n{number:03}", tuple(Gpu(index) for index in range(8))) for number in range(count))
    caps = FleetLimits(
        max_replicas=MODELS * EACH if is_full else 100_000,
        max_gpus=100_000,
        max_starts_per_hour=10**6,
        max_cost_per_h=1e6,
    )
    return Fleet(MODELS, EACH, spec, caps, nodes if has_nodes else ())


def measured(law: ScalingPolicy, setting: str, *, has_nodes: bool) -> dict[str, float]:
    """CPU seconds of turns in which every model's load moves a little."""
    fleet = fleet_of(law, setting, has_nodes=has_nodes)
    is_full = SETTINGS[setting][1]

    def load(number: int, at_s: float) -> int:
        wanted = 20 + (7 * number + 3 * int(at_s)) % 20
        return 3 * wanted if is_full and number < WAITING else wanted

    gc.collect()
    gc.freeze()  # as ``tidegate serve`` does once it is configured
    fleet.live_through(BEFORE_S, load)
    for _ in range(SECONDS):
        fleet.step(1.0, load)
    gc.unfreeze()
    took = sorted(fleet.turns_s)
    return {
        "turn_s": fmean(took),
        "p99_s": percentile(took, 0.99) or 0.0,
        "longest_s": took[-1],
        "share": (sum(took) + fleet.pages_s) / SECONDS,
        "pages_share": fleet.pages_s / SECONDS,
        "turns_per_s": len(took) / SECONDS,
        "replicas": float(fleet.replicas),
    }
