"""AIBrix's application-specific pod autoscaler (APA) on the use of KV caches, every 10 s.

Source: vllm-project/aibrix, pkg/controller/podautoscaler/algorithm/apa.go and context/context.go (2026-08), its
docs on metric-based autoscaling for the target of 50 %, and pull request #2671 (2026-09) for the guard. With
``n`` replicas and their mean over 180 s by target as ``rho``:

    rho > 1.1: min(ceil(n rho), ceil(2 n));  rho < 0.9: max(ceil(n rho), floor(n / 2));  else n
    the guard: while replicas come up they count as 0 on the way up, and as at target on the way down
    down only to the largest number of the last 300 s
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil, floor

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling


@dataclass(frozen=True, slots=True)
class AibrixConstants:
    """AIBrix's defaults."""

    target: float = 0.5
    """Mean use of the replicas' KV caches."""
    window_s: float = 180.0
    up_tolerance: float = 0.1
    down_tolerance: float = 0.1
    up_rate: float = 2.0
    down_rate: float = 2.0
    down_delay_s: float = 300.0
    every_s: float = 10.0


class AibrixApa:
    """The law for one model, with its samples and recommendations."""

    reads_engines = True

    def __init__(self, constants: AibrixConstants) -> None:
        self._law = constants
        self._samples: deque[tuple[float, float]] = deque()
        self._recommended: deque[tuple[float, int]] = deque()

    def __repr__(self) -> str:
        return f"<AibrixApa samples={len(self._samples)}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """Sample, recommend, filter the way down."""
        usage = self._usage(seen, now_s)
        if usage is None or seen.live == 0:
            return Answer(seen.standing, seen.standing, "no engine says how full its cache is", "no data")
        rho, n = usage / self._law.target, seen.live
        asked = self._guarded(rho, n, seen.serving)
        while self._recommended and self._recommended[0][0] <= now_s - self._law.down_delay_s:
            self._recommended.popleft()
        self._recommended.append((now_s, asked))
        wanted = asked if asked >= seen.standing else max(number for _, number in self._recommended)
        if wanted > seen.standing >= asked:
            wanted = seen.standing
        held_by = None if wanted == asked else "down delay"
        because = f"caches {usage:.2f} full at a target of {self._law.target:g}, {seen.serving} of {n} ready"
        return Answer(wanted, asked, because, held_by, {"kv_usage_ratio": usage})

    def _usage(self, seen: Situation, now_s: float) -> float | None:
        fresh = [
            engine.kv_usage_ratio
            for engine in seen.engines
            if engine.is_fresh and engine.kv_usage_ratio is not None
        ]
        if fresh:
            self._samples.append((now_s, sum(fresh) / len(fresh)))
        while self._samples and self._samples[0][0] <= now_s - self._law.window_s:
            self._samples.popleft()
        if not self._samples:
            return None
        return sum(usage for _, usage in self._samples) / len(self._samples)

    def _guarded(self, rho: float, n: int, ready: int) -> int:
        asked, pending = self._recommend(rho, n), n - ready
        if pending <= 0 or asked == n:
            return asked
        with_pending = rho * ready / n if asked > n else (rho * ready + pending) / n
        guarded = self._recommend(with_pending, n)
        return max(n, guarded) if asked > n else min(n, guarded)

    def _recommend(self, rho: float, n: int) -> int:
        law = self._law
        if rho > 1.0 + law.up_tolerance:
            return min(ceil(n * rho - 1e-9), ceil(law.up_rate * n))
        if rho < 1.0 - law.down_tolerance:
            return max(ceil(n * rho - 1e-9), floor(n / law.down_rate))
        return n


def aibrix_apa(scaling: Scaling, standing: int, now_s: float) -> tuple[AibrixApa, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing, now_s
    constants = with_changes(AibrixConstants(), scaling.law)
    return AibrixApa(constants), constants.every_s
