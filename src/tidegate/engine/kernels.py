"""Step times from tables of measured kernels, for engines that were profiled and not fitted.

A step's time is the sum over the model's layers of its dense kernels (by tokens in the step) and its
attention kernel (by prompt chunk, tokens cached before it, decoding sequences, and tokens cached of
each), plus embedding, final norm, head and sampler, plus two all-reduces a layer when the model is
spread over several GPUs, plus a gap after each kernel and the engine's own work on the host. Between
measured points the tables are interpolated linearly in each direction; beyond the last one they go on as
they ended. Where CUDA graphs are captured, the dense kernels of a step run for the next larger graph.

The layout of the tables is that of LLMServingSim's profiler (Cho et al., 2024-2026), which takes them
from inside vLLM. Attention over chunks and decoding sequences together is slower than the two apart,
so it must be measured together.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.engine.latency import Chunk, series_s, series_steps

BLOCK_LAYERS = ("layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj")
"""The dense kernels that a layer has at least; some models have more, as norms of queries and keys."""
TWICE_LAYERS = ("layernorm",)
"""In each layer: before attention and before the feed-forward part."""
ONCE_LAYERS = ("embedding", "final_layernorm")
"""In the whole model."""
ATTENTION_KERNELS = 2
"""Attention itself, and writing the new keys and values into the cache."""
GRAPH_TOKENS = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""Tokens of the steps that vLLM captures by default as CUDA graphs (``cudagraph_capture_sizes``, 2026)."""

AttentionKey = tuple[int, int, int, int]
"""Chunk tokens, tokens cached before them, decoding sequences, tokens cached of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What of a model and its machine the tables do not say."""

    layers: int
    hidden: int
    gpus: int = 1
    link_bytes_per_s: float = 1.0
    link_latency_s: float = 0.0
    kernel_gap_s: float = 0.0
    """From the end of one kernel to the start of the next, which the tables leave out."""
    host_s: float = 0.0
    """The engine's own work in each step, as far as the GPU waits for it."""
    graph_tokens: tuple[int, ...] = ()
    """Tokens of the steps captured as CUDA graphs, ascending; none: every step runs as it is."""

    def link_s(self, tokens: int) -> float:
        """Two ring all-reduces a layer of 16-bit activations.

        Each of n GPUs sends 2 (n - 1) messages of 1/n of them (Thakur et al., "Optimization of Collective
        Communication Operations in MPICH", 2005).
        """
        if self.gpus == 1:
            return 0.0
        messages = 2 * (self.gpus - 1)
        message_bytes = tokens * self.hidden * 2 / self.gpus
        return 2 * self.layers * messages * (message_bytes / self.link_bytes_per_s + self.link_latency_s)

    def graph(self, tokens: int) -> int:
        """The tokens for which the dense kernels of such a step run."""
        at = bisect_left(self.graph_tokens, tokens)
        return self.graph_tokens[at] if at < len(self.graph_tokens) else tokens


