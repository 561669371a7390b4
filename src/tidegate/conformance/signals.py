"""What gateways, engines and a metrics server say of a demand that a number of replicas serves.

The demand is open and impatient: so many requests come each second that ``demand`` of them would be open if all found
a slot. Those that find none wait, and leave after a while. Or it is closed: ``demand`` clients who wait for their answers,
and as many come as are answered. All signals follow from that, so every law sees the same world, each through its own
window.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from tidegate.conformance.fitted import (
    FULL,
    OUTPUT_TOKENS,
    PREFILL_TOKENS_PER_S,
    PROMISE,
    PROMPT_TOKENS,
    kv_tokens,
)
from tidegate.conformance.story import World
from tidegate.core.events import EngineReported, SignalsReported
from tidegate.core.fleet.scaling.days import PLACES
from tidegate.core.knowledge import KnownRates
from tidegate.core.types import CapacityFigures, LatencySummary, ModelDemand, ModelId, ReplicaId

PATIENCE_S = 30.0
FIRST_S = 0.2
"""To the first token of a request that finds a slot."""
STEP_S, STEP_PER_SEQUENCE_S = 0.020, 0.004
"""A decode step of one replica: 60 ms at ten sequences, so that 80 tokens take about 5 s."""


@dataclass(slots=True)
class Ledger:
    """One model's counters, as a gateway keeps them."""

    model: ModelId
    world: World
    arrivals: float = 0.0
    answered: float = 0.0
    answers_per_s: float = 0.0
    last_active_s: float | None = None
    queued: int = 0
    in_flight: int = 0

    def second(self, demand: float, serving: int, now_s: float) -> None:
        """One second of this demand at so many replicas."""
        room = serving * self.world.slots
        self.in_flight = min(round(demand), room)
        self.queued = round(demand) - self.in_flight
        takes_s = answer_s(self.in_flight / max(1, serving)) if self.world.they_wait else self.world.service_s
        self.answers_per_s = self.in_flight / takes_s
        self.arrivals += self.answers_per_s if self.world.they_wait else demand / self.world.service_s
        self.answered += self.answers_per_s
        if demand > 0:
            self.last_active_s = now_s

    def demand(self, share: float = 1.0) -> ModelDemand:
        """The report of a gateway that has this share of it."""
        queued, in_flight = round(share * self.queued), round(share * self.in_flight)
        held = PROMPT_TOKENS + OUTPUT_TOKENS
        return ModelDemand(
            model=self.model,
            queued=queued,
            in_flight=in_flight,
            peak=queued + in_flight,
            queued_tokens=queued * held,
            in_flight_tokens=in_flight * held,
            arrivals_total=int(share * self.arrivals),
            ended_total=int(share * self.arrivals),
            output_tokens_total=int(share * self.answered) * OUTPUT_TOKENS,
            oldest_wait_s=self.wait_s if queued else 0.0,
            last_active_s=self.last_active_s,
            prompt_tokens_total=int(share * self.arrivals) * PROMPT_TOKENS,
            refused_total=max(0, int(share * self.arrivals) - int(share * self.answered)),
            queued_prompt_tokens=queued * PROMPT_TOKENS,
        )

    @property
    def wait_s(self) -> float:
        """Of whoever finds a slot at last."""
        if not self.queued:
            return 0.0
        return min(PATIENCE_S, self.queued / self.answers_per_s) if self.answers_per_s else PATIENCE_S

    def latency(self, serving: int, ttft_ratio: float | None) -> SignalsReported:
        """Of a minute, as a metrics server has it. Nobody answered: no latency."""
        if not self.in_flight or not serving:
            return SignalsReported(self.model, 0.0 if serving else None)
        batch = self.in_flight / serving
        ttft_s = FIRST_S + self.wait_s if ttft_ratio is None else ttft_ratio * PROMISE.ttft_s
        tpot_s = STEP_S + STEP_PER_SEQUENCE_S * batch
        e2e_s = ttft_s + OUTPUT_TOKENS * tpot_s
        told = LatencySummary(60, ttft_s, ttft_s, e2e_s, e2e_s, ttft_p90_s=ttft_s, tpot_p90_s=tpot_s)
        return SignalsReported(self.model, batch / self.world.slots, told)

    def page(self, replica_id: ReplicaId, serving: int, phantoms: int = 0) -> EngineReported:
        """Of one engine: the load is spread evenly."""
        batch = self.in_flight / max(1, serving)
        return EngineReported(replica_id, round(batch), phantoms, FULL * batch / self.world.slots)

    def capacity(self) -> CapacityFigures:
        """As the gateways have learned it."""
        prefill = (0.0, 1_000.0 / PREFILL_TOKENS_PER_S, 0.0)
        decode = (STEP_S, STEP_PER_SEQUENCE_S, 0.0)
        return CapacityFigures(
            self.model, "engine", "", prefill, decode, 500, 500, kv_tokens(self.world.slots)
        )


def answer_s(batch: float) -> float:
    """One answer beside so many others, as their tokens' times have it."""
    return FIRST_S + OUTPUT_TOKENS * (STEP_S + STEP_PER_SEQUENCE_S * batch)


def a_day_at(per_s: float) -> KnownRates:
    """What a believed forecast remembers when that many came each second of the day before the story."""
    return KnownRates(
        at_s=0.0,
        place=0,
        rates=(per_s,) * PLACES,
        high=0.0,
        recent=(),
        claims=(),
        loss=0.0,
        naive_loss=0.0,
        compared=0,
        is_believed=True,
        next_s=None,
    )


def all_nan(page: EngineReported | SignalsReported) -> EngineReported | SignalsReported:
    """The same page full of what is no number."""
    if isinstance(page, EngineReported):
        return EngineReported(page.replica_id, None, None, nan)
    return SignalsReported(page.model, nan, LatencySummary(0, nan, nan, nan, nan, nan, nan))


def unnamed(page: EngineReported | SignalsReported) -> EngineReported | SignalsReported:
    """The same page without its figures."""
    if isinstance(page, EngineReported):
        return EngineReported(page.replica_id, None, None, None)
    return SignalsReported(page.model)
