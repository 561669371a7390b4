"""llm-d's token-aware recipe over KEDA: seconds of prefill backlog, and KV caches' worth of decoding.

Source: llm-d/llm-d, guides/workload-autoscaling/keda-epp-token-aware, optimized-baseline/base/scaledobject.yaml (2026),
after TokenScale (arXiv:2512.03416). Polled each 15 s, both external metrics of type AverageValue:

    max(ceil(prompt tokens not yet prefilled / 15,928 tokens/s / 1.5 s), ceil(sum of KV use / 0.8))

then an autoscaler that adds 1 in 180 s and removes 1 in 300 s, with a window of 300 s on the way down. 15,928 is
Qwen3-32B on two H100; the guide says to measure one's own (``prefill_rate``). The router there hands every request
to an engine at once; here those that wait at the gateway count as not prefilled, as those in the engines' queues do.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.behaviour import (
    SYNC_S,
    Behaviour,
    Rates,
    external_average,
    keda_sleeps,
)
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling

SPAN_S = 60.0
"""The mean prompt is over this span."""


@dataclass(frozen=True, slots=True)
class TokenKedaConstants:
    """The guide's values."""

    prefill_rate: float = 15_928.0
    """Prompt tokens that one replica computes in a second."""
    backlog_target_s: float = 1.5
    kv_target: float = 0.8
    up_pods: float = 1
    up_period_s: float = 180.0
    down_pods: float = 1
    down_period_s: float = 300.0
    down_window_s: float = 300.0
    cooldown_delay_s: float = 300.0
    """KEDA's, from one to none."""
    every_s: float = SYNC_S


class TokenKeda:
    """The law for one model."""

    reads_engines = True

    def __init__(self, law: TokenKedaConstants) -> None:
        self._law = law
        self._behaviour = Behaviour(
            Rates(
                0.0,
                0.0,
                law.up_pods,
                law.up_period_s,
                law.down_window_s,
                0.0,
                law.down_pods,
                law.down_period_s,
            )
        )

    def __repr__(self) -> str:
        return f"<TokenKeda {self._behaviour!r}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """The larger of the two triggers, then the behaviour. A series that is absent reads 0, as in its queries."""
        law, demand = self._law, seen.demand
        if keda_sleeps(seen, law.cooldown_delay_s, now_s):
            return Answer(0, 0, f"nothing for {law.cooldown_delay_s:g} s")
        fresh = [engine for engine in seen.engines if engine.is_fresh]
        # Its router counts what it has handed out itself: an engine's queue is no more than what is in flight.
        waiting = demand.queued + min(demand.in_flight, sum(engine.waiting or 0 for engine in fresh))
        prompt = demand.past.mean_prompt_tokens(SPAN_S, now_s) or 0.0
        backlog_s = waiting * prompt / law.prefill_rate
        kv = sum(engine.kv_usage_ratio or 0.0 for engine in fresh)
        asked = max(
            1,
            external_average(backlog_s, law.backlog_target_s, seen.live),
            external_average(kv, law.kv_target, seen.live),
        )
        wanted = self._behaviour.settle(asked, seen, now_s)
        because = f"{backlog_s:.1f} s of prefill wait, {kv:.2f} caches are full"
        held_by = None if wanted == seen.within(asked) else "behaviour"
        return Answer(wanted, asked, because, held_by, {"backlog_s": backlog_s, "kv": kv})


def token_keda(scaling: Scaling, standing: int, now_s: float) -> tuple[TokenKeda, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing, now_s
    constants = with_changes(TokenKedaConstants(), scaling.law)
    return TokenKeda(constants), constants.every_s
