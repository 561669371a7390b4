"""How long a step takes, from the model's and the GPU's own numbers.

A step moves weights, experts and cache through memory, multiplies, sends messages, and launches kernels.
``Placement.work`` says how much of each one GPU does in a step: seconds at the data sheet's rates where
there is such a rate, counts where there is none. ``Costs`` says what each unit of that really costs:
a factor (1 is the data sheet, 1.25 is 80 % of it) or seconds apiece. Moving and multiplying overlap in
part: together they take the root of the sum of their squares, between the longer one (Williams, Waterman
and Patterson's roofline, CACM 2009) and both in turn. Messages, launches and the host come on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, log2
from operator import mul
from typing import NamedTuple

from tidegate.engine.architectures import Architecture
from tidegate.engine.hardware import Gpu
from tidegate.engine.latency import Chunk, series_s, series_steps

BYTES = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5625, "int4": 0.53}
"""Of one weight, with the scales of its group."""
GRAPH_LIMIT = 512
"""Steps of more tokens are launched kernel by kernel (vLLM's largest captured step by default, 2026)."""


class Work(NamedTuple):
    """What one GPU does in a step."""

    weights_s: float = 0.0
    """Reading all weights but the experts', at the data sheet's bandwidth."""
    experts_s: float = 0.0
    """Reading the experts that the step's tokens are sent to."""
    kv_s: float = 0.0
    """Reading the cache."""
    dense_s: float = 0.0
    """Multiplying with weights, at the data sheet's throughput."""
    routed_s: float = 0.0
    """The same with experts' weights, in many small groups."""
    attention_s: float = 0.0
    """Multiplying with keys and values, in 16 bits."""
    sending_s: float = 0.0
    """All-reduces, at the link's bandwidth."""
    messages: float = 0.0
    """Rounds of messages that wait for each other."""
    kernels: float = 0.0
    launches: float = 0.0
    """Kernels that no graph has captured."""
    sequences: float = 0.0
    """That the host prepares and samples for."""
    steps: float = 0.0


class Costs(NamedTuple):
    """What each unit of work costs: factors first, then seconds apiece."""

    weights_s: float
    experts_s: float
    kv_s: float
    dense_s: float
    routed_s: float
    attention_s: float
    sending_s: float
    messages: float
    kernels: float
    launches: float
    sequences: float
    steps: float

    def seconds(self, work: Work) -> float:
        """What that work takes."""
        spent = tuple(map(mul, self, work))
        moving_s, multiplying_s = sum(spent[:3]), sum(spent[3:6])
        on_top_s: float = sum(spent[6:])
        return hypot(moving_s, multiplying_s) + on_top_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A model on some GPUs."""

    model: Architecture
    gpu: Gpu
    precision: str = "bf16"
    """Of the feed-forward weights; ``BYTES`` has the names."""
    attention_precision: str = ""
    """Of attention's weights; empty: the same."""
    kv_bytes: float = 2.0
    """Of one cached number."""
    tensor: int = 1
    """GPUs that share each layer's attention."""
    data: int = 1
    """Groups of such GPUs that each attend to their own sequences and share the experts."""

    @property
    def gpus(self) -> int:
        return self.tensor * self.data

    def work(self, sequences: int, kv_tokens: float, chunks: Sequence[Chunk] = ()) -> Work:
        """One step that decodes ``sequences`` with so many tokens cached, and computes ``chunks``."""
        model, gpu, gpus = self.model, self.gpu, self.gpus
        tokens = sequences + sum(new for new, _ in chunks)
        peak, bandwidth = gpu.flops_per_s(self.precision), 1e12 * gpu.memory_tb_per_s
        experts = model.expert_layers * model.experts * model.expert_parameters * model.touched(tokens)
        always = self._always_parameters()
        head = model.vocabulary * model.hidden / gpus
        flops = 2 * (tokens * always + (sequences + len(chunks)) * head)
        routed = 2 * tokens * model.expert_layers * model.experts_per_token * model.expert_parameters
        sent = 2 * model.layers * tokens / self.data * model.hidden * 2 * 2 * (gpus - 1) / gpus
        kernels = float(model.layers * model.kernels)
        return Work(
            weights_s=self._always_bytes() / bandwidth,
            experts_s=experts * BYTES[self.precision] / gpus / bandwidth if model.expert_layers else 0.0,
            kv_s=self._kv_read_bytes(sequences, kv_tokens) / bandwidth,
            dense_s=flops / peak,
            routed_s=routed / gpus / peak,
            attention_s=self._attention_flops(sequences, kv_tokens, chunks) / gpus / gpu.flops_per_s("bf16"),
            sending_s=sent / (1e9 * gpu.link_gb_per_s),
            messages=2 * model.layers * (2 + log2(gpus)) if gpus > 1 else 0.0,
            kernels=kernels,
            launches=kernels if tokens > GRAPH_LIMIT else 0.0,
            sequences=sequences / self.data,
            steps=1.0,
        )

    def kv_token_bytes(self) -> float:
        """Cache that each token of a long sequence takes on each of its GPUs."""
        model = self.model
        return model.full_layers * model.kv_values * self.kv_bytes / min(self.tensor, model.kv_shards)

    def weight_bytes(self) -> float:
        """All weights on one GPU."""
        model = self.model
        experts = model.expert_layers * model.experts * model.expert_parameters / self.gpus
        embedding = 2 * model.vocabulary * model.hidden / self.gpus
        return (
            self._always_bytes()
            + (experts * BYTES[self.precision] if model.expert_layers else 0.0)
            + embedding
        )

    def kv_tokens(self, share: float = 0.9, reserved_bytes: float = 4e9) -> float:
        """Tokens that fit into the cache of all GPUs together; below 1 when not even the weights fit."""
        free = share * 1e9 * self.gpu.memory_gb - self.weight_bytes() - reserved_bytes
        return max(free, 0.0) / self.kv_token_bytes() * self.data

    def _always_parameters(self) -> float:
        """Weights on one GPU that every token of its own passes."""
        model = self.model
        shared = model.dense_parameters + model.expert_layers * model.shared_parameters
        return (model.layers * model.attention_parameters + shared) / self.gpus

    def _always_bytes(self) -> float:
        model = self.model
        attention = model.layers * model.attention_parameters / self.tensor
        shared = model.dense_parameters + model.expert_layers * model.shared_parameters
        head = 2 * model.vocabulary * model.hidden
        in_bytes = attention * BYTES[self.attention_precision or self.precision]
        return in_bytes + (shared * BYTES[self.precision] + head) / self.gpus

    def _kv_read_bytes(self, sequences: int, kv_tokens: float) -> float:
        if not sequences:
            return 0.0
        model = self.model
        values = sequences / self.data * model.seen(kv_tokens / sequences) * model.kv_values
        return values * self.kv_bytes / min(self.tensor, model.kv_shards)

    def _attention_flops(self, sequences: int, kv_tokens: float, chunks: Sequence[Chunk]) -> float:
        model = self.model
        flops = sequences * model.seen(kv_tokens / sequences) * model.decode_pair_flops if sequences else 0.0
        for new, cached in chunks:
            flops += new * model.seen(cached + new / 2) * model.pair_flops
        return flops


class RooflineLaw:
    """A ``StepLaw`` of a placement. Between two lengths of a decode run its time is taken as linear."""

    def __init__(self, placement: Placement, costs: Costs) -> None:
        self.placement = placement
        self.costs = costs

    def mixed_s(self, sequences: int, kv_tokens: int, chunks: Sequence[Chunk]) -> float:
        return self.costs.seconds(self.placement.work(sequences, kv_tokens, chunks))

    def decode_s(self, sequences: int, kv_tokens: int, steps: int) -> float:
        first_s, growth_s = self._series(sequences, kv_tokens)
        return series_s(first_s, growth_s, steps)

    def decode_steps(self, sequences: int, kv_tokens: int, span_s: float) -> int:
        first_s, growth_s = self._series(sequences, kv_tokens)
        return series_steps(first_s, growth_s, span_s)

    def _series(self, sequences: int, kv_tokens: int) -> tuple[float, float]:
        first_s = self.mixed_s(sequences, kv_tokens, ())
        # Over the next 128 tokens: windows fill and selections are complete in between, but slowly.
        later_s = self.mixed_s(sequences, kv_tokens + 128 * sequences, ())
        return first_s, max(later_s - first_s, 0.0) / 128
