"""The keys under ``models.NAME.restarts``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.section import Section
from tidegate.core.settings import Restarts

_RESTARTS = Restarts()


class RestartKeys(Section):
    """What happens when starting a replica fails, or serving."""

    backoff_first_s: Annotated[float, kinds.duration("10ms", "1h")] = Field(
        default=_RESTARTS.backoff_first_s,
        alias="backoff_first",
        description="Wait after the first failure; doubles with each further one",
    )
    backoff_max_s: Annotated[float, kinds.duration("10ms", "1d")] = Field(
        default=_RESTARTS.backoff_max_s, alias="backoff_max", description="The longest wait"
    )
    give_up_after: Annotated[int, kinds.whole(1, 1_000)] = Field(
        default=_RESTARTS.give_up_after,
        description="Failures in a row after which the model is *failed*, with its reason",
    )
    retry_failed_s: Annotated[float, kinds.duration("1s", "7d")] = Field(
        default=_RESTARTS.retry_failed_s,
        alias="retry_failed",
        description="When a failed model is tried again",
    )
    forgiven_after_s: Annotated[float, kinds.duration("1s", "1d")] = Field(
        default=_RESTARTS.forgiven_after_s,
        alias="forgiven_after",
        description="Serving for this long makes earlier failures forgotten",
    )
    replace_after_failures: Annotated[int, kinds.whole(1, 1_000_000)] = Field(
        default=_RESTARTS.replace_after_failures,
        description="Requests in a row that must fail at a replica for another to take its place",
    )
