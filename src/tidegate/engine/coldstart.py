"""A cold start as a pipeline of stages, and the tiers that shorten it.

What remains to be done depends on where the replica stands: *cold* needs a machine, the image, the
weights and the engine; *cached* has the files on the node's disk; *sleeping* has the weights in host
memory; *warm* and *serving* are up. A compiled engine is found again only for the same GPU type, CUDA
version and dependencies; otherwise it is compiled anew.

Stages after a study of vLLM 0.10 (arXiv 2606.07362, 2026), where a 7B model on an A100 took 45 s
with a cached compilation (bootstrap 10.4, weights 7.8, compile 8.3, KV profiling 2.3, graph capture 1.4,
the rest between them) and 76 s without. Wake-up from sleep level 1: 0.1-6 s (vLLM blog, 2025-10); there the
first request after a start took 4-7 times as long as those after it.

Whoever sends the first request pays for that: the one-token probe of a backend that does not call a replica
ready before a token has come out, else a client.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from tidegate.core.lifecycle import Part, Seen
from tidegate.core.tiers import Tier
from tidegate.core.types import Dice


class StageKind(Enum):
    """What is being waited for, in order."""

    PROCUREMENT = "procurement"
    IMAGE = "image"
    WEIGHTS = "weights"
    COMPILE = "compile"
    KV_PROFILING = "kv_profiling"
    GRAPH_CAPTURE = "graph_capture"
    ENGINE_START = "engine_start"
    FIRST_REQUEST = "first_request"
    WAKE = "wake"

    @property
    def seen(self) -> Seen:
        """How a backend reports this stage."""
        return _SEEN.get(self, Seen.STARTING)

    @property
    def part(self) -> Part | None:
        """How an engine that writes about its start calls it; None where none does."""
        return _PARTS.get(self)


_SEEN = {
    StageKind.PROCUREMENT: Seen.PROCURING,
    StageKind.IMAGE: Seen.PULLING,
    StageKind.WEIGHTS: Seen.LOADING,
}
_PARTS = {
    StageKind.WEIGHTS: Part.WEIGHTS,
    StageKind.COMPILE: Part.COMPILE,
    StageKind.KV_PROFILING: Part.PROFILING,
    StageKind.GRAPH_CAPTURE: Part.CAPTURE,
}


@dataclass(frozen=True, slots=True)
class Build:
    """What a compiled engine was compiled for. It fits nothing else."""

    gpu: str
    cuda: str
    dependencies: tuple[str, ...] = ()
    model: str = ""
    """What was compiled; empty where only one model is."""


ANY_BUILD = Build(gpu="any", cuda="any")
"""Where it is of no interest what is compiled, only that it is."""

_STUDY_S = 45.0
_WEIGHTS_SHARE, _COMPILE_SHARE, _PROFILING_SHARE, _CAPTURE_SHARE = 7.8, 8.3, 2.3, 1.4
_REST_SHARE = 25.2


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage and how long it takes."""

    kind: StageKind
    median_s: float
    sigma: float = 0.0
    """Spread of the logarithm; 0.3 puts nine in ten between 0.61 and 1.64 times the median."""

    def draw_s(self, dice: Dice) -> float:
        """A log-normal time."""
        if self.sigma == 0:
            return self.median_s
        radius = math.sqrt(-2 * math.log(1 - dice.uniform()))
        return self.median_s * math.exp(self.sigma * radius * math.cos(2 * math.pi * dice.uniform()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """What a cold start of one model on one kind of machine consists of."""

    procurement_s: float = 0.0
    image_gb: float = 0.0
    image_gb_per_s: float = 1.0
    weights_gb: float = 0.0
    weights_gb_per_s: float = 1.0
    build: Build | None = None
    """What the engine is compiled for; None when it needs no compilation."""
    compile_s: float = 0.0
    cached_compile_s: float = 0.0
    """Loading a compilation that fits."""
    kv_profiling_s: float = 0.0
    graph_capture_s: float = 0.0
    engine_start_s: float = 0.0
    first_request_s: float = 0.0
    """What the first request waits longer than the others."""
    wake_s: float = 0.0
    """From sleep to serving, with the weights in host memory."""
    sleep_s: float = 0.0
    """From serving to sleep."""
    sigma: float = 0.0
    """Spread of each stage."""

    @classmethod
    def lasting(cls, total_s: float) -> ColdStart:
        """An ordinary start of so many seconds in all: the machine, its image and a compilation are there.

        The stages' shares are those of the study above: weights, compilation found, KV profiling, graph capture;
        what is left is the engine's own start.
        """
        unit_s = total_s / _STUDY_S
        found_s = _COMPILE_SHARE * unit_s
        return cls(
            weights_gb=_WEIGHTS_SHARE * unit_s,
            build=ANY_BUILD,
            compile_s=found_s,
            cached_compile_s=found_s,
            kv_profiling_s=_PROFILING_SHARE * unit_s,
            graph_capture_s=_CAPTURE_SHARE * unit_s,
            engine_start_s=_REST_SHARE * unit_s,
        )

    def stages(self, tier: Tier = Tier.COLD, compiled: Collection[Build] = ()) -> tuple[Stage, ...]:
        """What remains from ``tier`` to serving, given the compilations at hand. Empty stages are left out."""
        if tier in (Tier.SERVING, Tier.WARM):
            return ()
        if tier is Tier.SLEEPING:
            return self.waking()
        fetching: tuple[tuple[StageKind, float], ...] = ()
        if tier is Tier.COLD:
            fetching = (
                (StageKind.PROCUREMENT, self.procurement_s),
                (StageKind.IMAGE, self.image_gb / self.image_gb_per_s),
            )
        return self._worth(
            *fetching,
            (StageKind.WEIGHTS, self.weights_gb / self.weights_gb_per_s),
            (StageKind.COMPILE, self._compiling_s(compiled)),
            (StageKind.KV_PROFILING, self.kv_profiling_s),
            (StageKind.GRAPH_CAPTURE, self.graph_capture_s),
            (StageKind.ENGINE_START, self.engine_start_s),
            (StageKind.FIRST_REQUEST, self.first_request_s),
        )

    def waking(self, level: int = 1) -> tuple[Stage, ...]:
        """From sleep to serving. Level 1 keeps the weights in host memory; level 2 has to read them again
        (vLLM's two levels of sleep)."""
        weights_s = self.weights_gb / self.weights_gb_per_s if level > 1 else 0.0
        return self._worth((StageKind.WAKE, self.wake_s), (StageKind.WEIGHTS, weights_s))

    def total_s(self, tier: Tier = Tier.COLD, compiled: Collection[Build] = ()) -> float:
        """The sum of the medians."""
        return sum(stage.median_s for stage in self.stages(tier, compiled))

    def _compiling_s(self, compiled: Collection[Build]) -> float:
        if self.build is None:
            return 0.0
        return self.cached_compile_s if self.build in compiled else self.compile_s

    def _worth(self, *timed: tuple[StageKind, float]) -> tuple[Stage, ...]:
        return tuple(Stage(kind, seconds, self.sigma) for kind, seconds in timed if seconds > 0)
