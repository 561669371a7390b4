"""How long a large fleet's decisions take: 200 models, each run in one way or in four, and 1,000 replicas at one tick a
second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.fleet.frame import Asked
from tidegate.core.effects import Launch, PublishRoutes
from tidegate.core.events import DemandReported, FleetConfigured, ReplicaAdopted, ReplicaSeen, Tick
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Gpu, Node, Place
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel, Pool, Variant
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
FIRST = 3
"""Second from which on turns count."""
DECISION_GOAL_S = 0.050
SHARE_GOAL = 0.10
LAWS = (
    (ScalingPolicy.CONCURRENCY, ScalingPolicy.TIDAL)
    if hasattr(ScalingPolicy, "TIDAL")
    else (ScalingPolicy.CONCURRENCY,)
)
SETTINGS = {
    "one way to run": FleetModel("vllm"),
    "pool": FleetModel("vllm", pool=Pool(min_warm=0, max_warm=1, max_sleeping=1)),
    "four variants": FleetModel(
        "vllm",
        variants=(
            Variant("a100", slots=6, gpus=1, price_per_h=1.4),
            Variant("l40s", slots=3, gpus=1, price_per_h=0.8),
            Variant("h100x2", slots=18, gpus=2, price_per_h=4.2),
        ),
    ),
}
"""What differs from one row to the next."""
NODES = tuple(Node(f"n{number:03}", tuple(Gpu(index) for index in range(8))) for number in range(160))
"""For a fleet that grows by a quarter and then finds no place any more."""


class Fleet:
    """A controller and a hand that does as told at once."""

    def __init__(self, policy: ScalingPolicy, special: FleetModel, nodes: tuple[Node, ...]) -> None:
        self.brain = FleetController()
        self.table = RouteTable(0, (), ())
        self.now_s = 0.0
        self.took_s: list[float] = []
        """CPU time of each turn."""
        scaling = Scaling(policy, min_replicas=EACH, max_replicas=2 * EACH, concurrency_target=8)
        self.models = [ModelId(f"m{number:03}") for number in range(MODELS)]
        spec = replace(special, slots=8, scaling=scaling, gpus=1, price_per_h=2.0, expected_start_s=60.0)
        caps = FleetLimits(
            max_replicas=100_000, max_gpus=100_000, max_starts_per_hour=10**6, max_cost_per_h=1e6
        )
        free = [Place(node.name, (gpu.index,)) for node in reversed(nodes) for gpu in node.gpus]
        for model in self.models:
            for number in range(1, EACH + 1):
                replica_id, place = ReplicaId(f"{model}-{number}"), free.pop() if free else None
                self.on(ReplicaAdopted(replica_id, model, Address("h", 1), place=place))
        self.on(FleetConfigured(dict.fromkeys(self.models, spec), caps, nodes))

    def on(self, event: object) -> None:
        """One turn, and one more for each replica that it started."""
        ready: list[ReplicaId] = []
        began_s = time.process_time()
        effects = self.brain.on(event, self.now_s)  # type: ignore[arg-type]
        self.took_s.append(time.process_time() - began_s)
        for effect in effects:
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
    asked.say(f"  {'law':<14}{'with':<24}{'a turn':>10}{'longest':>10}{'turns a s':>11}{'of a core':>11}")
    found = {}
    for law in LAWS:
        rows = [(name, special, ()) for name, special in SETTINGS.items()]
        rows += [(f"{name}, nodes", special, NODES) for name, special in SETTINGS.items()]  # type: ignore[misc]
        for name, special, nodes in rows:
            figures = found[f"{law.value}, {name}"] = measured(law, special, nodes)
            asked.say(
                f"  {law.value:<14}{name:<24}{1e3 * figures['turn_s']:>7.1f} ms{1e3 * figures['longest_s']:>7.1f} ms"
                f"{figures['turns_per_s']:>11.1f}{100 * figures['share']:>9.1f} %"
            )
    asked.say(f"  goals: {1e3 * DECISION_GOAL_S:g} ms a decision, {100 * SHARE_GOAL:g} % of a core")
    return {
        "models": MODELS,
        "replicas": MODELS * EACH,
        "goal_s": DECISION_GOAL_S,
        "goal_share": SHARE_GOAL,
        "laws": found,
    }


def measured(law: ScalingPolicy, special: FleetModel, nodes: tuple[Node, ...]) -> dict[str, float]:
    """CPU seconds of turns in which every model's load moves a little."""
    fleet = Fleet(law, special, nodes)
    for second in range(1, TICKS + 1):
        if second == FIRST:
            fleet.took_s.clear()  # the first turns fill caches
        fleet.now_s = float(second)
        report = fleet.report(lambda n, second=second: 20 + (7 * n + 3 * second) % 20)  # type: ignore[misc]
        for event in (report, Tick()):
            fleet.on(event)
    took = fleet.took_s
    seconds = TICKS + 1 - FIRST
    return {
        "turn_s": sum(took) / len(took),
        "longest_s": max(took),
        "share": sum(took) / seconds,
        "turns_per_s": len(took) / seconds,
    }