class KernelLaw:
    """A ``StepLaw`` from tables; all times in them are seconds.

    Args:
        shape: The model and its machine.
        dense: By kernel, then by tokens in the step.
        attention: Of one layer.
        by_sequences: Head and sampler, by sequences in the step.
    """

    def __init__(
        self,
        shape: Shape,
        dense: Mapping[str, Mapping[int, float]],
        attention: Mapping[AttentionKey, float],
        by_sequences: Mapping[str, Mapping[int, float]],
    ) -> None:
        self._shape = shape
        in_layers = [name for name in (*dense, *TWICE_LAYERS) if name not in ONCE_LAYERS]
        self._in_layers = [Curve(dense[name]) for name in in_layers]
        self._once = [Curve(dense[name]) for name in ONCE_LAYERS]
        self._by_sequences = [Curve(points) for points in by_sequences.values()]
        self._attention = _tree(attention)
        kernels = (len(self._in_layers) + ATTENTION_KERNELS) * shape.layers + len(ONCE_LAYERS)
        self._fixed_s = shape.host_s + (kernels + len(by_sequences)) * shape.kernel_gap_s
        self._dense_s: dict[tuple[int, int], float] = {}  # as far as they were asked for
        self._decode: dict[int, Curve] = {}

    def mixed_s(self, sequences: int, kv_tokens: int, chunks: Sequence[Chunk]) -> float:
        if not chunks:
            return self.decode_s(sequences, kv_tokens, 1)
        tokens = sequences + sum(new for new, _ in chunks)
        (new, cached), *others = sorted(chunks, reverse=True)
        each = kv_tokens / sequences + 1 if sequences else 0
        attention_s = _look_up(self._attention, (new, cached, sequences, each))
        attention_s += sum(_look_up(self._attention, (*chunk, 0, 0)) for chunk in others)
        return self._without_attention_s(tokens, sequences + len(chunks)) + self._shape.layers * attention_s

    def decode_s(self, sequences: int, kv_tokens: int, steps: int) -> float:
        total_s = 0.0
        for first_s, growth_s, alike in self._pieces(sequences, kv_tokens):
            taken = min(steps, alike)
            total_s += series_s(first_s, growth_s, taken)
            steps -= taken
            if not steps:
                break
        return total_s

    def decode_steps(self, sequences: int, kv_tokens: int, span_s: float) -> int:
        before = 0
        for first_s, growth_s, alike in self._pieces(sequences, kv_tokens):
            piece_s = series_s(first_s, growth_s, alike) if alike < _ENDLESS else math.inf
            if span_s <= piece_s:
                return before + series_steps(first_s, growth_s, span_s)
            span_s -= piece_s
            before += alike
        raise AssertionError("the last piece is endless")

    def _pieces(self, sequences: int, kv_tokens: int) -> Iterator[tuple[float, float, int]]:
        """Runs of decode steps along one straight line: first step, growth a step, how many."""
        curve = self._decode_curve(sequences)
        fixed_s = self._without_attention_s(sequences, sequences)
        each = kv_tokens / sequences + 1
        while True:
            end = curve.piece_end(each)
            alike = _ENDLESS if end == math.inf else math.ceil(end - each)
            first_s = curve.at(each)
            growth_s = curve.at(each + 1) - first_s if alike > 1 else 0.0
            yield fixed_s + self._shape.layers * first_s, self._shape.layers * growth_s, alike
            each += alike

    def _decode_curve(self, sequences: int) -> Curve:
        curve = self._decode.get(sequences)
        if curve is None:
            lengths = _lengths(self._attention)
            points = {each: _look_up(self._attention, (0, 0, sequences, each)) for each in lengths}
            curve = self._decode[sequences] = Curve(points)
        return curve

    def _without_attention_s(self, tokens: int, sequences: int) -> float:
        known = self._dense_s.get((tokens, sequences))
        if known is None:
            rows = self._shape.graph(tokens)
            known = self._fixed_s + self._shape.link_s(rows)
            known += self._shape.layers * sum(curve.at(rows) for curve in self._in_layers)
            known += sum(curve.at(rows) for curve in self._once)
            known += sum(curve.at(sequences) for curve in self._by_sequences)
            self._dense_s[tokens, sequences] = known
        return known


class Curve:
    """Measured points of one quantity, joined by straight lines; level before the first."""

    __slots__ = ("_xs", "_ys")

    def __init__(self, points: Mapping[int, float]) -> None:
        self._xs = sorted(points)
        self._ys = [points[x] for x in self._xs]

    def at(self, x: float) -> float:
        """The quantity there."""
        xs, ys = self._xs, self._ys
        if len(xs) == 1 or x <= xs[0]:
            return ys[0]
        right = min(bisect_right(xs, x), len(xs) - 1)
        slope = (ys[right] - ys[right - 1]) / (xs[right] - xs[right - 1])
        return ys[right] + slope * (x - xs[right])

    def piece_end(self, x: float) -> float:
        """Where the line that leads on from ``x`` ends."""
        right = bisect_right(self._xs, x)
        return self._xs[right] if right < len(self._xs) - 1 else math.inf


_ENDLESS = 2**62

_Tree = tuple[list[int], list[Any]]
"""Sorted keys of one direction; for each the tree of the directions after it, or at last the value. Ragged:
what was measured at one key need not have been at another."""


def _tree(points: Mapping[Any, float]) -> Any:
    if () in points:
        return points[()]
    branches: dict[int, dict[Any, float]] = {}
    for (first, *rest), value in points.items():
        branches.setdefault(first, {})[tuple(rest)] = value
    keys = sorted(branches)
    return keys, [_tree(branches[key]) for key in keys]


def _look_up(tree: Any, where: Sequence[float]) -> float:
    if not where:
        value: float = tree
        return value
    (keys, branches), x, rest = tree, where[0], where[1:]
    if len(keys) == 1 or x <= keys[0]:
        return _look_up(branches[0], rest)
    right = min(bisect_right(keys, x), len(keys) - 1)
    low: float = _look_up(branches[right - 1], rest)
    if x == keys[right - 1]:
        return low
    share = (x - keys[right - 1]) / (keys[right] - keys[right - 1])
    high: float = _look_up(branches[right], rest)
    between: float = low + share * (high - low)
    return between


def _lengths(attention: _Tree) -> list[int]:
    """The cached lengths at which pure decoding was measured."""
    _, (without_chunk, *_) = attention
    _, (nothing_cached, *_) = without_chunk
    _, by_sequences = nothing_cached
    return sorted({length for keys, _ in by_sequences for length in keys})
