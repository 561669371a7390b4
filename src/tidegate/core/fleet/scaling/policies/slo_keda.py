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

from tidegate.core.fleet.scaling.policies.base import FLOORS, Demand, Proposal, Situation
from tidegate.core.settings import Scaling

TOLERANCE = 0.1
"""Kubernetes' --horizontal-pod-autoscaler-tolerance."""


class SloKedaLaw:
    """The law for one model, with the samples and recommendations that it remembers."""

    def __init__(self, scaling: Scaling, standing: int, now_s: float) -> None:
        del standing  # Each evaluation starts from the replicas that there are.
        self._law = scaling.slo_keda
        self._next_s = now_s
        self._samples: deque[tuple[float, float]] = deque()
        self._recommended: deque[tuple[float, int]] = deque()
        self._added: deque[tuple[float, int]] = deque()
        """Changes that were made, removals negative."""
        self._last: tuple[int, str] | None = None
        """What was asked for at the last evaluation, and why."""

    def __repr__(self) -> str:
        return f"<SloKedaLaw samples={len(self._samples)} next_s={self._next_s:g}>"

    def propose(self, seen: Situation, now_s: float) -> Proposal:
        """The law's number.

        1. Between two evaluations what stands keeps standing.
        2. The formula asks.
        3. The stabilization windows hold back a change that not all of them agree on.
        4. The rates bound what is left of it.
        """
        if self._last is not None and now_s < self._next_s:  # 1
            return self._proposal(seen, seen.standing, *self._last)
        while self._next_s <= now_s:
            self._next_s += self._law.every_s
        known = self._saturation(seen.demand, now_s)
        asked, because = self._formula(seen, known)  # 2
        self._last = asked, because
        stable = self._stabilized(seen.within(asked), seen.standing, now_s)  # 3
        wanted = self._within_rates(stable, seen.standing, now_s)  # 4
        if wanted < seen.standing and not seen.may_shrink:
            wanted = seen.standing
        if wanted != seen.standing:
            self._added.append((now_s, wanted - seen.standing))
        return self._proposal(seen, wanted, asked, because)

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

    def _stabilized(self, asked: int, standing: int, now_s: float) -> int:
        """Kubernetes' stabilizeRecommendationWithBehaviors."""
        law = self._law
        if standing and abs(asked / standing - 1) <= TOLERANCE:
            asked = standing
        self._recommended.append((now_s, asked))
        while self._recommended[0][0] < now_s - max(law.up_window_s, law.down_window_s):
            self._recommended.popleft()
        least = min(number for at_s, number in self._recommended if at_s >= now_s - law.up_window_s)
        most = max(number for at_s, number in self._recommended if at_s >= now_s - law.down_window_s)
        return min(max(standing, least), most)

    def _within_rates(self, wanted: int, standing: int, now_s: float) -> int:
        law = self._law
        while self._added and self._added[0][0] <= now_s - max(law.up_period_s, law.down_period_s):
            self._added.popleft()
        if wanted > standing:
            start = standing - self._changed(law.up_period_s, now_s)
            return min(wanted, max(standing, ceil(start * (1 + law.up_share)), start + law.up_pods))
        if wanted < standing:
            start = standing - self._changed(law.down_period_s, now_s)
            return max(wanted, min(standing, start - law.down_pods))
        return standing

    def _changed(self, period_s: float, now_s: float) -> int:
        return sum(number for at_s, number in self._added if at_s > now_s - period_s)

    def _proposal(self, seen: Situation, wanted: int, asked: int, because: str) -> Proposal:
        inputs = {"standing": float(seen.standing)}
        if seen.demand.ttft_p90_s is not None:
            inputs["ttft_p90_s"] = seen.demand.ttft_p90_s
        if seen.demand.tpot_p90_s is not None:
            inputs["tpot_p90_s"] = seen.demand.tpot_p90_s
        if wanted < seen.floor:
            why = FLOORS[seen.floor_by] if seen.floor_by else ""
            because = f"{because}; not below {seen.floor} while {why}"
            return Proposal(seen.floor, asked, because, seen.floor_by, self._next_s, inputs)
        held_by = None if wanted == seen.within(asked) else "behaviour"
        # As asked, beyond minimum and maximum too: the final clamp is the one that says so.
        number = wanted if held_by else asked
        return Proposal(number, asked, because, held_by, self._next_s if held_by else None, inputs)


def _ratio(value: float | None, promise: float) -> float | None:
    return None if value is None else value / promise
