"""The largest KV use and queue of each engine within the last minute, as a Prometheus query would have it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidegate.core.fleet.scaling.policies.base import EngineSeen
from tidegate.core.types import ReplicaId

MINUTE_S = 60.0
SAME_S = 1e-3
"""Pages closer than this are one page: its moment is reckoned from its age, and rounded."""


class Minute:
    """The engines' pages, each once, from the moment at which it was read."""

    def __init__(self) -> None:
        self._pages: dict[ReplicaId, deque[tuple[float, float, float]]] = {}

    def __repr__(self) -> str:
        return f"<Minute of {len(self._pages)} engines>"

    def add(self, engines: Iterable[EngineSeen], now_s: float) -> None:
        """Take the pages that can be taken for the present. Series end with their replica."""
        kept: dict[ReplicaId, deque[tuple[float, float, float]]] = {}
        for engine in engines:
            pages = kept[engine.replica_id] = self._pages.get(engine.replica_id) or deque()
            read_s = now_s - engine.age_s
            is_new = not pages or read_s > pages[-1][0] + SAME_S
            if (
                is_new
                and engine.is_fresh
                and engine.kv_usage_ratio is not None
                and engine.waiting is not None
            ):
                pages.append((read_s, engine.kv_usage_ratio, float(engine.waiting)))
            while pages and pages[0][0] <= now_s - MINUTE_S:
                pages.popleft()
        self._pages = kept

    def largest(self, replicas: Iterable[ReplicaId]) -> list[tuple[float, float]]:
        """KV use and queue of each of these that has said anything."""
        found = [self._pages.get(replica_id) for replica_id in replicas]
        return [
            (max(kv for _, kv, _ in pages), max(queue for _, _, queue in pages)) for pages in found if pages
        ]
