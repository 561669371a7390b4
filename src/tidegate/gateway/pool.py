"""Connections to engines that wait for their next request, by replica.

The newest is taken first, so the number kept follows the load. One that has waited longer than the
engine keeps such connections open is closed instead of used: the request would meet the engine's
close on its way.
"""

from __future__ import annotations

from collections.abc import Container

from tidegate.core.types import ReplicaId
from tidegate.gateway.upstream import UpstreamConnection


class Pool:
    """All open connections to engines; those at rest can be taken."""

    def __init__(self) -> None:
        self.open: set[UpstreamConnection] = set()
        self._resting: dict[ReplicaId, list[UpstreamConnection]] = {}

    def __repr__(self) -> str:
        return f"<Pool open={len(self.open)} resting={self.resting}>"

    @property
    def resting(self) -> int:
        return sum(map(len, self._resting.values()))

    def take(self, replica_id: ReplicaId, now_s: float) -> UpstreamConnection | None:
        """A connection to this replica that is fit for use, or None."""
        resting = self._resting.get(replica_id)
        while resting:
            connection = resting.pop()
            if now_s - connection.resting_since_s < connection.manners.idle_connection_s:
                return connection
            connection.drop()
        return None

    def rest(self, connection: UpstreamConnection) -> None:
        """The connection has finished its request in good order."""
        self._resting.setdefault(connection.route.replica_id, []).append(connection)

    def lost(self, connection: UpstreamConnection) -> None:
        """The connection is closed."""
        self.open.discard(connection)
        resting = self._resting.get(connection.route.replica_id)
        if resting is not None and connection in resting:
            resting.remove(connection)

    def sweep(self, now_s: float, routed: Container[ReplicaId]) -> None:
        """Close what has rested too long, or rests at a replica that is no longer in the table."""
        for connection in list(self.open):
            if connection.call is None and (
                now_s - connection.resting_since_s >= connection.manners.idle_connection_s
                or connection.route.replica_id not in routed
            ):
                connection.drop()
        for replica_id in [replica_id for replica_id, resting in self._resting.items() if not resting]:
            del self._resting[replica_id]

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self.open):
            connection.drop()
        self._resting.clear()
