"""What the controller hears in the fluid world: the gateway's ledger, engines' pages, measured latencies."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidegate.core.events import EngineReported, SignalsReported
from tidegate.core.types import (
    CapacityFigures,
    DemandReport,
    Dice,
    LatencySummary,
    ModelDemand,
    ModelId,
    ReplicaLoad,
)
from tidegate.sim.fluid.fleet import FluidFleet
from tidegate.sim.fluid.pool import TINY, Pool
from tidegate.sim.scenario import ModelSetup, Scenario

LEARNED_AFTER = 50
"""Answers after which a gateway's learned laws are told: one every few seconds teaches them within minutes."""

Page = EngineReported | SignalsReported


class Reporter:
    """Makes reports and pages of the state at the beginning of a slot."""

    def __init__(
        self, scenario: Scenario, pools: Mapping[ModelId, Pool], fleet: FluidFleet, dice: Dice
    ) -> None:
        self._scraping = scenario.scraping
        self._setups = scenario.models
        self._pools = pools
        self._fleet = fleet
        self._dice = dice
        self._next_s = self._scraping.every_s
        self._on_the_way: deque[tuple[float, Page]] = deque()
        self._latencies: dict[ModelId, deque[tuple[float, LatencySummary]]] = {m: deque() for m in pools}
        self._last_active_s: dict[ModelId, float | None] = dict.fromkeys(pools)
        self._figures = {model: figures_of(model, setup) for model, setup in scenario.models.items()}
        self._seen: dict[ModelId, tuple[float, float]] = dict.fromkeys(pools, (0.0, 0.0))

    def __repr__(self) -> str:
        return f"<Reporter models={len(self._pools)} pages_on_the_way={len(self._on_the_way)}>"

    def report(self, now_s: float, route_version: int) -> DemandReport:
        """The gateway's ledger."""
        models = tuple(self._model_demand(model, pool, now_s) for model, pool in self._pools.items())
        loads = []
        for model, ids in self._fleet.serving.items():
            if ids:
                each = self._fleet.each(model)
                tokens = round(self._pools[model].owed_tokens / max(1.0, self._pools[model].running) * each)
                count = whole(each)
                loads += [ReplicaLoad(replica_id, count, tokens) for replica_id in ids]
        loads += [
            ReplicaLoad(replica_id, whole(drained.requests), whole(drained.requests))
            for replica_id, drained in self._fleet.emptying.items()
        ]
        learned = tuple(
            self._figures[model] for model, pool in self._pools.items() if pool.flowed.ended >= LEARNED_AFTER
        )
        return DemandReport("fluid", route_version, models, tuple(loads), learned)

    def pages(self, now_s: float) -> Iterator[Page]:
        """Pages that have arrived by now."""
        while now_s >= self._next_s:
            self._take_pages(now_s)
            self._next_s += self._scraping.every_s
        while self._on_the_way and self._on_the_way[0][0] <= now_s:
            yield self._on_the_way.popleft()[1]

    def _model_demand(self, model: ModelId, pool: Pool, now_s: float) -> ModelDemand:
        flowed = pool.flowed
        arrived, over = flowed.requests, flowed.over
        if (arrived, over) != self._seen[model]:
            self._seen[model] = (arrived, over)
            self._last_active_s[model] = now_s
        latency = LatencySummary()
        if pool.ttft_s is not None:
            latency = self._summary(pool)
            self._latencies[model].append((now_s, latency))
        minute = self._measured(model, now_s, 1.0)
        latency = replace(latency, ttft_p90_s=minute.ttft_p90_s, tpot_p90_s=minute.tpot_p90_s)
        first = pool.line.first
        queued, in_flight = whole(pool.line.requests), whole(pool.running + pool.prefilling)
        return ModelDemand(
            model=model,
            queued=queued,
            in_flight=in_flight,
            peak=queued + in_flight + round(pool.swing),
            queued_tokens=round(pool.line.tokens),
            in_flight_tokens=round(pool.owed_tokens),
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
        )

    def _summary(self, pool: Pool) -> LatencySummary:
        assert pool.ttft_s is not None
        p50_s, p90_s, p95_s = pool.ttft_s
        return LatencySummary(
            samples=max(1, whole(pool.flowed.ended)),
            ttft_p50_s=p50_s,
            ttft_p95_s=p95_s,
            e2e_p50_s=p50_s + pool.stay_s,
            e2e_p95_s=p95_s + pool.stay_s,
            ttft_p90_s=p90_s,
            tpot_p90_s=pool.tpot_seen_s,
        )

    # ---- metrics ----

    def _take_pages(self, now_s: float) -> None:
        for model, ids in self._fleet.serving.items():
            pool, each = self._pools[model], self._fleet.each(model)
            limits = self._setups[model].limits
            kv = pool.kv_tokens() / max(1, len(ids)) / (limits.kv_blocks * limits.block_tokens)
            for replica_id in ids:
                self._send(now_s, EngineReported(replica_id, whole(each), 0, min(1.0, kv)))
            busy = min(1.0, each + pool.prefill_share) if ids else None
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


def figures_of(model: ModelId, setup: ModelSetup) -> CapacityFigures:
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
        gpu="",
        prefill=(none, one - none - 0.5 * bent, bent),
        decode=(2 * first - second, second - first, cached - first),
        prefill_samples=LEARNED_AFTER,
        decode_samples=LEARNED_AFTER,
        kv_tokens=None,
    )


def whole(requests: float) -> int:
    """As a ledger counts: a request that is there at all is one."""
    return 0 if requests < TINY else max(1, round(requests))
