"""llm-d's Workload Variant Autoscaler, token model (V2), every 60 s, for one variant.

Source: llm-d/llm-d-workload-variant-autoscaler, capacity analyzer (2026-02). With mean prompt ``I`` and answer ``O``,
``B`` batched tokens and ``S`` sequences at most:

    demand of a replica = tokens in use + queue * I
    capacity of one     = min(k1, k2), k1 = 0.80 * KV tokens, and k2 the tokens in use seen while its queue was >= 5,
                          else the mean of the last 10 such, else min(B*O/(I+O), S) * (I + O/2); the median counts
    queued at the gateway = count * I + count * O
    buy   ceil((demand/0.85 - (r+p) * capacity) / capacity)  when that is above 0
    sell  floor((r * capacity - demand/0.70) / capacity)     else, when that is above 0; the last one stays

Rolling means are kept by bucket of answers (< 100, < 500, more). Its choice among variants by cost is not
modelled, nor prefix hits at the gateway (0 here). KV tokens are learned where they can be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor
from statistics import fmean, median

from tidegate.core.fleet.scaling.policies.base import Demand, Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.fleet.scaling.policies.rivals.minute import Minute
from tidegate.core.scaling_settings import Scaling

OUTPUT_BUCKETS = (100.0, 500.0)
SPAN_S = 300.0
"""Mean lengths are over this span."""


@dataclass(frozen=True, slots=True)
class Wva2Constants:
    """WVA's defaults, and the engine's limits, which it reads from its command line."""

    kv_share: float = 0.80
    queue_limit: float = 5
    up_ratio: float = 0.85
    down_ratio: float = 0.70
    batched_tokens: float = 8_192
    kv_tokens: float = 450_000
    """Of one replica, where nothing has been learned of it."""
    samples: float = 10
    period_s: float = 60.0


class Wva2:
    """The law for one model, with what it has seen of saturated replicas."""

    reads_engines = True

    def __init__(self, constants: Wva2Constants) -> None:
        self._law = constants
        self._minute = Minute()
        self._full: dict[int, deque[float]] = {}

    def __repr__(self) -> str:
        return f"<Wva2 {self._minute!r}>"

    def look(self, seen: Situation, now_s: float) -> None:
        """Take the pages."""
        self._minute.add(seen.engines, now_s)

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """What is missing or to spare, at once."""
        standing = seen.standing
        pages = self._minute.largest(engine.replica_id for engine in seen.engines)
        past = seen.demand.past
        prompt, output = past.mean_prompt_tokens(SPAN_S, now_s), past.mean_output_tokens(SPAN_S, now_s)
        if not pages:
            return Answer(standing, standing, "no engine says how full it is", "no data")
        return self._decided(seen, pages, prompt or 0.0, output or 0.0)

    def _decided(
        self, seen: Situation, pages: list[tuple[float, float]], prompt: float, output: float
    ) -> Answer:
        law, standing = self._law, seen.standing
        kv_tokens = self._kv_tokens(seen.demand)
        capacity = median(self._capacities(pages, prompt, output, kv_tokens, seen.slots))
        demand = sum(kv * kv_tokens + queue * prompt for kv, queue in pages)
        demand += seen.demand.queued * (prompt + output)
        because = f"{demand:,.0f} tokens of demand, {capacity:,.0f} a replica"
        inputs = {"demand_tokens": demand, "capacity_tokens": capacity}
        missing = demand / law.up_ratio - seen.live * capacity
        if missing > 0:
            asked = seen.live + ceil(missing / capacity - 1e-9)
            return Answer(asked, asked, because, None, inputs)
        spare = floor((seen.serving * capacity - demand / law.down_ratio) / capacity + 1e-9)
        if spare > 0:
            asked = max(1, seen.live - spare)
            return Answer(min(asked, standing), asked, because, None, inputs)
        return Answer(standing, standing, because, None, inputs)

    def _kv_tokens(self, demand: Demand) -> float:
        learned = demand.capacity.kv_tokens if demand.capacity is not None else None
        return learned or self._law.kv_tokens

    def _capacities(
        self,
        pages: Iterable[tuple[float, float]],
        prompt: float,
        output: float,
        kv_tokens: float,
        slots: int,
    ) -> list[float]:
        law = self._law
        by_memory = law.kv_share * kv_tokens
        bucket = sum(output >= edge for edge in OUTPUT_BUCKETS)
        full = self._full.setdefault(bucket, deque(maxlen=int(law.samples)))
        found: list[float] = []
        for kv, queue in pages:
            if queue >= law.queue_limit and kv > 0:
                full.append(kv * kv_tokens)
                by_compute = kv * kv_tokens
            elif full:
                by_compute = fmean(full)
            elif prompt + output > 0 and output > 0:
                sequences = min(law.batched_tokens * output / (prompt + output), slots)
                by_compute = sequences * (prompt + output / 2)
            else:
                by_compute = by_memory
            found.append(max(1.0, min(by_memory, by_compute)))
        return found


def wva2(scaling: Scaling, standing: int, now_s: float) -> tuple[Wva2, float]:
    """The law with this model's settings, and how often it decides."""
    del standing, now_s
    constants = with_changes(Wva2Constants(), scaling.law)
    return Wva2(constants), constants.period_s
