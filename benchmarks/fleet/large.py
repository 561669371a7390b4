"""How long a large fleet's decisions take: 200 models, and 1,000 replicas at one tick a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.fleet.frame import Asked
from tidegate.core.effects import Launch, PublishRoutes
from tidegate.core.events import DemandReported, FleetConfigured, ReplicaAdopted, ReplicaSeen, Tick
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen
from tidegate.core.settings import FleetLimits, FleetModel, Pool, Scaling, ScalingPolicy
from tidegate.core.types import (
    Address,
    DemandReport,
    ModelDemand,
    ModelId,
    ReplicaId,
    ReplicaLoad,
    RouteTable,
)

MODELS = 200
EACH = 5
TICKS = 30
DECISION_GOAL_S = 0.050
SHARE_GOAL = 0.10
LAWS = (
    (ScalingPolicy.CONCURRENCY, ScalingPolicy.TIDAL)
    if hasattr(ScalingPolicy, "TIDAL")
    else (ScalingPolicy.CONCURRENCY,)
)
POOLS = {"no pool": Pool(), "warm and asleep": Pool(min_warm=0, max_warm=1, max_sleeping=1)}


class Fleet:
    """A controller and a hand that does as told at once."""

    def __init__(self, policy: ScalingPolicy, pool: Pool) -> None:
        self.brain = FleetController()
        self.table = RouteTable(0, (), ())
        self.now_s = 0.0
        scaling = Scaling(policy, min_replicas=EACH, max_replicas=2 * EACH, concurrency_target=8)
        self.models = [ModelId(f"m{number:03}") for number in range(MODELS)]
        spec = FleetModel(
            "vllm", slots=8, scaling=scaling, gpus=1, price_per_h=2.0, expected_start_s=60.0, pool=pool
        )
        caps = FleetLimits(
            max_replicas=100_000, max_gpus=100_000, max_starts_per_hour=10**6, max_cost_per_h=1e6
        )
        for model in self.models:
            for number in range(1, EACH + 1):
                self.on(ReplicaAdopted(ReplicaId(f"{model}-{number}"), model, Address("h", 1)))
        self.on(FleetConfigured(dict.fromkeys(self.models, spec), caps))

    def on(self, event: object) -> None:
        """One turn."""
        ready: list[ReplicaId] = []
        for effect in self.brain.on(event, self.now_s):  # type: ignore[arg-type]
            if isinstance(effect, Launch):
                ready.append(effect.replica_id)
            elif isinstance(effect, PublishRoutes):
                self.table = effect.table
        for replica_id in ready:
            self.on(ReplicaSeen(replica_id, Seen.READY, Address("h", 1)))

    def report(self, load: Callable[[int], int]) -> DemandReported:
        """One gateway's figures of everything."""
        demands = tuple(
            ModelDemand(model, 0, load(n), load(n), 0, 1000, 0, 0, 0, 0.0, self.now_s)
            for n, model in enumerate(self.models)
        )
        loads = tuple(ReplicaLoad(route.replica_id, 4, 400) for route in self.table.routes)
        return DemandReported(DemandReport("gateway", self.table.version, demands, loads))


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    asked.say(f"  {MODELS} models, {MODELS * EACH} replicas; a report and a tick each second")
    asked.say(f"  {'law':<14}{'pool':<18}{'a turn':>10}{'longest':>10}{'of a core':>11}")
    found = {}
    for law in LAWS:
        for name, pool in POOLS.items():
            figures = found[f"{law.value}, {name}"] = measured(law, pool)
            asked.say(
                f"  {law.value:<14}{name:<18}{1e3 * figures['turn_s']:>7.1f} ms{1e3 * figures['longest_s']:>7.1f} ms"
                f"{100 * figures['share']:>9.1f} %"
            )
    asked.say(f"  goals: {1e3 * DECISION_GOAL_S:g} ms a decision, {100 * SHARE_GOAL:g} % of a core")
    return {
        "models": MODELS,
        "replicas": MODELS * EACH,
        "goal_s": DECISION_GOAL_S,
        "goal_share": SHARE_GOAL,
        "laws": found,
    }


def measured(law: ScalingPolicy, pool: Pool) -> dict[str, float]:
    """CPU seconds of turns in which every model's load moves a little."""
    fleet = Fleet(law, pool)
    took: list[float] = []
    for second in range(1, TICKS + 1):
        fleet.now_s = float(second)
        report = fleet.report(lambda n, second=second: 20 + (7 * n + 3 * second) % 20)  # type: ignore[misc]
        for event in (report, Tick()):
            began_s = time.process_time()
            fleet.on(event)
            took.append(time.process_time() - began_s)
    took = took[4:]  # the first turns fill caches
    return {"turn_s": sum(took) / len(took), "longest_s": max(took), "share": 2 * sum(took) / len(took)}
