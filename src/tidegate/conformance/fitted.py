"""How an operator would set each law for a story's replica: targets by what one replica carries, the rest as published.

Windows, delays, rates, tolerances and utilizations stay each law's own. A law is not blamed for a target that nobody
would leave as it is.
"""

from __future__ import annotations

from tidegate.conformance.story import World
from tidegate.core.scaling_settings import Promise, Scaling, ScalingPolicy, SloKeda

PROMISE = Promise(2.0, 0.1)
PROMPT_TOKENS, OUTPUT_TOKENS = 1_000, 80
PREFILL_TOKENS_PER_S = 10_000.0
FULL = 1.0
"""Use of a replica's KV cache when all its slots are taken."""
FILL = 0.8
"""What one plans a replica to be filled to, where the law has no utilization of its own."""


def kv_tokens(slots: int) -> float:
    """Of one replica."""
    return slots * (PROMPT_TOKENS + OUTPUT_TOKENS / 2) / FULL


def law_for(policy: ScalingPolicy, world: World) -> tuple[tuple[str, float], ...]:
    """The constants that depend on the replica."""
    carried = world.target or float(world.slots)
    per_s = carried / world.service_s
    changed: dict[ScalingPolicy, dict[str, float]] = {
        ScalingPolicy.KPA: {"limit": carried},
        ScalingPolicy.HPA: {"target": FILL * carried / world.slots},
        ScalingPolicy.KEDA_HTTP: {"target": FILL * carried},
        ScalingPolicy.RAY: {"target": FILL * carried},
        ScalingPolicy.SKY: {"target": FILL * per_s},
        ScalingPolicy.BASETEN: {"target": carried},
        ScalingPolicy.TOKEN_KEDA: {"prefill_rate": PREFILL_TOKENS_PER_S},
        ScalingPolicy.WVA2: {"kv_tokens": kv_tokens(world.slots)},
        ScalingPolicy.DYNAMO_SLA: {"kv_tokens": kv_tokens(world.slots)},
        ScalingPolicy.DYNAMO_EASY: {"kv_tokens": kv_tokens(world.slots)},
    }
    return tuple(sorted(changed.get(policy, {}).items()))


def scaling_for(policy: ScalingPolicy, world: World) -> Scaling:
    """One model's scaling under this law."""
    return Scaling(
        policy,
        world.least,
        world.most,
        window_s=world.window_s,
        scale_down_delay_s=world.delay_s,
        concurrency_target=world.target or float(world.slots),
        slo_keda=SloKeda(ttft_s=PROMISE.ttft_s, tpot_s=PROMISE.tpot_s),
        promise=PROMISE,
        law=law_for(policy, world),
    )
