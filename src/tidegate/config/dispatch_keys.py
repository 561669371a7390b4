"""The keys that say how requests wait and how attempts go: parts of ``models``, of ``gateway``, and ``shifts``.

Attributes are named as in the frozen settings, which also hold the defaults; an alias is the name in the
file, where units stand in the value and not in the key.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.section import MODEL_NAME, Section, Strict
from tidegate.core.settings import ALL_QUEUES, DispatchConfig, QueueLimits, TrafficShift

_DISPATCH, _QUEUE, _SHIFT = DispatchConfig(), QueueLimits(), TrafficShift(())
_REQUESTS, _TOKENS = kinds.whole(1, 10_000_000), kinds.whole(1, 1_000_000_000_000)
_SIZE = kinds.size("1KiB", "1024GiB")


class Queue(Section):
    """How the model's requests wait. What finds no place is refused at once, with a time to come back."""

    max_requests: Annotated[int, _REQUESTS] = Field(
        default=_QUEUE.max_requests, description="Requests that may wait"
    )
    max_tokens: Annotated[int, _TOKENS] = Field(
        default=_QUEUE.max_tokens, description="Their tokens, prompt and output together"
    )
    max_bytes: Annotated[int, _SIZE] = Field(
        default=_QUEUE.max_bytes, alias="max_size", description="Their bodies"
    )
    class_share: Annotated[float, kinds.ratio()] = Field(
        default=_QUEUE.class_share, description="Of each bound, what one priority class may take"
    )
    tenant_share: Annotated[float, kinds.ratio()] = Field(
        default=_QUEUE.tenant_share,
        description="Of each bound, what one tenant may take. A full queue makes room for a tenant that holds less, "
        "and for a higher class, in any case",
    )
    ageing_s: Annotated[float, kinds.duration("100ms", "1d")] = Field(
        default=_QUEUE.ageing_s,
        alias="ageing",
        description="Who has waited for so long in a lower class gets a turn among the higher ones",
    )
    aged_share: Annotated[float, kinds.ratio()] = Field(
        default=_QUEUE.aged_share, description="Of the tokens served, what such turns may take"
    )
    max_wait_busy_s: Annotated[float, kinds.duration("100ms", "1d")] = Field(
        default=_QUEUE.max_wait_busy_s,
        alias="max_wait_busy",
        description="The longest wait while replicas serve and all are busy; then 429",
    )
    max_wait_starting_s: Annotated[float, kinds.duration("100ms", "1d")] = Field(
        default=_QUEUE.max_wait_starting_s,
        alias="max_wait_starting",
        description="The longest wait while no replica serves yet; then 503",
    )


class Queues(Section):
    """Bounds of the queues of all models together."""

    max_requests: Annotated[int, _REQUESTS] = Field(
        default=ALL_QUEUES.max_requests, description="Requests that may wait"
    )
    max_tokens: Annotated[int, _TOKENS] = Field(
        default=ALL_QUEUES.max_tokens, description="Their tokens, prompt and output together"
    )
    max_bytes: Annotated[int, _SIZE] = Field(
        default=ALL_QUEUES.max_bytes, alias="max_size", description="Their bodies"
    )


class SlowStart(Section):
    """How a replica that joins others is ramped up: it begins with one request and gets twice as many with
    each first token that comes in time. It is used at once where nobody else has a free slot."""

    slow_start_s: Annotated[float, kinds.duration("0s", "1h")] = Field(
        default=_DISPATCH.slow_start_s,
        alias="span",
        description="At most so long for a replica that keeps up; 0s: no ramp",
    )
    slow_start_tokens: Annotated[int, kinds.whole(0, 1_000_000_000)] = Field(
        default=_DISPATCH.slow_start_tokens,
        alias="tokens",
        description="Served before the span counts as over",
    )


class Hedging(Section):
    """A second replica for streams whose first token is overdue; whoever answers first is heard."""

    hedge_ratio: Annotated[float, kinds.ratio()] = Field(
        default=_DISPATCH.hedge_ratio, alias="ratio", description="At most so many of all requests; 0: none"
    )
    hedge_after_s: Annotated[float, kinds.duration("10ms", "1h")] = Field(
        default=_DISPATCH.hedge_after_s,
        alias="after",
        description="Not before so long, nor before three times the usual wait for a first token",
    )


class ShiftKeys(Strict):
    """One name behind which several models stand, each with its share of the traffic."""

    versions: dict[Annotated[str, MODEL_NAME], Annotated[float, kinds.number(0, 1_000_000)]] = Field(
        description="Models and their weights: shares of the tokens. The first is the one to fall back to"
    )
    max_error_ratio: Annotated[float, kinds.ratio()] = Field(
        default=_SHIFT.max_error_ratio,
        description="A version of which more requests fail, and twice as many as of the first, gets nothing more",
    )
    max_ttft_s: Annotated[float, kinds.duration("1ms", "1h")] | None = Field(
        default=_SHIFT.max_ttft_s,
        alias="max_ttft",
        description="A later first token counts as slow; left out, speed does not matter",
    )
    max_slow_ratio: Annotated[float, kinds.ratio()] = Field(
        default=_SHIFT.max_slow_ratio,
        description="The same for slow requests",
    )
    min_samples: Annotated[int, kinds.whole(1, 1_000_000)] = Field(
        default=_SHIFT.min_samples, description="Requests of a version before it is judged"
    )
