"""Against real vLLM runs, with kernel tables taken apart from them: nothing is fitted to a run.

The same constants hold for all runs:

- ``KERNEL_GAP_S``: a microsecond between the end of a kernel and the start of the next in a CUDA graph, the
  usual figure for dependent nodes; the tables hold kernels alone.
- ``HOST_S``: nothing. These runs schedule asynchronously, so that the host works while the GPU does.
- The link's bandwidth and latency are those of each run's own hardware description.

Requests come at their recorded moments. vLLM notes a request as queued when the step in flight has ended
and counts its time from then, and so do we. Whose cache blocks were taken away finds what is left of them
when it comes back, as prefix caching is on; the requests' tokens are not published, so that nothing is
shared between requests here, where the real runs found 1.9 % of all prompt tokens.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fidelity import traces
from benchmarks.fidelity.figures import Comparison, compare
from tidegate.engine.architectures import ARCHITECTURES
from tidegate.engine.batch import Engine
from tidegate.engine.hardware import GPUS
from tidegate.engine.kernels import GRAPH_TOKENS, KernelLaw, Shape
from tidegate.engine.latency import StepLaw
from tidegate.engine.roofline import Placement
from tidegate.engine.sequence import Limits, Sequence

KERNEL_GAP_S = 1e-6
HOST_S = 0.0
TTFT_BOUND, TPOT_BOUND, E2E_BOUND, PREEMPTION_BOUND = 0.09, 0.06, 0.06, 0.05
PREEMPTIONS = {"rtx4090_llama-3.1-8b": 190}
"""As the README of the runs states it ("about"); LLMServingSim counts 194."""


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded run and its settings."""

    place: Path
    name: str
    meta: dict[str, Any]
    hardware: dict[str, Any]
    requests: list[dict[str, Any]]
    """In order of arrival."""

    @property
    def model(self) -> str:
        """Our name of it."""
        return self.name.split("_", 1)[1].removesuffix("-instruct-2507")

    @property
    def gpus(self) -> int:
        """That share each layer."""
        return int(self.meta["engine_kwargs"]["tensor_parallel_size"])

    @property
    def has_tables(self) -> bool:
        return self._table("attention").exists()

    def placement(self) -> Placement:
        settings = self.meta["engine_kwargs"]
        return Placement(
            model=ARCHITECTURES[self.model],
            gpu=GPUS[self.name.split("_")[0]],
            tensor=self.gpus,
            data=int(settings["data_parallel_size"]),
        )

    def limits(self) -> Limits:
        """As the engine was started; cache blocks that were not noted follow from the memory."""
        settings = self.meta["engine_kwargs"]
        noted = self.meta.get("kv_cache", {}).get("num_gpu_blocks")
        memory = self.hardware["nodes"][0]["instances"][0]["npu_mem"]
        return Limits(
            max_sequences=settings["max_num_seqs"],
            max_step_tokens=settings["max_num_batched_tokens"],
            kv_blocks=noted or int(self.placement().kv_tokens(memory["mem_util"]) / 16),
            async_scheduling=True,
        )

    def law(self) -> StepLaw:
        """From the tables."""
        model = ARCHITECTURES[self.model]
        shape = Shape(
            layers=model.layers,
            hidden=model.hidden,
            gpus=self.gpus,
            link_bytes_per_s=1e9 * self.hardware["link_bw"],
            link_latency_s=1e-9 * self.hardware["link_latency"],
            kernel_gap_s=KERNEL_GAP_S,
            host_s=HOST_S,
            graph_tokens=tuple(
                tokens for tokens in GRAPH_TOKENS if tokens <= 2 * self.limits().max_sequences
            ),
        )
        attention = {
            tuple(int(row[axis]) for axis in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")): _us(
                row
            )
            for row in traces.rows(self._table("attention"))
        }
        return KernelLaw(
            shape, self._curves("dense", "tokens"), attention, self._curves("per_sequence", "sequences")
        )

    def _curves(self, table: str, axis: str) -> dict[str, dict[int, float]]:
        curves: dict[str, dict[int, float]] = defaultdict(dict)
        for row in traces.rows(self._table(table)):
            curves[row["layer"]][int(row[axis])] = _us(row)
        return curves

    def _table(self, which: str) -> Path:
        return self.place / f"{self.name}_tp{self.gpus}__profile_{which}.csv"


def read() -> list[Run]:
    """All runs that are at hand."""
    place = traces.folder("llmservingsim-bench")
    return [
        _read(place, path.name.removesuffix("__meta.json")) for path in sorted(place.glob("*__meta.json"))
    ]


def judge() -> list[Comparison]:
    """Every run that has tables."""
    found = []
    for run in read():
        if run.has_tables:
            engine = Engine(run.limits(), run.law())
            sequences = replay(run.requests, engine)
            found += errors(run, sequences)
            if (counted := PREEMPTIONS.get(run.name)) is not None:
                found.append(
                    Comparison(run.name, "preemptions", counted, engine.preemptions, PREEMPTION_BOUND)
                )
    return found


def replay(requests: list[dict[str, Any]], engine: Engine) -> list[Sequence]:
    """Send them at their moments; ``queued_s`` is the end of the step that was in flight then."""
    begin_s, sequences = requests[0]["arrival_time"], []
    for number, request in enumerate(requests):
        prompt, output = request["input_toks"], request["output_toks"]
        blocks = (prompt + output) // engine.limits.block_tokens
        # Names that no other request has, so that only its own blocks are found again.
        names = tuple(range(number << 32, (number << 32) + blocks))
        sequence = Sequence(number, prompt, output, names)
        now_s = request["arrival_time"] - begin_s
        engine.add(sequence, now_s)
        sequence.queued_s = max(now_s, engine.now_s)
        sequences.append(sequence)
    engine.advance(float("inf"))
    return sequences


def errors(run: Run, sequences: list[Sequence], bounds: bool = True) -> list[Comparison]:
    """Of TTFT, TPOT and E2E; only the means are promised."""
    requests = run.requests
    first = [one["first_token_ts"] - one["queued_ts"] for one in requests]
    whole = [one["last_token_ts"] - one["queued_ts"] for one in requests]
    each = [(w - f) / (one["output_toks"] - 1) for w, f, one in zip(whole, first, requests, strict=True)]
    our_first = [one.first_token_s - one.queued_s for one in sequences]
    our_whole = [one.finished_s - one.queued_s for one in sequences]
    our_each = [
        (w - f) / (one.output_tokens - 1) for w, f, one in zip(our_whole, our_first, sequences, strict=True)
    ]

    def bound(share: float) -> dict[str, float]:
        return {"mean": share} if bounds else {}

    return [
        *compare(run.name, "TTFT", first, our_first, bound(TTFT_BOUND)),
        *compare(run.name, "TPOT", each, our_each, bound(TPOT_BOUND)),
        *compare(run.name, "E2E", whole, our_whole, bound(E2E_BOUND)),
    ]


def _read(place: Path, name: str) -> Run:
    meta, hardware = (json.loads((place / f"{name}__{part}.json").read_text()) for part in ("meta", "config"))
    requests = traces.json_lines(place / f"{name}__requests.jsonl")
    return Run(place, name, meta, hardware, sorted(requests, key=lambda one: one["arrival_time"]))


def _us(row: dict[str, str]) -> float:
    return float(row["time_us"]) / 1e6
