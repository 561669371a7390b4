"""The keys under a model's ``variants``. What is left out is as the model says."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.section import ENV_NAME, KIND, MAX_REPLICAS, PROFILE, URL, WORD, Section


class VariantKeys(Section):
    """Another way to run the model. What is left out is as the model says; the model itself is the variant `default`."""

    kind: Annotated[str, KIND] | None = Field(default=None, description="Of its GPUs")
    gpus: Annotated[int, kinds.whole(0, 1_024)] | None = Field(
        default=None, description="GPUs that one replica occupies"
    )
    memory_bytes: Annotated[int, kinds.size("1MiB", "1024TiB")] | None = Field(
        default=None, alias="memory", description="Memory that one replica takes on each of its GPUs"
    )
    price_per_h: Annotated[float, kinds.money()] | None = Field(
        default=None, alias="price", description="What one replica costs"
    )
    slots: Annotated[int, kinds.whole(1, 100_000)] | None = Field(
        default=None, description="Requests one replica takes at once: the engine's batch size"
    )
    max_replicas: Annotated[int, kinds.whole(1, MAX_REPLICAS)] | None = Field(
        default=None, description="Never more of this variant; left out, as many as the model may have"
    )
    context_tokens: Annotated[int, kinds.whole(16, 100_000_000)] | None = Field(
        default=None, alias="context", description="Tokens that one request may use"
    )
    threads: Annotated[int, kinds.whole(1, 4_096)] | None = Field(
        default=None, description="CPU threads of one replica"
    )
    extra_args: list[Annotated[str, WORD]] | None = Field(
        default=None, alias="args", description="Further arguments for the engine, in place of the model's"
    )
    env: dict[Annotated[str, ENV_NAME], Annotated[str, WORD]] | None = Field(
        default=None, description="Environment variables for the engine, in place of the model's"
    )
    command: list[Annotated[str, WORD]] | None = Field(
        default=None, description="A command that replaces the adapter's own"
    )
    static: list[Annotated[str, URL]] | None = Field(
        default=None, description="Where the model has `static`: addresses of engines that run in this way"
    )
    expected_start_s: Annotated[float, kinds.duration("0s", "1d")] | None = Field(
        default=None,
        alias="expected_start",
        description="Cold start to expect before one has been measured",
    )
    profile: Annotated[str, PROFILE] | None = Field(
        default=None,
        description="For `tidegate simulate`: whose speed a replica has; left out, the catalogue's for this model, "
        "`kind` and number of `gpus`",
    )
