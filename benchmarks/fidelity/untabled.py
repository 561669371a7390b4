"""A real vLLM run without kernel tables, from the data sheet and the model's own numbers alone.

No cost is fitted to anything: ``ASSUMED`` is what engineers expect of well-written kernels (80 % of the
memory's bandwidth, 55 % of the tensor units' throughput for large and a third for routed products, 3 us a
kernel), ``BRISK`` and ``SLOW`` are the good and the bad side of each. The three together give a range.
The link's latency and bandwidth are the run's own hardware description.

The run spreads experts over two GPUs that each serve their own sequences. Every layer exchanges tokens, so
both go in lock step: one engine with both batches, whose step lasts as long as the longer half. Each
layer gathers activations, weights and names of the chosen experts, and scatters results: four messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.fidelity import vllm_runs
from benchmarks.fidelity.figures import Comparison
from benchmarks.fidelity.vllm_runs import Run
from tidegate.engine.batch import Engine
from tidegate.engine.latency import Chunk
from tidegate.engine.roofline import Costs, RooflineLaw
from tidegate.engine.sequence import Limits

ASSUMED = Costs(
    weights_s=1.25,
    experts_s=1.5,
    kv_s=1.4,
    dense_s=1.8,
    routed_s=3.0,
    attention_s=2.5,
    sending_s=1.0,
    messages=0.0,
    kernels=3e-6,
    launches=10e-6,
    sequences=7e-6,
    steps=0.4e-3,
)
MESSAGES = 4
"""Of each layer, each with the link's latency."""
COSTS = {
    "brisk": [0.88, 0.8, 0.8, 0.8, 0.6, 0.7, 1.0, 1.0, 0.7, 0.5, 0.6, 0.5],
    "assumed": [1.0] * len(ASSUMED),
    "slow": [1.2, 1.35, 1.3, 1.3, 1.6, 1.5, 1.0, 1.0, 1.4, 2.0, 1.6, 2.0],
}
"""What ``ASSUMED`` is multiplied with."""


class LockStep(RooflineLaw):
    """Both halves wait for the prompt that only one of them has."""

    def mixed_s(self, sequences: int, kv_tokens: int, chunks: Sequence[Chunk]) -> float:
        halves = self.placement.data
        return super().mixed_s(sequences, kv_tokens, [*chunks] * halves if len(chunks) < halves else chunks)


def judge() -> dict[str, list[Comparison]]:
    """For each side of the range the errors of every run without tables."""
    runs = [run for run in vllm_runs.read() if not run.has_tables]
    return {side: [found for run in runs for found in _predicted(run, side)] for side in COSTS}


def costs(run: Run, side: str) -> Costs:
    """The assumed costs on one side of the range, with that run's link."""
    made = Costs(*(cost * times for cost, times in zip(ASSUMED, COSTS[side], strict=True)))
    model, spec = run.placement().model, run.placement()
    rounds = spec.work(1, 1).messages
    latency_s = MESSAGES * model.layers * run.hardware["link_latency"] * 1e-9
    bandwidth = spec.gpu.link_gb_per_s / run.hardware["link_bw"]
    return made._replace(messages=latency_s / rounds if rounds else 0.0, sending_s=bandwidth)


def _predicted(run: Run, side: str) -> list[Comparison]:
    placement = run.placement()
    engine = Engine(_together(run.limits(), placement.data), LockStep(placement, costs(run, side)))
    return vllm_runs.errors(run, vllm_runs.replay(run.requests, engine), bounds=False)


def _together(limits: Limits, halves: int) -> Limits:
    return replace(
        limits,
        max_sequences=halves * limits.max_sequences,
        max_step_tokens=halves * limits.max_step_tokens,
        kv_blocks=halves * limits.kv_blocks,
    )
