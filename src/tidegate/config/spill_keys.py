"""The keys under a model's ``spill``: the pay-per-token upstream for requests that find no room here.

Attributes are named as in the frozen settings, which also hold the defaults; an alias is the name in the
file, where units stand in the value and not in the key.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.section import Strict
from tidegate.core.settings import SpillBounds

_SPILL = SpillBounds()
_URL = kinds.text(
    "address",
    r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~-]{1,64}){0,8}/?",
    "https://HOST/PATH and nothing more; http:// only for loopback",
)
_NAME = kinds.text("model name", r"[^\x00-\x1f\x7f]{1,200}", "up to 200 printable characters")
_ENV_NAME = kinds.text(
    "name",
    r"[A-Za-z_][A-Za-z0-9_]*",
    "the name of an environment variable, never the key itself: letters, digits and _",
)


class SpillKeys(Strict):
    """A pay-per-token upstream for requests that would be refused here. Their prompts leave the house.

    Only chats, completions, embeddings and responses of the model itself go there, none for its LoRA adapters, and
    none with `x-tidegate-spill: never`.
    """

    address: Annotated[str, _URL] = Field(
        description="An OpenAI-compatible API: what stands before `/chat/completions`, such as "
        "`https://api.example.com/v1`"
    )
    model: Annotated[str, _NAME] = Field(description="Their name for the model")
    key_env: Annotated[str, _ENV_NAME] = Field(
        description="The environment variable that holds the key for it; the key stands in no file"
    )
    prompt_price: Annotated[float, kinds.token_price()] = Field(
        description="What they take for prompt tokens, per million"
    )
    output_price: Annotated[float, kinds.token_price()] = Field(
        description="What they take for output tokens, per million"
    )
    max_cost_per_h: Annotated[float, kinds.money()] = Field(
        default=_SPILL.max_cost_per_h,
        alias="max_cost",
        description="No more than this in any 60 minutes; a request in flight counts with the most that it may cost",
    )
    max_in_flight: Annotated[int, kinds.whole(1, 10_000)] = Field(
        default=_SPILL.max_in_flight, description="Requests that are there at once"
    )
    from_priority: Annotated[int, kinds.whole(-100, 100)] = Field(
        default=_SPILL.from_priority, description="The lowest class that is worth the money"
    )
    max_wait_s: Annotated[float, kinds.duration("0s", "1d")] | None = Field(
        default=_SPILL.max_wait_s,
        alias="max_wait",
        description="Who would wait longer for a replica goes too; left out, only who would be refused",
    )
    output_tokens: Annotated[int, kinds.whole(1, 1_000_000)] = Field(
        default=_SPILL.output_tokens,
        description="Reserved for a request that names no limit, until its answer says what it took",
    )
    ttft_s: Annotated[float, kinds.duration("1ms", "10m")] = Field(
        default=_SPILL.ttft_s,
        alias="ttft",
        description="Their usual time to a first token: a request with less time left is refused. The simulator's too",
    )
    tpot_s: Annotated[float, kinds.duration("0s", "1m")] = Field(
        default=_SPILL.tpot_s,
        alias="tpot",
        description="Time of each token after the first, for the simulator",
    )
