"""One relayed request, from its last byte in to its last byte out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidegate.core.types import ModelId, RequestId, Route
from tidegate.gateway.routes import Relay

if TYPE_CHECKING:
    from tidegate.gateway.client import ClientConnection
    from tidegate.gateway.upstream import UpstreamConnection


class Call:
    """What a request is and how far it has come. Its phase is known to the dispatcher's ledger."""

    __slots__ = (
        "began",
        "body",
        "client",
        "connecting",
        "echo",
        "events_began",
        "forward",
        "http10",
        "keep_alive",
        "model",
        "redialled",
        "relay",
        "request_id",
        "route",
        "streams",
        "upstream",
    )

    def __init__(
        self,
        client: ClientConnection,
        request_id: RequestId,
        echo: bytes,
        relay: Relay,
        model: ModelId,
        body: bytes,
        forward: bytes,
        *,
        streams: bool,
        http10: bool,
        keep_alive: bool,
    ) -> None:
        self.client = client
        self.request_id = request_id
        self.echo = echo
        """The client's own id where it sent one, else ours: what ``x-request-id`` says."""
        self.relay = relay
        self.model = model
        self.body = body
        self.forward = forward
        """Header lines that go to the engine."""
        self.streams = streams
        self.http10 = http10
        self.keep_alive = keep_alive
        self.route: Route | None = None
        self.upstream: UpstreamConnection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.redialled = False
        """A pooled connection died unread under this attempt, and it was sent on a fresh one."""
        self.began = False
        """A byte of the answer has been passed on."""
        self.events_began = False
        """The same, and it is a stream of events, to which an error event can be added."""

    def __repr__(self) -> str:
        return f"<Call {self.request_id} {self.relay.path} began={self.began} upstream={self.upstream!r}>"
