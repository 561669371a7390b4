"""What the controller hears in the fluid world: the gateway's ledger, engines' pages, measured latencies."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import fmean

from tidegate.core.events import EngineReported, SignalsReported
from tidegate.core.fleet.replicas import route_gpu
from tidegate.core.types import (
    CapacityFigures,
    DemandReport,
    Dice,
    LatencySummary,
    ModelDemand,
    ModelId,
    ReplicaId,
    ReplicaLoad,
)
from tidegate.sim.fluid.fleet import FluidFleet
from tidegate.sim.fluid.floor import Floor
from tidegate.sim.fluid.pool import TINY
from tidegate.sim.scenario import ModelSetup, Scenario

LEARNED_AFTER = 50
"""Answers after which a gateway's learned laws are told: one every few seconds teaches them within minutes."""

Page = EngineReported | SignalsReported


class Reporter:
    """Makes reports and pages of the state at the beginning of a slot."""

    def __init__(
        self, scenario: Scenario, floors: Mapping[ModelId, Floor], fleet: FluidFleet, dice: Dice
    ) -> None:
        self._scraping = scenario.scraping
        self._setups = scenario.models
        self._floors = floors
        self._fleet = fleet
        self._dice = dice
        self._next_s = self._scraping.every_s
        self._on_the_way: deque[tuple[float, Page]] = deque()
        self._latencies: dict[ModelId, deque[tuple[float, LatencySummary]]] = {m: deque() for m in floors}
        self._last_active_s: dict[ModelId, float | None] = dict.fromkeys(floors)
        self._figures = {
            (model, variant): figures_of(model, way, variant)
            for model, setup in scenario.models.items()
            for variant, way in setup.ways.items()
        }
        self._seen: dict[ModelId, tuple[float, float]] = dict.fromkeys(floors, (0.0, 0.0))

    def __repr__(self) -> str:
        return f"<Reporter models={len(self._floors)} pages_on_the_way={len(self._on_the_way)}>"

    def report(self, now_s: float, route_version: int) -> DemandReport:
        """The gateway's ledger."""
        models = tuple(self._model_demand(model, floor, now_s) for model, floor in self._floors.items())
        loads = []
        for model, variant, ids in self._served():
            pool, each = self._floors[model].pools[variant], self._fleet.each(model, variant)
            tokens = round(pool.owed_tokens / max(1.0, pool.running) * each)
            count = whole(each)
            loads += [ReplicaLoad(replica_id, count, tokens) for replica_id in ids]
        loads += [
            ReplicaLoad(replica_id, whole(drained.requests), whole(drained.requests))
            for replica_id, drained in self._fleet.emptying.items()
        ]
        learned = tuple(
            self._figures[model, variant]
            for model, floor in self._floors.items()
            for variant, pool in floor.pools.items()
            if pool.ended >= LEARNED_AFTER
        )
        return DemandReport("fluid", route_version, models, tuple(loads), learned)

    def pages(self, now_s: float) -> Iterator[Page]:
        """Pages that have arrived by now."""
        while now_s >= self._next_s:
            self._take_pages(now_s)
            self._next_s += self._scraping.every_s
        while self._on_the_way and self._on_the_way[0][0] <= now_s:
            yield self._on_the_way.popleft()[1]

    def _model_demand(self, model: ModelId, floor: Floor, now_s: float) -> ModelDemand:
        flowed = floor.flowed
        arrived, over = flowed.requests, flowed.over
        if (arrived, over) != self._seen[model]:
            self._seen[model] = (arrived, over)
            self._last_active_s[model] = now_s
        latency = LatencySummary()
        ttft_s = floor.ttft_s
        if ttft_s is not None:
            latency = self._summary(floor, ttft_s)
            self._latencies[model].append((now_s, latency))
        minute = self._measured(model, now_s, 1.0)
        latency = replace(latency, ttft_p90_s=minute.ttft_p90_s, tpot_p90_s=minute.tpot_p90_s)
        first = floor.line.first
        queued, in_flight = whole(floor.line.requests), whole(floor.running + floor.prefilling)
        return ModelDemand(
            model=model,
            queued=queued,
            in_flight=in_flight,
            peak=queued + in_flight + round(floor.swing),
            queued_tokens=round(floor.line.prompt_tokens + floor.line.output_tokens),
            in_flight_tokens=round(floor.owed_tokens),
            arrivals_total=round(arrived),
            ended_total=round(over),
            output_tokens_total=round(flowed.output_tokens),
            oldest_wait_s=max(0.0, now_s - first.arrived_s) if queued and first is not None else 0.0,
            last_active_s=self._last_active_s[model],
            latency=latency,
            prompt_tokens_total=round(flowed.prompt_tokens),
            refused_total=round(flowed.expired + flowed.rejected + flowed.spilt),
            spilt_total=round(flowed.spilt),
            spilt_cost_total=flowed.spilt_cost,
            queued_prompt_tokens=round(floor.line.prompt_tokens),
        )

    def _summary(self, floor: Floor, ttft_s: tuple[float, float, float]) -> LatencySummary:
        p50_s, p90_s, p95_s = ttft_s
        stay_s = floor.stay_s
        return LatencySummary(
            samples=max(1, whole(floor.flowed.ended)),
            ttft_p50_s=p50_s,
            ttft_p95_s=p95_s,
            e2e_p50_s=p50_s + stay_s,
            e2e_p95_s=p95_s + stay_s,
            ttft_p90_s=p90_s,
            tpot_p90_s=floor.tpot_seen_s(0.9),
        )

    def _served(self) -> Iterator[tuple[ModelId, str, list[ReplicaId]]]:
        """The serving replicas by model and variant, where there are any."""
        for model, ids in self._fleet.serving.items():
            for variant in self._floors[model].pools:
                alike = [replica_id for replica_id, its in ids.items() if its == variant]
                if alike:
                    yield model, variant, alike

    # ---- metrics ----

    def _take_pages(self, now_s: float) -> None:
        busy_of: dict[ModelId, list[float]] = {model: [] for model in self._floors}
        for model, variant, ids in self._served():
            pool, each = self._floors[model].pools[variant], self._fleet.each(model, variant)
            limits = self._setups[model].ways[variant].limits
            kv = pool.kv_tokens() / len(ids) / (limits.kv_blocks * limits.block_tokens)
            for replica_id in ids:
                self._send(now_s, EngineReported(replica_id, whole(each), 0, min(1.0, kv)))
            busy_of[model] += [min(1.0, each + pool.prefill_share)] * len(ids)
        for model, shares in busy_of.items():
            busy = fmean(shares) if shares else None
            self._send(
                now_s,
                SignalsReported(model, busy, self._measured(model, now_s, self._scraping.latency_ratio)),
            )

    def _send(self, now_s: float, page: Page) -> None:
        if self._scraping.loss_ratio > 0 and self._dice.uniform() < self._scraping.loss_ratio:
            return
        self._on_the_way.append((now_s + self._scraping.lag_s, page))

    def _measured(self, model: ModelId, now_s: float, ratio: float) -> LatencySummary:
        """Over the last minute: of each percentile the same one over the slots."""
        kept = self._latencies[model]
        while kept and kept[0][0] <= now_s - self._scraping.window_s:
            kept.popleft()
        if not kept:
            return LatencySummary()

        def over(name: str, share: float) -> float:
            values = sorted(getattr(summary, name) for _, summary in kept)
            return float(values[min(len(values) - 1, int(share * len(values)))]) * ratio

        return LatencySummary(
            samples=kept[-1][1].samples,
            ttft_p50_s=over("ttft_p50_s", 0.5),
            ttft_p95_s=over("ttft_p95_s", 0.95),
            e2e_p50_s=over("e2e_p50_s", 0.5),
            e2e_p95_s=over("e2e_p95_s", 0.95),
            ttft_p90_s=over("ttft_p90_s", 0.9),
            tpot_p90_s=over("tpot_p90_s", 0.9),
        )


def figures_of(model: ModelId, setup: ModelSetup, variant: str = "") -> CapacityFigures:
    """The two laws of ``core.capacity`` as a gateway learns them in the end: read off the engine's own law.

    A prompt on an idle engine is ``k0 + k1 * x + k2 * x * x / 2`` in thousands of tokens, a step linear in both.
    """
    law = setup.law
    none, one, two = (law.mixed_s(0, 0, [(tokens, 0)]) for tokens in (1, 1000, 2000))
    bent = max(0.0, two - 2 * one + none)
    first, second, cached = law.decode_s(1, 0, 1), law.decode_s(2, 0, 1), law.decode_s(1, 1000, 1)
    return CapacityFigures(
        model=model,
        engine=setup.fleet.engine,
        gpu=route_gpu(variant, setup.fleet),
        prefill=(none, one - none - 0.5 * bent, bent),
        decode=(2 * first - second, second - first, cached - first),
        prefill_samples=LEARNED_AFTER,
        decode_samples=LEARNED_AFTER,
        kv_tokens=None,
    )


def whole(requests: float) -> int:
    """As a ledger counts: a request that is there at all is one."""
    return 0 if requests < TINY else max(1, round(requests))
