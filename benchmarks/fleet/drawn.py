"""Fleets by chance: models, caps, nodes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from tidegate.core.nodes import Gpu, Node
from tidegate.core.scaling_settings import Scaling, ScalingPolicy, Schedule, ScheduledFloor
from tidegate.core.settings import FleetLimits, FleetModel, Pool, Restarts, Variant
from tidegate.core.types import ModelId

NAMES = tuple(ModelId(name) for name in ("a", "b", "c"))


def models(dice: random.Random) -> dict[ModelId, FleetModel]:
    """Three models of random sizes and prices."""
    return {name: a_model(dice) for name in NAMES}


def a_model(dice: random.Random) -> FleetModel:
    """With a pool, or run in several ways, or both, or neither."""
    spec = FleetModel(
        "vllm",
        slots=4,
        scaling=Scaling(
            dice.choice([ScalingPolicy.CONCURRENCY, ScalingPolicy.TIDAL]),
            min_replicas=dice.randint(0, 1),
            max_replicas=dice.randint(1, 6),
            window_s=dice.choice([1.0, 10.0]),
            scale_down_delay_s=dice.choice([0.0, 5.0, 60.0]),
            concurrency_target=4,
            schedule=dice.choice([Schedule(), Schedule((ScheduledFloor(2, 0.0, 3_600.0),))]),
        ),
        restarts=Restarts(backoff_max_s=4, retry_failed_s=30),
        start_deadline_s=120,
        drain_deadline_s=dice.choice([10.0, 60.0]),
        handover_s=dice.choice([0.0, 10.0]),
        adopts_ends=dice.random() < 0.5,
        **_machine(dice),
    )
    kind = dice.choice(["pool", "both", "both", "variants", "plain"])
    if kind in ("pool", "both"):
        spec = replace(spec, pool=_pool(dice))
    if kind in ("variants", "both"):
        names = dice.sample(["v1", "v2", "v3"], dice.randint(1, 3))
        ways = [Variant(name, slots=dice.choice([1, 2, 8]), **_machine(dice)) for name in names]
        spec = replace(spec, variants=tuple(ways), max_wait_s=dice.choice([10.0, 600.0]))
    return spec


def _machine(dice: random.Random) -> dict[str, Any]:
    return {
        "gpus": dice.choice([1, 1, 2, 4]),
        "kind": dice.choice(["", "", "h100"]),
        "memory_bytes": dice.choice([None, None, 20, 40]),
        "price_per_h": dice.choice([1.0, 2.5, 4.0]),
        "expected_start_s": dice.choice([None, 20.0]),
        "command_hash": dice.choice(["one", "two"]),
    }


def _pool(dice: random.Random) -> Pool:
    most = dice.randint(0, 2)
    return Pool(
        min_warm=dice.randint(0, most),
        max_warm=most,
        max_sleeping=dice.randint(0, 2),
        warm_ttl_s=dice.choice([30.0, 600.0]),
        sleep_after_s=dice.choice([0.0, 30.0]),
        warm_price_per_h=dice.choice([None, 0.5]),
        sleeping_price_per_h=dice.choice([0.0, 0.1]),
        group=dice.choice(["", "g"]),
    )


def limits(dice: random.Random) -> FleetLimits:
    """Each cap in most worlds, none in some."""
    return FleetLimits(
        max_replicas=dice.choice([None, 4, 8]),
        max_gpus=dice.choice([None, 4, 8]),
        max_starts_per_hour=dice.choice([10, 60, 1000]),
        max_cost_per_h=dice.choice([None, 8.0, 15.0]),
        max_cost_per_day=dice.choice([None, 20.0, 60.0]),
    )


def nodes(dice: random.Random) -> tuple[Node, ...]:
    """A few, of two kinds, or none: then GPUs are only counted."""
    if dice.random() < 0.5:
        return ()
    found = []
    for name in ("n1", "n2", "n3")[: dice.randint(1, 3)]:
        kind, memory = dice.choice(["h100", "l40s"]), dice.choice([None, 80])
        found.append(Node(name, tuple(Gpu(index, memory, kind) for index in range(dice.choice([1, 4, 8])))))
    return tuple(found)
