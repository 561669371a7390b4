"""The keys under ``models.NAME.scaling``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.constants import CONSTANT, CONSTANT_NAME, laws
from tidegate.config.schedule_keys import FloorKeys
from tidegate.config.section import MAX_REPLICAS, Section
from tidegate.core.scaling_settings import Scaling, ScalingPolicy, Thresholds

_SCALING, _THRESHOLDS = Scaling(), Thresholds()
POLICY = kinds.choice("name", *(policy.value for policy in ScalingPolicy))


class ThresholdLaw(Section):
    """The threshold law: one replica more or fewer at a time. Only with `policy: thresholds`."""

    max_queue_depth: Annotated[int, kinds.whole(0, 1_000_000)] = Field(
        default=_THRESHOLDS.max_queue_depth, description="More waiting than this: one replica more"
    )
    max_latency_p95_ms: Annotated[float, kinds.duration("1ms", "1h", per_s=1000)] = Field(
        default=_THRESHOLDS.max_latency_p95_ms,
        alias="max_latency_p95",
        description="Slower than this at the 95th percentile: one replica more",
    )
    max_gpu_utilization: Annotated[float, kinds.ratio()] = Field(
        default=_THRESHOLDS.max_gpu_utilization, description="Busier than this: one replica more"
    )
    min_queue_depth: Annotated[int, kinds.whole(0, 1_000_000)] = Field(
        default=_THRESHOLDS.min_queue_depth,
        description="Fewer waiting than this, and also less busy: one replica fewer",
    )
    min_gpu_utilization: Annotated[float, kinds.ratio()] = Field(
        default=_THRESHOLDS.min_gpu_utilization,
        description="Less busy than this, and also fewer waiting: one replica fewer",
    )
    scale_up_cooldown_s: Annotated[float, kinds.duration("0s", "1d")] = Field(
        default=_THRESHOLDS.scale_up_cooldown_s,
        alias="scale_up_cooldown",
        description="Least time between two steps up",
    )
    scale_down_cooldown_s: Annotated[float, kinds.duration("0s", "1d")] = Field(
        default=_THRESHOLDS.scale_down_cooldown_s,
        alias="scale_down_cooldown",
        description="Least time between two steps down",
    )


class PromiseKeys(Section):
    """What each request is promised. Laws that plan for latency keep replicas for it."""

    ttft_s: Annotated[float, kinds.duration("1ms", "1h")] = Field(
        default=_SCALING.promise.ttft_s, alias="ttft", description="Time to the first token"
    )
    tpot_s: Annotated[float, kinds.duration("1ms", "1m")] = Field(
        default=_SCALING.promise.tpot_s, alias="tpot", description="Mean time of each token after the first"
    )


class ScalingKeys(Section):
    """How the number of replicas follows the demand."""

    min_replicas: Annotated[int, kinds.whole(0, MAX_REPLICAS)] = Field(
        default=_SCALING.min_replicas,
        description="Never fewer; 0 stops the last one when idle. With `static` left out: every address",
    )
    max_replicas: Annotated[int, kinds.whole(1, MAX_REPLICAS)] = Field(
        default=_SCALING.max_replicas, description="Never more. With `static` left out: every address"
    )
    window_s: Annotated[float, kinds.duration("100ms", "1d")] = Field(
        default=_SCALING.window_s,
        alias="window",
        description="Demand is the largest concurrency seen in this span",
    )
    scale_down_delay_s: Annotated[float, kinds.duration("0s", "1d")] = Field(
        default=_SCALING.scale_down_delay_s,
        alias="scale_down_delay",
        description="How long a lower number must have been asked for before it is obeyed",
    )
    concurrency_target: Annotated[float | str, kinds.number_or_auto(1_000_000)] = Field(
        default=kinds.AUTO,
        description="Requests one replica should carry, queued ones included; `auto`: `tidal` and "
        "`concurrency` find it from the promise, the others take `slots`, the engine's batch size",
    )
    policy: Annotated[str, POLICY] = Field(
        default=_SCALING.policy.value, description="The law that proposes the number of replicas"
    )
    also: list[Annotated[str, laws(several=False)]] = Field(
        default=[],
        description="[Further laws](#laws-together), with constants of their own if wanted; of all their numbers the "
        "largest counts",
    )
    law: dict[Annotated[str, CONSTANT_NAME], Annotated[float | str, CONSTANT]] = Field(
        default={},
        description="Constants of the law that differ from its own defaults; [which there are](#constants-of-laws)",
    )
    schedule: list[FloorKeys] = Field(
        default=[], description="Floors by the time of day, such as office hours; under any law"
    )
    promise: PromiseKeys = PromiseKeys()
    thresholds: ThresholdLaw = ThresholdLaw()
