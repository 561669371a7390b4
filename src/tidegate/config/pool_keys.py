"""The keys under ``models.NAME.pool``: what is held near to serving."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.section import MAX_REPLICAS, Section
from tidegate.core.settings import Pool

_POOL = Pool()
_GROUP = kinds.text("name", r"[A-Za-z0-9._-]{0,100}", "up to 100 letters, digits and . _ -")


class PoolKeys(Section):
    """Replicas held ready beside those that serve: warm ones serve at once, sleepers in seconds."""

    min_warm: Annotated[int, kinds.whole(0, MAX_REPLICAS)] = Field(
        default=_POOL.min_warm, description="Loaded and without traffic, always"
    )
    max_warm: Annotated[int, kinds.whole(0, MAX_REPLICAS)] = Field(
        default=_POOL.max_warm,
        description="No more than this; what does not serve any more waits here, the first in is the first out",
    )
    warm_ttl_s: Annotated[float, kinds.duration("1s", "30d")] = Field(
        default=_POOL.warm_ttl_s,
        alias="warm_ttl",
        description="Warm for so long, and not asked for: it is ended",
    )
    max_sleeping: Annotated[int, kinds.whole(0, MAX_REPLICAS)] = Field(
        default=_POOL.max_sleeping,
        description="Processes that keep their weights in host memory and leave their GPUs to others; "
        "vLLM's sleep mode",
    )
    sleeping_ttl_s: Annotated[float, kinds.duration("1s", "365d")] = Field(
        default=_POOL.sleeping_ttl_s,
        alias="sleeping_ttl",
        description="Asleep for so long, and not asked for: it is ended",
    )
    sleep_after_s: Annotated[float, kinds.duration("0s", "1d")] = Field(
        default=_POOL.sleep_after_s,
        alias="sleep_after",
        description="A warm one that is not asked for goes to sleep after this",
    )
    sleep_level: Annotated[int, kinds.whole(1, 2)] = Field(
        default=_POOL.sleep_level,
        description="1 keeps the weights in host memory, 2 reads them again when it wakes",
    )
    warm_price_per_h: Annotated[float, kinds.money()] | None = Field(
        default=None,
        alias="warm_price",
        description="What a warm one costs; left out, as much as one that serves",
    )
    sleeping_price_per_h: Annotated[float, kinds.money()] = Field(
        default=_POOL.sleeping_price_per_h,
        alias="sleeping_price",
        description="What a sleeper costs: the host memory it takes",
    )
    cached_price_per_h: Annotated[float, kinds.money()] = Field(
        default=_POOL.cached_price_per_h,
        alias="cached_price",
        description="What the model's weights cost on a node's disk; they are fetched there when a mix with them is better",
    )
    expected_wake_s: Annotated[float, kinds.duration("0s", "1h")] | None = Field(
        default=None, alias="expected_wake", description="From asleep to serving, before it has been measured"
    )
    slack_s: Annotated[float, kinds.duration("0s", "1h")] = Field(
        default=_POOL.slack_s, alias="slack", description="How long the first requests of a rise may wait"
    )
    risk: Annotated[float, kinds.ratio()] = Field(
        default=_POOL.risk,
        description="How often demand may rise faster than what is held ready allows; the cheapest mix for that is held",
    )
    group: Annotated[str, _GROUP] = Field(
        default=_POOL.group, description="Models with this name in common share their warm replicas"
    )
