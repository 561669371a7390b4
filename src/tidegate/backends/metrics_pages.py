"""Engines' own pages of metrics, read for the controller; those that cannot be read are counted."""

from __future__ import annotations

from collections import Counter

from tidegate.adapters.base import Adapter
from tidegate.backends.engine_client import EngineClient, PageUnread
from tidegate.core.events import EngineReported
from tidegate.core.types import Address, ModelId, ReplicaId


class MetricsPages:
    """Reads the pages of one backend's engines."""

    def __init__(self) -> None:
        self.unread: Counter[ModelId] = Counter()
        """Pages that gave no answer, or had none of the figures that are looked for."""

    def __repr__(self) -> str:
        return f"<MetricsPages {self.unread.total()} unread>"

    async def read(
        self,
        client: EngineClient,
        replica_id: ReplicaId,
        model: ModelId,
        address: Address,
        adapter: Adapter,
        timeout_s: float,
    ) -> EngineReported | None:
        """What the page says. None where the engine has none, sleeps, or says nothing: that is no news, and certainly no
        idle engine."""
        try:
            seen = await client.scrape(address, adapter, timeout_s)
        except PageUnread:
            self.unread[model] += 1
            return None
        if seen is None:
            return None
        values = (seen.running, seen.waiting, seen.kv_usage_ratio, seen.lora_on_gpu)
        if all(value is None for value in values):
            self.unread[model] += 1
            return None
        return EngineReported(replica_id, *values)
