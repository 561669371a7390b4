"""One relayed request, from its last byte in to its last byte out, and who is told how it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tidegate.core.events import Failure
from tidegate.core.types import ModelId, RequestId, Route
from tidegate.gateway.answer import AnswerHead, spilt
from tidegate.gateway.framing import dechunk
from tidegate.gateway.routes import Relay
from tidegate.gateway.usage import Usage

if TYPE_CHECKING:
    from tidegate.gateway.client import ClientConnection
    from tidegate.gateway.outlet import Outlet
    from tidegate.gateway.resume import Transcript
    from tidegate.gateway.upstream import UpstreamConnection


class Call:
    """What a request is and how far it has come. Its phase is known to the dispatcher's ledger."""

    __slots__ = (
        "began",
        "body",
        "client",
        "connecting",
        "echo",
        "ends_open",
        "events_began",
        "forward",
        "heartbeat_s",
        "http10",
        "is_open",
        "is_taken_up",
        "keep_alive",
        "model",
        "other",
        "outlet",
        "redialled",
        "relay",
        "request_id",
        "route",
        "streams",
        "told_tokens",
        "transcript",
        "unknown",
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
        """The configured one; the body names it or one of its adapters."""
        self.body = body
        self.forward = forward
        """Header lines that go to the engine."""
        self.streams = streams
        self.http10 = http10
        self.keep_alive = keep_alive
        self.unknown: str | None = None
        """The name that was asked for, when it is none of ours; it is shown to nobody but the client."""
        self.route: Route | None = None
        self.outlet: Outlet | None = None
        """The pay-per-token upstream that it was spilt to."""
        self.upstream: UpstreamConnection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.redialled = False
        """A pooled connection died unread under this attempt, and it was sent on a fresh one."""
        self.other: Call | None = None
        """The same request at a second replica, until one of the two has answered."""
        self.transcript: Transcript | None = None
        """What the client has been told, when another replica could go on with it."""
        self.heartbeat_s: float | None = None
        """How often the client wants to hear something while it waits; None: not at all."""
        self.is_open = False
        """The head of its stream has been sent, and nothing of an answer."""
        self.told_tokens = 0
        """Of a stream, as the dispatcher was told last."""
        self.is_taken_up = False
        """Another replica is to go on with it and has not said anything yet."""
        self.began = False
        """A byte of the answer has been passed on."""
        self.events_began = False
        """The same, and it is a stream of events, to which an error event can be added."""

        self.ends_open = False
        """Only the end of the client's connection ends the answer, so a cut has to be one that it notices."""

    def twin(self) -> Call:
        """The same request, for a second replica."""
        made = Call(
            self.client,
            self.request_id,
            self.echo,
            self.relay,
            self.model,
            self.body,
            self.forward,
            streams=self.streams,
            http10=self.http10,
            keep_alive=self.keep_alive,
        )
        made.transcript = self.transcript
        made.is_open = self.is_open
        made.heartbeat_s = self.heartbeat_s
        return made

    def opened(self) -> None:
        """The head of its stream has been sent, whichever replica is to answer."""
        self.is_open = True
        if self.other is not None:
            self.other.is_open, self.other.keep_alive = True, self.keep_alive

    def start_answer(self, head: AnswerHead, length: int | None, out: bytes, *, chunked: bool) -> None:
        """Send the head, unless comments have needed one before, and the first bytes.

        From here on nothing can be taken back.
        """
        if self.is_open:
            start = b""
        else:
            self.keep_alive = self.keep_alive and self.client.may_keep_alive and not head.ends_open
            self.ends_open = head.ends_open or (self.http10 and chunked)
            start = head.for_client(self.echo, length, http10=self.http10, keep_alive=self.keep_alive)
            if self.outlet is not None:
                start = spilt(start)
        self.began = True
        self.events_began = head.is_stream
        if self.other is None:
            self.body = b""
        self.client.write(start + (dechunk(out) if self.http10 and chunked else out))

    def __repr__(self) -> str:
        return f"<Call {self.request_id} {self.relay.path} began={self.began} upstream={self.upstream!r}>"


class Attendant(Protocol):
    """Who is told what becomes of an attempt: the gateway."""

    gap: Callable[[float], None]
    """Counts the seconds between two reads of one stream."""

    def first_byte(self, call: Call) -> None:
        """The first bytes have been passed on and more are to come."""

    def answered(self, call: Call, status: int, usage: Usage) -> None:
        """The answer is complete and was passed on."""

    def attempt_failed(self, call: Call, failure: Failure, status: int | None, tokens: int = 0) -> None:
        """The attempt is over, and nothing is attached to the call any more; ``tokens`` of its stream were passed on."""

    def redial(self, call: Call) -> None:
        """A pooled connection was dead before it was used: the same attempt, on a fresh one."""

    def at_rest(self, connection: UpstreamConnection) -> None:
        """The connection may carry another request."""

    def connected(self, connection: UpstreamConnection) -> None:
        """The connection is open."""

    def lost(self, connection: UpstreamConnection) -> None:
        """The connection is closed."""
