"""The keys of a node: a machine other than the one that Tidegate runs on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.section import KIND, Strict

NODE_NAME = kinds.text(
    "node name",
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    "up to 64 letters, digits and . _ - and begin with a letter or digit",
)


class NodeKeys(Strict):
    """One machine: its GPUs, all alike, and its price. Read by `tidegate simulate`; see [nodes](#nodes)."""

    gpus: Annotated[int, kinds.whole(1, 1_024)] = Field(description="GPUs in it")
    kind: Annotated[str, KIND] | None = Field(default=None, description="What they are; any word")
    memory_bytes: Annotated[int, kinds.size("1MiB", "1024GiB")] | None = Field(
        default=None, alias="memory", description="Of each of them; left out, each carries one replica"
    )
    price_per_h: Annotated[float, kinds.money()] | None = Field(
        default=None,
        alias="price",
        description="Of the whole machine. A model without `price` costs its share of the dearest node that it fits on",
    )
