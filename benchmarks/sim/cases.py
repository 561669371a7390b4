"""What is measured: each case makes its trace once and can be run again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.sim import traces
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import DispatchConfig, FleetLimits, FleetModel
from tidegate.core.types import ModelId
from tidegate.engine.batch import Engine
from tidegate.engine.catalogue import profile
from tidegate.engine.coldstart import ColdStart
from tidegate.engine.sequence import Limits, Sequence
from tidegate.sim.scenario import ModelSetup, Scenario, Slo
from tidegate.sim.summary import Summary, summarize
from tidegate.sim.world import simulate
from tidegate.workload.traces import Trace

ENGINE_REQUESTS = 100_000


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one case."""

    requests: int
    cpu_s: float
    simulated_s: float
    figures: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Case:
    """One workload with its goal."""

    name: str
    what: str
    goal_per_s: float | None
    """Requests for each second of CPU time."""
    goal_s: float | None
    """Or CPU seconds for the whole."""
    repetitions: int
    prepare: Callable[[], Trace]
    run: Callable[[Trace], Measured]


def _engine_alone(trace: Trace) -> Measured:
    """One engine and a loop around it: what is left when everything else costs nothing."""
    known = profile("codellama-34b-a100x2")
    limits = Limits(max_sequences=128, max_step_tokens=512, kv_blocks=27_904)
    engine = Engine(limits, known.law)
    began_s = time.process_time()
    ended = 0
    for row, at_s in enumerate(trace.arrived_s):
        engine.add(Sequence(row, trace.prompt_tokens[row], trace.output_tokens[row]), at_s)
        ended += len(engine.advance(at_s).ended)
    while (wake_s := engine.wake_s) is not None:
        ended += len(engine.advance(wake_s).ended)
    cpu_s = time.process_time() - began_s
    assert ended == len(trace)
    return Measured(len(trace), cpu_s, engine.now_s, {"preemptions": float(engine.preemptions)})


def _brains(scenario: Scenario, trace: Trace) -> Measured:
    """Dispatcher and controller in the loop, and every figure of the report."""
    began_s = time.process_time()
    run = simulate(trace, scenario)
    summary = summarize(run)
    cpu_s = time.process_time() - began_s
    return Measured(len(trace), cpu_s, run.simulated_s, _figures(summary))


def _figures(summary: Summary) -> dict[str, float | None]:
    return {
        "completed": float(summary.completed),
        "ttft_p50_s": summary.ttft_s.p50,
        "ttft_p99_s": summary.ttft_s.p99,
        "attainment": summary.attainment,
        "mean_provisioned": summary.mean_provisioned,
        "cold_starts": float(summary.cold_starts),
        "prefix_hit_ratio": summary.prefix_hit_ratio,
    }


def _scenario(name: str, slots: int, scaling: Scaling, trace: Trace | None = None) -> Scenario:
    known = profile(name)
    limits = replace(known.limits, max_sequences=slots)
    if trace is not None:
        blocks = limits.kv_blocks * limits.block_tokens // trace.block_tokens
        limits = replace(limits, kv_blocks=blocks, block_tokens=trace.block_tokens)
    setup = ModelSetup(
        dispatch=DispatchConfig(),
        fleet=FleetModel(
            "emulated", slots=slots, scaling=scaling, gpus=known.gpus, price_per_h=2.5 * known.gpus
        ),
        limits=limits,
        law=known.law,
        cold_start=ColdStart(engine_start_s=100.0),
    )
    return Scenario(models={ModelId("model"): setup}, fleet=FleetLimits(max_starts_per_hour=1_000), slo=Slo())


def _azure(trace: Trace) -> Measured:
    scaling = Scaling(
        ScalingPolicy.CONCURRENCY,
        min_replicas=1,
        max_replicas=4,
        window_s=30,
        scale_down_delay_s=300,
        concurrency_target=16,
    )
    return _brains(_scenario("llama-3.1-70b-a100x8", 64, scaling), trace)


def _mooncake(trace: Trace) -> Measured:
    scaling = Scaling(
        ScalingPolicy.CONCURRENCY,
        min_replicas=8,
        max_replicas=8,
        window_s=30,
        scale_down_delay_s=300,
        concurrency_target=32,
    )
    return _brains(_scenario("llama-3.1-70b-h100x8", 64, scaling, trace), trace)


def _fortnight(trace: Trace) -> Measured:
    scaling = Scaling(
        ScalingPolicy.CONCURRENCY,
        min_replicas=1,
        max_replicas=8,
        window_s=60,
        scale_down_delay_s=600,
        concurrency_target=16,
    )
    return _brains(_scenario("llama-3.1-70b-h100x4", 64, scaling), trace)


CASES = (
    Case(
        "engine",
        "one engine alone, Vidur's 512 requests repeated to 100,000",
        100_000,
        None,
        5,
        lambda: traces.repeated(traces.vidur_512(), ENGINE_REQUESTS),
        _engine_alone,
    ),
    Case(
        "azure-conv",
        "Azure conversations, up to 4 replicas: dispatcher, queue, KV limit, autoscaler, cold start",
        20_000,
        None,
        5,
        lambda: traces.public("azure-llm-2023/*conv*"),
        _azure,
    ),
    Case(
        "mooncake",
        "Mooncake conversations, 8 replicas with prefix caches",
        15_000,
        None,
        5,
        lambda: traces.public("mooncake-fast25/conversation*"),
        _mooncake,
    ),
    Case(
        "fortnight",
        "ServeGen m-large at a hundredth, 14 days, up to 8 replicas",
        None,
        180,
        1,
        lambda: traces.servegen_fortnight(0.01),
        _fortnight,
    ),
)
