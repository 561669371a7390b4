"""NVIDIA Dynamo's planner with latency targets (``optimization_target: sla``): a slow floor and a fast ±1.

Source: ai-dynamo/dynamo, components/src/dynamo/planner and docs/components/planner/planner-config-reference.mdx
(1.x, 2026). Both of its loops are on, for engines that prefill and decode.

Each 180 s, from the requests of that span, the floor:

    max(ceil(rps * prefill time of the mean prompt), ceil(ttft / SLA) when the SLA was missed,
        ceil(rps / rate of the largest batch that keeps the ITL), 1)

Each 5 s one step, never while a change is on its way:

    up   when every engine's estimated TTFT is above the SLA, or every engine's ITL is
    down when for every engine the queue of N/(N-1) leaves TTFT below 0.8 (SLA - its own prefill), and the KV of N/(N-1)
         fits and predicts an ITL below 0.8 SLA; not below the floor

A span without requests has no mean lengths: the slow loop skips it, as Dynamo's does (#6985), and its floor stays.
The regressions on forward-pass metrics are our learned capacity model here, which knows the same two laws. The load
predictor is its ``constant`` one (what came is what comes); its default is ARIMA on six points an hour and more.
SLA: the model's promise; Dynamo's defaults are 500 ms and 50 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tidegate.core.capacity import Capacity, Kind
from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling
from tidegate.core.types import ModelId

BEFORE_DATA = Capacity(Kind(ModelId(""), ""))
"""Read only: the prior, while nothing has been learned."""


@dataclass(frozen=True, slots=True)
class DynamoSlaConstants:
    """``PlannerConfig``'s defaults."""

    ttft_s: float | None = None
    """None: the model's promise."""
    itl_s: float | None = None
    sensitivity: float = 0.8
    slow_period_s: float = 180.0
    kv_tokens: float = 450_000
    """Of one replica, where nothing has been learned of it."""
    every_s: float = 5.0


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is being asked for, and what one engine can do about it."""

    prompt: float
    output: float
    capacity: Capacity
    kv_tokens: float
    ttft_s: float
    itl_s: float

    @property
    def own_s(self) -> float:
        """Prefill of one prompt that nothing is ahead of."""
        return self.capacity.prefill_s(self.prompt, 0.0)

    def rate_per_s(self, slots: int) -> float:
        """Requests each second of one engine whose batch keeps the ITL."""
        held = self.prompt + self.output / 2
        fitting = [
            n
            for n in range(1, slots + 1)
            if n * held <= self.kv_tokens and self.capacity.step_s(n, n * held) <= self.itl_s
        ]
        n = fitting[-1] if fitting else 1
        return n / (max(1.0, self.output) * self.capacity.step_s(n, n * held))


class DynamoSla:
    """The law for one model, with its floor."""

    reads_engines = True

    def __init__(self, constants: DynamoSlaConstants, now_s: float) -> None:
        self._law = constants
        self._slow_s = now_s + constants.slow_period_s
        self._floor = 1

    def __repr__(self) -> str:
        return f"<DynamoSla floor={self._floor} slow_s={self._slow_s:g}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """The slow loop when it is its time, then the fast one."""
        shape = self._shape(seen, now_s)
        if now_s >= self._slow_s:
            self._slow_s = now_s + self._law.slow_period_s
            self._plan(seen, shape, now_s)
        standing = seen.standing
        if seen.live != seen.serving or seen.live != standing:
            return Answer(standing, standing, "a change is on its way", "in flight")
        if standing == 0:
            return Answer(0, 0, "none is there to be looked at")
        if standing < self._floor:
            return Answer(self._floor, self._floor, f"the slow loop's floor is {self._floor}")
        step, because = self._step(seen, shape)
        wanted = max(self._floor, standing + step)
        return Answer(wanted, standing + step, because, None if wanted == standing + step else "floor")

    def _shape(self, seen: Situation, now_s: float) -> _Shape | None:
        law, demand = self._law, seen.demand
        prompt = demand.past.mean_prompt_tokens(law.slow_period_s, now_s)
        output = demand.past.mean_output_tokens(law.slow_period_s, now_s)
        if prompt is None:
            return None
        capacity = demand.capacity or BEFORE_DATA
        ttft_s, itl_s = law.ttft_s or seen.promise.ttft_s, law.itl_s or seen.promise.tpot_s
        return _Shape(prompt, output or 0.0, capacity, capacity.kv_tokens or law.kv_tokens, ttft_s, itl_s)

    def _plan(self, seen: Situation, shape: _Shape | None, now_s: float) -> None:
        rps = seen.demand.past.arrivals_per_s(self._law.slow_period_s, now_s)
        if shape is None or rps is None:
            return  # No mean of nothing: the decision is skipped.
        by_prefill = ceil(rps * shape.own_s - 1e-9)
        ttft_s = seen.demand.ttft_p90_s
        if ttft_s is not None and ttft_s > shape.ttft_s:
            by_prefill = max(by_prefill, ceil(ttft_s / shape.ttft_s))
        by_decode = ceil(rps / shape.rate_per_s(seen.slots) - 1e-9)
        self._floor = min(seen.max_replicas, max(1, by_prefill, by_decode))

    def _step(self, seen: Situation, shape: _Shape | None) -> tuple[int, str]:
        engines = [e for e in seen.engines if e.is_fresh and e.kv_usage_ratio is not None]
        if not engines:
            return 0, "no engine has said anything"
        n, queued = len(engines), seen.demand.queued
        if shape is None:
            return (-1 if n > 1 and not seen.demand.concurrency else 0), "nothing was asked for"
        loads = [
            (e.running or 0, (e.waiting or 0) + queued / n, (e.kv_usage_ratio or 0.0) * shape.kv_tokens)
            for e in engines
        ]
        ttft_s = [waiting * shape.own_s + shape.own_s for _, waiting, _ in loads]
        itl_s = [shape.capacity.step_s(running, kv) for running, _, kv in loads]
        said = f"TTFT up to {max(ttft_s):.2f} s, ITL up to {1e3 * max(itl_s):.0f} ms"
        if min(ttft_s) > shape.ttft_s or min(itl_s) > shape.itl_s:
            return 1, said
        if n > 1 and all(self._fits(load, n / (n - 1), shape) for load in loads):
            return -1, f"{said}; one fewer would do"
        return 0, said

    def _fits(self, load: tuple[float, float, float], more: float, shape: _Shape) -> bool:
        running, waiting, kv = load
        share = self._law.sensitivity
        return (
            waiting * more * shape.own_s < share * (shape.ttft_s - shape.own_s)
            and kv * more <= shape.kv_tokens
            and shape.capacity.step_s(running * more, kv * more) < share * shape.itl_s
        )


def dynamo_sla(scaling: Scaling, standing: int, now_s: float) -> tuple[DynamoSla, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing
    constants = with_changes(DynamoSlaConstants(), scaling.law)
    return DynamoSla(constants, now_s), constants.every_s
