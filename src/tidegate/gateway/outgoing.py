"""The heads of requests to engines, built from judged fields alone."""

from __future__ import annotations

from tidegate.core.types import Address, ReplicaId, Route
from tidegate.gateway.call import Call


class RequestHeads:
    """Builds them; what all requests to one path of one replica share is kept."""

    def __init__(self) -> None:
        self._starts: dict[tuple[ReplicaId, str], bytes] = {}

    def of(self, call: Call, route: Route, address: Address, length: int) -> bytes:
        """The head of this call's request, with a body of this length."""
        path = call.relay.path
        key = (route.replica_id, path)
        start = self._starts.get(key)
        if start is None:
            start = self._starts[key] = _start(address, path)
        return b"%b%bcontent-length: %d\r\nx-request-id: %b\r\n\r\n" % (
            start,
            call.forward,
            length,
            call.echo,
        )

    def clear(self) -> None:
        """Addresses come and go; a handful of heads is made anew in no time."""
        self._starts.clear()


def _start(address: Address, path: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: {address.url_host}:{address.port}\r\naccept-encoding: identity\r\n".encode()
