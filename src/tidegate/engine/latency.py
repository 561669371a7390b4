"""How long one step of the engine takes.

The linear law: a step with ``n`` decoding sequences that have ``K`` thousand tokens in the cache, and
prompt chunks of ``x`` thousand new tokens after ``y`` thousand cached ones, takes

    base + c*K + sum(e*x + f*x*x + g*x*y)     milliseconds

where base is ``a + b*n`` without a chunk, ``d`` without a decoding sequence, and the larger of the two
with both. Attention over ``x`` new and ``y`` old tokens makes ``g`` twice ``f`` unless it is given.
Fitted to the silicon tables of AIConfigurator 0.12 (NVIDIA, 2026) the law is within 1.5-4.5 % for decode
and 1.6-8.8 % for prefill; to Vidur's random forest (Agrawal et al., MLSys 2024) within 1-2 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

Chunk = tuple[int, int]
"""Prompt tokens computed in this step, and tokens of the same prompt that are cached already."""


class StepLaw(Protocol):
    """What the engine asks about time. All times are seconds and above zero."""

    def mixed_s(self, sequences: int, kv_tokens: int, chunks: Sequence[Chunk]) -> float:
        """One step that decodes ``sequences`` and computes ``chunks``; one of them is not empty."""

    def decode_s(self, sequences: int, kv_tokens: int, steps: int) -> float:
        """``steps`` steps in a row without chunks. The first finds ``kv_tokens`` in the cache; each
        adds one token a sequence."""

    def decode_steps(self, sequences: int, kv_tokens: int, span_s: float) -> int:
        """The fewest such steps that together last ``span_s`` or longer; at least 1."""


def series_s(first_s: float, growth_s: float, steps: int) -> float:
    """How long ``steps`` steps last of which each takes ``growth_s`` longer than the one before."""
    return steps * (first_s + growth_s * (steps - 1) / 2)


def series_steps(first_s: float, growth_s: float, span_s: float) -> int:
    """The fewest such steps that last ``span_s``; at least 1."""
    if span_s <= first_s:
        return 1
    # steps * (first + growth * (steps - 1) / 2) >= span, solved for steps ...
    half_s = first_s - growth_s / 2
    root = 2 * span_s / (half_s + math.sqrt(half_s * half_s + 2 * growth_s * span_s))
    steps = max(1, math.ceil(root))
    # ... and put right where rounding was on the wrong side.
    while steps > 1 and series_s(first_s, growth_s, steps - 1) >= span_s:
        steps -= 1
    while series_s(first_s, growth_s, steps) < span_s:
        steps += 1
    return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearLaw:
    """The law above. ``a`` to ``g`` in milliseconds, tokens in thousands."""

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float
    g: float | None = None
    host_ms: float = 0.0
    """Added to each step: the engine's own work on the host."""

    _seconds: tuple[float, ...] = field(init=False, repr=False, compare=False)
    """The same coefficients in seconds and tokens: the law is asked several times for each request."""

    def __post_init__(self) -> None:
        g = 2 * self.f if self.g is None else self.g
        a_s, d_s = (self.a + self.host_ms) / 1e3, (self.d + self.host_ms) / 1e3
        seconds = (a_s, self.b / 1e3, self.c / 1e6, d_s, self.e / 1e6, self.f / 1e9, g / 1e9)
        object.__setattr__(self, "_seconds", seconds)

    def mixed_s(self, sequences: int, kv_tokens: int, chunks: Sequence[Chunk]) -> float:
        if not chunks:
            return self.decode_s(sequences, kv_tokens, 1)
        a, b, c, base_s, e, f, g = self._seconds
        if sequences and (decode_s := a + b * sequences) > base_s:
            base_s = decode_s
        work_s = c * kv_tokens
        for new, cached in chunks:
            work_s += new * (e + f * new + g * cached)
        return base_s + work_s

    def decode_s(self, sequences: int, kv_tokens: int, steps: int) -> float:
        # ``series_s``, written out: this is asked for at every look at an engine.
        a, b, c, _, _, _, _ = self._seconds
        return steps * (a + b * sequences + c * kv_tokens + c * sequences * (steps - 1) / 2)

    def decode_steps(self, sequences: int, kv_tokens: int, span_s: float) -> int:
        a, b, c, _, _, _, _ = self._seconds
        return series_steps(a + b * sequences + c * kv_tokens, c * sequences, span_s)


@dataclass(frozen=True, slots=True)
class Slowed:
    """Another law with all times multiplied; above 1 for a straggler."""

    law: StepLaw
    factor: float

    def mixed_s(self, sequences: int, kv_tokens: int, chunks: Sequence[Chunk]) -> float:
        return self.factor * self.law.mixed_s(sequences, kv_tokens, chunks)

    def decode_s(self, sequences: int, kv_tokens: int, steps: int) -> float:
        return self.factor * self.law.decode_s(sequences, kv_tokens, steps)

    def decode_steps(self, sequences: int, kv_tokens: int, span_s: float) -> int:
        return self.law.decode_steps(sequences, kv_tokens, span_s / self.factor)
