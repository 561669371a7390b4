"""What is said between the backend and the process that fetches."""

from __future__ import annotations

import msgspec


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to fetch, and how."""

    source: str
    sha256: str | None
    cache_dir: str
    max_bytes: int | None
    connections: int
    hub_endpoint: str | None
    s3_endpoint: str | None
    s3_region: str | None
    bytes_per_s: float | None
    """None: as fast as it comes."""
    spares_s: float = 0.0
    """What was used within so many seconds is not thrown away for it."""


class Going(msgspec.Struct, frozen=True, tag="going"):
    """How far it is."""

    done_bytes: int
    total_bytes: int | None
    bytes_per_s: float | None
    is_waiting: bool


class Done(msgspec.Struct, frozen=True, tag="done"):
    """It is here. Figures of 0 when it was here before, or came slowly on purpose: they say nothing then."""

    host: str
    fetched_bytes: int
    fetched_in_s: float
    bytes: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """It cannot be had; the reason holds no key and no signed address."""

    because: str


Told = Going | Done | Failed
