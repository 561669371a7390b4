"""Listens to the KV events of every replica that offers them, and tells the dispatcher how far back its cache reaches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidegate.adapters.kv_events import CacheEdge
from tidegate.core.events import CacheTold
from tidegate.core.lifecycle import State
from tidegate.core.types import ModelId, ReplicaId, Route, RouteTable
from tidegate.runtime.zmtp import NotZmtp, subscribed

log = logging.getLogger("tidegate.cache")

AGAIN_FIRST_S, AGAIN_MOST_S = 1.0, 30.0
SEQUENCE_BYTES = 8


class CacheWatch:
    """One listener for each replica of a model that has a port for it."""

    def __init__(
        self,
        port_of: Callable[[ModelId], int | None],
        tell: Callable[[CacheTold], None],
        now_s: Callable[[], float],
    ) -> None:
        self._port_of = port_of
        self._tell = tell
        self._now_s = now_s
        self._tasks: dict[ReplicaId, asyncio.Task[None]] = {}

    def __repr__(self) -> str:
        return f"<CacheWatch replicas={sorted(self._tasks)}>"

    def routes_are(self, table: RouteTable) -> None:
        """Listen to those that serve, and to nobody else."""
        there = {route.replica_id: route for route in table.routes if route.state is State.SERVING}
        for replica_id in [known for known in self._tasks if known not in there]:
            self._tasks.pop(replica_id).cancel()
        for replica_id, route in there.items():
            port = self._port_of(route.model)
            if port is not None and route.address is not None and replica_id not in self._tasks:
                self._tasks[replica_id] = asyncio.get_running_loop().create_task(
                    self._listen(route, route.address.host, port), name=f"KV events of {replica_id}"
                )

    async def close(self) -> None:
        """Listen no more."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, route: Route, host: str, port: int) -> None:
        wait_s, edge = AGAIN_FIRST_S, CacheEdge()
        while True:
            try:
                async for parts in subscribed(host, port):
                    wait_s = AGAIN_FIRST_S
                    self._heard(route.replica_id, edge, parts)
                why = "it was closed"
            except (OSError, NotZmtp, TimeoutError) as error:
                why = str(error) or type(error).__name__
            log.warning("KV events of %s: %s; again in %.0f s", route.replica_id, why, wait_s)
            await asyncio.sleep(wait_s)
            wait_s = min(AGAIN_MOST_S, 2 * wait_s)

    def _heard(self, replica_id: ReplicaId, edge: CacheEdge, parts: list[bytes]) -> None:
        """A topic, a sequence number and a batch of events."""
        if len(parts) != 3 or len(parts[1]) != SEQUENCE_BYTES:
            edge.malformed_total += 1
            return
        moved_s = edge.take(int.from_bytes(parts[1], "big"), parts[2], self._now_s())
        if moved_s is not None:
            self._tell(CacheTold(replica_id, moved_s))
