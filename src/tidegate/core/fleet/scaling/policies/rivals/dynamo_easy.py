"""NVIDIA Dynamo's planner with static thresholds (``optimization_target: throughput``, its default), every 5 s.

Source: ai-dynamo/dynamo, components/src/dynamo/planner and docs/components/planner/planner-config-reference.mdx
(1.x, 2026). For engines that prefill and decode:

    up by 1 when on any engine the queued prompt tokens reach 1.0 of its context, or KV use with what is queued is
    above 1.0;  down by 1 when on all of them the first is below 0.1 and the second below 0.6

It does not act while a change is on its way, and keeps at least one engine. What waits at the gateway is spread evenly
over the engines, as Dynamo's router would have handed it out. ``up_kv: 0.4``, ``down_kv: 0.1`` and ``up_queue: 0.1``
make it ``optimization_target: latency``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling

SPAN_S = 180.0
"""Mean lengths are over this span."""


@dataclass(frozen=True, slots=True)
class DynamoEasyConstants:
    """The planner's thresholds for throughput."""

    up_queue: float = 1.0
    down_queue: float = 0.1
    up_kv: float = 1.0
    down_kv: float = 0.6
    context_tokens: float = 8_192
    """Prompt tokens that one pass takes at most: vLLM's default."""
    kv_tokens: float = 450_000
    """Of one replica, where nothing has been learned of it."""
    every_s: float = 5.0


class DynamoEasy:
    """The law for one model."""

    reads_engines = True

    def __init__(self, constants: DynamoEasyConstants) -> None:
        self._law = constants

    def __repr__(self) -> str:
        return "<DynamoEasy>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """One step, when nothing is on its way."""
        law, standing, demand = self._law, seen.standing, seen.demand
        if seen.live != seen.serving or seen.live != standing:
            return Answer(standing, standing, "a change is on its way", "in flight")
        engines = [e for e in seen.engines if e.is_fresh and e.kv_usage_ratio is not None]
        if not engines:
            return Answer(standing, standing, "no engine has said anything", "no data")
        prompt = demand.past.mean_prompt_tokens(SPAN_S, now_s) or 0.0
        kv_tokens = (demand.capacity.kv_tokens if demand.capacity else None) or law.kv_tokens
        queues = [(e.waiting or 0) + demand.queued / len(engines) for e in engines]
        queued = [waiting * prompt / law.context_tokens for waiting in queues]
        used = [
            (e.kv_usage_ratio or 0.0) + waiting * prompt / kv_tokens
            for e, waiting in zip(engines, queues, strict=True)
        ]
        said = f"queues up to {max(queued):.2f} of a context, caches up to {max(used):.2f}"
        if max(queued) >= law.up_queue or max(used) > law.up_kv:
            return Answer(standing + 1, standing + 1, said)
        if standing > 1 and max(queued) < law.down_queue and max(used) < law.down_kv:
            return Answer(standing - 1, standing - 1, said)
        return Answer(standing, standing, said)


def dynamo_easy(scaling: Scaling, standing: int, now_s: float) -> tuple[DynamoEasy, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing, now_s
    constants = with_changes(DynamoEasyConstants(), scaling.law)
    return DynamoEasy(constants), constants.every_s
