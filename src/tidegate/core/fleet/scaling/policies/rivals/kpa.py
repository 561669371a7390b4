"""Knative Serving's pod autoscaler, concurrency flavour, every 2 s.

Source: knative/serving, pkg/autoscaler/scaling/autoscaler.go and multiscaler.go,
config/core/configmaps/autoscaler.yaml (2026-08). With ``r`` ready replicas, ``R = max(1, r)`` and a target
``T`` = concurrency limit x 0.70:

    dS = ceil(mean concurrency of 60 s / T)      dP = ceil(mean concurrency of 6 s / T)
    both within [R/2 rounded down, 1000 R]
    panic while dP unbounded / R >= 2, and until 60 s without that have passed
    in panic the largest max(dS, dP) since it began; else dS
    then the largest wish within the scale-down delay (0 s)

An autoscaler that begins with more than one ready replica begins in panic, so that it sheds nothing before it
has seen a window. Zero is wanted when nothing ran for a whole window, and obeyed 30 s later (the grace period).
The limit is the engine's batch size here, as one sets ``containerConcurrency``; without one Knative's soft
target is 100. The activator's buffer is our queue: it counts as concurrency there too.
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
class KpaConstants:
    """``config-autoscaler``'s defaults."""

    limit: float | None = None
    """Requests that one replica takes at once; None: its slots."""
    utilization: float = 0.70
    stable_window_s: float = 60.0
    panic_window_s: float = 6.0
    """10 % of the stable one."""
    panic_ratio: float = 2.0
    up_rate: float = 1000.0
    down_rate: float = 2.0
    scale_down_delay_s: float = 0.0
    grace_delay_s: float = 30.0
    """From wanting none to having none."""
    every_s: float = 2.0


class Kpa:
    """The law for one model, with its panic."""

    def __init__(self, constants: KpaConstants) -> None:
        self._law = constants
        self._panic_s: float | None = None
        """When demand was last far above what is ready; None while there is no panic."""
        self._most = 0
        """Wanted at most since the panic began."""
        self._wishes: deque[tuple[float, int]] = deque()
        self._none_since_s: float | None = None
        self._is_new = True

    def __repr__(self) -> str:
        return f"<Kpa panic_s={self._panic_s} most={self._most}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """Desired by the stable window, or in panic by the larger of both."""
        law, ready = self._law, max(1, seen.serving)
        if self._is_new:
            self._is_new = False
            if seen.serving > 1:
                self._panic_s, self._most = now_s, seen.serving
        stable = seen.demand.past.mean_concurrency(law.stable_window_s, now_s)
        burst = seen.demand.past.mean_concurrency(law.panic_window_s, now_s)
        if stable is None or burst is None:
            return Answer(seen.standing, seen.standing, "nothing is known of the demand", "no data")
        target = (law.limit or seen.slots) * law.utilization
        by_stable, by_burst = ceil(stable / target - 1e-9), ceil(burst / target - 1e-9)
        least = floor(ready / law.down_rate) if seen.serving else 0
        most = ceil(law.up_rate * ready)
        wanted = max(least, min(by_stable, most))
        urgent = max(wanted, least, min(by_burst, most))
        self._feel(by_burst / ready >= law.panic_ratio, now_s)
        because = f"{stable:.1f} over {law.stable_window_s:g} s at {target:g} a replica ask for {by_stable}"
        if self._panic_s is not None:
            self._most = wanted = max(self._most, urgent)
            because = f"panic: {burst:.1f} over {law.panic_window_s:g} s ask for {by_burst}, {ready} ready"
        asked = max(by_stable, by_burst) if self._panic_s is not None else by_stable
        held = self._graced(self._delayed(wanted, now_s), seen, now_s)
        held_by = None if held == seen.within(asked) else "panic" if self._panic_s is not None else "rate"
        return Answer(held, asked, because, held_by, {"stable": stable, "panic": burst})

    def _feel(self, is_over: bool, now_s: float) -> None:
        if is_over:
            self._panic_s = now_s
        elif self._panic_s is not None and now_s > self._panic_s + self._law.stable_window_s:
            self._panic_s, self._most = None, 0

    def _delayed(self, wanted: int, now_s: float) -> int:
        wishes = self._wishes
        wishes.append((now_s, wanted))
        while wishes[0][0] < now_s - self._law.scale_down_delay_s:
            wishes.popleft()
        return max(number for _, number in wishes)

    def _graced(self, wanted: int, seen: Situation, now_s: float) -> int:
        if wanted > 0 or seen.standing == 0:
            self._none_since_s = None
            return wanted
        if self._none_since_s is None:
            self._none_since_s = now_s
        return 0 if now_s >= self._none_since_s + self._law.grace_delay_s else 1


def kpa(scaling: Scaling, standing: int, now_s: float) -> tuple[Kpa, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing, now_s
    constants = with_changes(KpaConstants(), scaling.law)
    return Kpa(constants), constants.every_s
