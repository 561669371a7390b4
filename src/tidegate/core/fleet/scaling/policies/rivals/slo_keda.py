"""llm-d's latency law: P90 latency by SLO as a saturation, a formula in KEDA, a Kubernetes autoscaler after it.

Source: llm-d/llm-d, guides/workload-autoscaling/README.slo-aware.md (2026). Every 15 s, with ``n`` replicas
of which ``r`` are ready:

    s = mean over 45 s of min(max(P90 TTFT / SLO, P90 TPOT / SLO), 2.0)          nothing known counts as 0
    c = r/n while 0 < r < n, else 1
    s > 0.55:  n + ceil(n * (s*c/0.55 - 1))
    s < 0.40:  n - floor(n * (1 - s/0.40))
    else       n

The autoscaler (Kubernetes autoscaling/v2) takes the least of the last 30 s on the way up and the largest of
the last 180 s on the way down, ignores a change of up to a tenth, and adds at most the larger of 100 % and 4
in 60 s, and removes 1 in 120 s.

The way up has no floor in the published law: while many replicas come up it may ask for fewer than there
are. ``is_guarded`` mends that, and keeps what stands while nothing is known; it is off by default, as this law
is here to be compared with.
"""

from __future__ import annotations

from collections import deque
from math import ceil, floor

from tidegate.core.fleet.scaling.policies.base import Demand, Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.behaviour import Behaviour, Rates
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling, SloKeda


class SloKedaLaw:
    """The law for one model, with the samples that it remembers."""

    def __init__(self, law: SloKeda) -> None:
        self._law = law
        self._samples: deque[tuple[float, float]] = deque()
        self._behaviour = Behaviour(
            Rates(
                law.up_window_s,
                law.up_share,
                law.up_pods,
                law.up_period_s,
                law.down_window_s,
                0.0,
                law.down_pods,
                law.down_period_s,
            )
        )

    def __repr__(self) -> str:
        return f"<SloKedaLaw samples={len(self._samples)} {self._behaviour!r}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """The formula asks, windows and rates hold back."""
        asked, because = self._formula(seen, self._saturation(seen.demand, now_s))
        wanted = self._behaviour.settle(asked, seen, now_s)
        held_by = None if wanted == seen.within(asked) else "behaviour"
        return Answer(wanted, asked, because, held_by, _inputs(seen))

    def _saturation(self, demand: Demand, now_s: float) -> float | None:
        """The smoothed signal; None when no latency has been heard of for its whole window."""
        law = self._law
        parts = (_ratio(demand.ttft_p90_s, law.ttft_s), _ratio(demand.tpot_p90_s, law.tpot_s))
        known = [part for part in parts if part is not None]
        if known:
            self._samples.append((now_s, min(max(known), law.clamp_ratio)))
        elif not law.is_guarded:
            self._samples.append((now_s, 0.0))
        while self._samples and self._samples[0][0] <= now_s - law.smoothing_s:
            self._samples.popleft()
        if not self._samples:
            return None
        return sum(sample for _, sample in self._samples) / len(self._samples)

    def _formula(self, seen: Situation, saturation: float | None) -> tuple[int, str]:
        law, n, r = self._law, seen.live, seen.serving
        if n == 0:
            # Nothing can be measured without a replica; the floor brings the first one.
            return seen.floor, "no replica to measure"
        if saturation is None:
            return seen.standing, "no latency is known"
        said = f"saturation {saturation:.2f}"
        if saturation > law.up_ratio:
            credit = r / n if 0 < r < n else 1.0
            # As floats come: 6 * (1.2 * 0.5 / 0.55 - 1) must not be rounded up twice.
            asked = n + ceil(n * (saturation * credit / law.up_ratio - 1) - 1e-9)
            if law.is_guarded:
                asked = max(asked, n)
            return asked, f"{said} is above {law.up_ratio:g}, {r} of {n} are ready"
        if saturation < law.down_ratio:
            asked = n - floor(n * (1 - saturation / law.down_ratio) + 1e-9)
            return asked, f"{said} is below {law.down_ratio:g}"
        return n, f"{said} is within {law.down_ratio:g} and {law.up_ratio:g}"


def _inputs(seen: Situation) -> dict[str, float]:
    inputs = {"standing": float(seen.standing)}
    if seen.demand.ttft_p90_s is not None:
        inputs["ttft_p90_s"] = seen.demand.ttft_p90_s
    if seen.demand.tpot_p90_s is not None:
        inputs["tpot_p90_s"] = seen.demand.tpot_p90_s
    return inputs


def _ratio(value: float | None, promise: float) -> float | None:
    return None if value is None else value / promise


def slo_keda(scaling: Scaling, standing: int, now_s: float) -> tuple[SloKedaLaw, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing, now_s  # Each evaluation starts from the replicas that there are.
    law = with_changes(scaling.slo_keda, scaling.law)
    return SloKedaLaw(law), law.every_s
