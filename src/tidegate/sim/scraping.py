"""Metrics on their way from engines and gateway to the controller: late, sometimes lost, sometimes wrong.

Every ``Scraping.every_s`` a page of each engine is taken and arrives ``lag_s`` later, or never. Latency and
utilisation of each model, as a metrics server would compute them from such pages, come with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from math import nan

from tidegate.core.events import EngineReported, SignalsReported
from tidegate.core.types import Dice, LatencySummary, ModelId, ReplicaId
from tidegate.core.windows import percentile
from tidegate.sim.engines import SimEngine
from tidegate.sim.faults import FaultKind
from tidegate.sim.kernel import Kernel
from tidegate.sim.scenario import Scenario


class Samples:
    """Values of the last ``span_s``."""

    __slots__ = ("_at_s", "_span_s", "_values")

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._at_s: deque[float] = deque()
        self._values: deque[float] = deque()

    def __repr__(self) -> str:
        return f"<Samples {len(self._values)}>"

    def add(self, now_s: float, value: float) -> None:
        """Keep a value."""
        self._at_s.append(now_s)
        self._values.append(value)

    def ordered(self, now_s: float) -> list[float]:
        """Those of the span that ends now, smallest first."""
        at_s, from_s = self._at_s, now_s - self._span_s
        while at_s and at_s[0] <= from_s:
            at_s.popleft()
            self._values.popleft()
        return sorted(self._values)


class LatencyWindow:
    """Times of one model's requests within the last ``span_s``."""

    __slots__ = ("e2e_s", "tpot_s", "ttft_s")

    def __init__(self, span_s: float) -> None:
        self.ttft_s = Samples(span_s)
        """Added when a first token comes; the others when an answer is complete."""
        self.e2e_s = Samples(span_s)
        self.tpot_s = Samples(span_s)

    def summary(self, now_s: float, ratio: float) -> LatencySummary:
        """Percentiles over the span that ends now, each ``ratio`` times what it was."""
        ttft_s = [value * ratio for value in self.ttft_s.ordered(now_s)]
        e2e_s = [value * ratio for value in self.e2e_s.ordered(now_s)]
        tpot_s = [value * ratio for value in self.tpot_s.ordered(now_s)]
        return LatencySummary(
            samples=len(e2e_s),
            ttft_p50_s=percentile(ttft_s, 0.50),
            ttft_p95_s=percentile(ttft_s, 0.95),
            e2e_p50_s=percentile(e2e_s, 0.50),
            e2e_p95_s=percentile(e2e_s, 0.95),
            ttft_p90_s=percentile(ttft_s, 0.90),
            tpot_p90_s=percentile(tpot_s, 0.90),
        )


class Scraper:
    """Takes the pages and delivers them."""

    def __init__(
        self,
        scenario: Scenario,
        kernel: Kernel,
        dice: Dice,
        engines: Mapping[ReplicaId, SimEngine],
        windows: Mapping[ModelId, LatencyWindow],
        deliver: Callable[[object], None],
    ) -> None:
        self._scraping = scenario.scraping
        self._faults = tuple(fault for fault in scenario.faults if fault.kind in _SPOILING)
        self._kernel = kernel
        self._dice = dice
        self._engines = engines
        self._deliver = deliver
        self._models = tuple(scenario.models)
        self._windows = windows
        self._busy_s: dict[ReplicaId, float] = {}
        self._last: dict[object, EngineReported | SignalsReported] = {}

    def __repr__(self) -> str:
        return f"<Scraper each {self._scraping.every_s:g} s, {len(self._last)} pages>"

    def scrape(self) -> None:
        """Take one page of each engine and of each model."""
        used: dict[ModelId, list[float]] = {}
        for replica_id, sim in self._engines.items():
            sim.catch_up()
            used.setdefault(sim.model, []).append(self._utilization(sim))
            if not sim.is_mute:
                self._send(replica_id, self._page(sim))
        self._busy_s = {replica_id: sim.engine.busy_s for replica_id, sim in self._engines.items()}
        for model in self._models:
            busy, window = used.get(model), self._windows.get(model)
            latency = LatencySummary()
            if window is not None:
                latency = window.summary(self._kernel.now_s, self._scraping.latency_ratio)
            self._send(model, SignalsReported(model, sum(busy) / len(busy) if busy else None, latency))

    def _page(self, sim: SimEngine) -> EngineReported:
        engine = sim.engine
        return EngineReported(
            sim.replica_id, engine.running, engine.waiting, 1 - engine.pool.free / engine.pool.total
        )

    def _utilization(self, sim: SimEngine) -> float:
        """Share of the time since the last page in which it computed."""
        busy_s = sim.engine.busy_s - self._busy_s.get(sim.replica_id, 0.0)
        return min(1.0, busy_s / self._scraping.every_s)

    def _send(self, source: object, page: EngineReported | SignalsReported) -> None:
        spoilt = next((fault.kind for fault in self._faults if fault.is_on(self._kernel.now_s)), None)
        if spoilt is FaultKind.STALE_METRICS:
            page = self._last.get(source, page)
        elif spoilt is FaultKind.NAN_METRICS:
            page = _all_nan(page)
        self._last[source] = page
        if spoilt is FaultKind.NO_METRICS or self._is_lost():
            return
        self._kernel.at(self._kernel.now_s + self._scraping.lag_s, lambda: self._deliver(page))

    def _is_lost(self) -> bool:
        # No dice for a page that cannot be lost: other draws would move.
        return self._scraping.loss_ratio > 0 and self._dice.uniform() < self._scraping.loss_ratio


_SPOILING = (FaultKind.NO_METRICS, FaultKind.STALE_METRICS, FaultKind.NAN_METRICS)


def _all_nan(page: EngineReported | SignalsReported) -> EngineReported | SignalsReported:
    if isinstance(page, EngineReported):
        return EngineReported(page.replica_id, None, None, nan)
    return SignalsReported(page.model, nan, LatencySummary(0, nan, nan, nan, nan, nan, nan))
