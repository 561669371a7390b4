"""Simulated worlds of the scenarios about waking, draining and the long tail of models."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace

from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import DispatchConfig, FleetLimits, FleetModel, Pool, QueueLimits, Variant
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import ColdStart
from tidegate.engine.latency import LinearLaw
from tidegate.engine.sequence import Limits
from tidegate.sim.scenario import Machines, ModelSetup, Scenario, Slo
from tidegate.workload.traces import Trace

LAW = LinearLaw(a=6.37, b=0.0110, c=0.0415, d=5.47, e=15.6, f=0.78)
"""Llama 3.1 8B on an H100."""
CLOCKWORK = LinearLaw(a=20, b=0, c=0, d=20, e=0, f=0)
"""Each step takes 20 ms, so a stream of a second has 50 tokens."""


def setup(
    scaling: Scaling,
    pool: Pool,
    cold: ColdStart,
    *,
    slots: int = 16,
    law: LinearLaw = LAW,
    drain_deadline_s: float = 120.0,
) -> ModelSetup:
    """One model on one GPU."""
    return ModelSetup(
        dispatch=DispatchConfig(queue=QueueLimits(), slow_start_s=0.0),
        fleet=FleetModel(
            "emulated",
            slots=slots,
            scaling=scaling,
            gpus=1,
            price_per_h=3.0,
            drain_deadline_s=drain_deadline_s,
            expected_start_s=cold.total_s(),
            pool=pool,
        ),
        limits=Limits(max_sequences=slots, max_step_tokens=8192, kv_blocks=65_536),
        law=law,
        cold_start=cold,
    )


def with_variant(whole: ModelSetup, variant: Variant, law: LinearLaw) -> ModelSetup:
    """The same model, which may also be run in another way, and is as fast as this then."""
    own = replace(whole.fleet, variants=(*whole.fleet.variants, variant))
    other = replace(
        whole,
        fleet=whole.fleet.as_variant(variant),
        limits=replace(whole.limits, max_sequences=variant.slots),
        law=law,
        variants={},
    )
    return replace(whole, fleet=own, variants={**whole.variants, variant.name: other})


def scenario(
    models: dict[ModelId, ModelSetup], *, gpus: int | None = None, settle_s: float = 0.0
) -> Scenario:
    """On as many machines as are asked for, or on nodes of eight GPUs."""
    machines = Machines() if gpus is None else Machines(nodes=gpus // 8, gpus_per_node=8)
    limits = FleetLimits(max_gpus=gpus, max_starts_per_hour=1_000_000)
    return Scenario(models=models, fleet=limits, slo=Slo(), machines=machines, settle_s=settle_s)


def trace_of(rows: Iterable[tuple[float, int, int]], names: list[ModelId] | None = None) -> Trace:
    """Rows of (moment, prompt tokens, output tokens), in order."""
    listed = list(rows)
    trace = Trace()
    trace.arrived_s = array("d", [row[0] for row in listed])
    trace.prompt_tokens = array("i", [row[1] for row in listed])
    trace.output_tokens = array("i", [row[2] for row in listed])
    if names is not None:
        trace.models = names
    return trace
