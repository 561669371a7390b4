"""One client's connection: requests in, one at a time, and answers out.

Reading never stops while a request waits or is being answered, since only a read shows that the
client has gone. Bytes of further requests that come meanwhile are kept up to a bound; beyond it they
are dropped and the connection ends with the current answer.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from enum import Enum
from time import monotonic
from typing import cast

from tidegate.gateway import gate
from tidegate.gateway.call import Call
from tidegate.gateway.errors import Refusal, refusal_answer, too_many_connections
from tidegate.gateway.intake import ChunkedBody, CountedBody, SizedBody
from tidegate.gateway.visit import Desk, Verdict

AHEAD_MAX = 64 * 1024
"""Bytes of requests sent before the current one is answered."""
LINGER_S = 2.0
"""How long a connection that we close is still read from. Closed with unread bytes, the kernel sends a
reset, which may overtake the answer that says why."""
BODY_GRACE_S = 5.0
RESET = struct.pack("ii", 1, 0)
"""Linger for 0 s: what the kernel has not sent is dropped, and the peer is told that it was."""


class Stage(Enum):
    """What a connection is doing."""

    HEAD = "head"
    BODY = "body"
    WAITING = "waiting"
    LINGERING = "lingering"


class ClientConnection(asyncio.Protocol):
    """The server's side of one connection."""

    __slots__ = (
        "_body",
        "_buffer",
        "_deaf",
        "_desk",
        "_paused_since_s",
        "_pumping",
        "_requests",
        "_since_s",
        "_transport",
        "_verdict",
        "call",
        "stage",
        "write",
    )

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._transport: asyncio.Transport
        self.write: Callable[[bytes], None]
        """Send bytes of an answer: the transport's own method, which saves a call for each event."""
        self.call: Call | None = None
        self.stage = Stage.HEAD
        self._since_s = monotonic()
        """When this stage began; for a head, when its first byte came."""
        self._buffer = b""
        self._verdict: Verdict | None = None
        self._body: CountedBody | None = None
        self._pumping = False
        self._deaf = False
        """More came ahead than is kept; nothing is read from this connection any more."""
        self._paused_since_s: float | None = None
        self._requests = 0

    def __repr__(self) -> str:
        return f"<ClientConnection {self.stage.value} requests={self._requests} ahead={len(self._buffer)}>"

    # ---- what the transport calls ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not of that class.
        self.write = self._transport.write
        self._transport.set_write_buffer_limits(high=self._desk.settings.slow_reader_bytes)
        if not self._desk.arrived(self):
            self._refuse(too_many_connections())

    def data_received(self, data: bytes) -> None:
        stage = self.stage
        if stage is Stage.HEAD:
            if not self._buffer:
                self._since_s = monotonic()
                self._buffer = data
            else:
                self._buffer += data
            self._pump()
        elif stage is Stage.BODY:
            self._buffer = self._buffer + data if self._buffer else data
            self._pump()
        elif stage is Stage.WAITING and not self._deaf:
            self._buffer += data
            if len(self._buffer) > AHEAD_MAX:
                self._deaf = True
                self._buffer = b""
        if self._paused_since_s is not None and len(self._buffer) > AHEAD_MAX:
            self._desk.cut_off(reason="slow_reader")  # It sends without reading what it asked for.
            self.abort()

    def eof_received(self) -> bool:
        # A client that has shut down its sending side is taken for gone: OpenAI's clients and curl do
        # not do that, and waiting for its reading side to fail would keep an engine busy for nobody.
        self._leave()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        self._desk.left(self)

    def pause_writing(self) -> None:
        self._paused_since_s = monotonic()
        if self.call is not None and self.call.upstream is not None:
            self.call.upstream.pause()

    def resume_writing(self) -> None:
        self._paused_since_s = None
        if self.call is not None and self.call.upstream is not None:
            self.call.upstream.resume()
        elif self._buffer:
            self._pump()

    # ---- answers ----

    @property
    def may_keep_alive(self) -> bool:
        """Another request may follow on this connection."""
        return not self._deaf and not self._desk.stopping

    def answer(self, data: bytes, *, keep_alive: bool) -> None:
        """Send a whole answer to the current request; the next may begin."""
        self._transport.write(data)
        self.finished(keep_alive=keep_alive)

    def finished(self, *, keep_alive: bool) -> None:
        """The current request has had its whole answer."""
        self.call = None
        self._since_s = monotonic()
        if not keep_alive or not self.may_keep_alive:
            self.close()
            return
        self.stage = Stage.HEAD
        if self._buffer:
            self._pump()

    def close(self) -> None:
        """Send what is to be sent, then close; what comes in meanwhile is dropped."""
        if self.stage is Stage.LINGERING:
            return
        self.stage = Stage.LINGERING
        self.call = None
        self._since_s = monotonic()
        self._buffer = b""
        self._drop_body()
        if self._transport.is_closing():
            return
        try:
            self._transport.write_eof()
        except OSError:  # The client has reset the connection, which nobody has been told yet.
            self._transport.abort()

    def abort(self) -> None:
        """Close at once; an answer that is under way is seen to be incomplete."""
        if self.call is not None and self.call.ends_open:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.abort()

    @property
    def is_idle(self) -> bool:
        """Between two requests, or before the first."""
        return self.stage is Stage.HEAD and not self._buffer

    # ---- time ----

    def sweep(self, now_s: float) -> None:
        """Close what has taken too long."""
        settings = self._desk.settings
        waited_s = now_s - self._since_s
        if self._paused_since_s is not None and now_s - self._paused_since_s > settings.slow_reader_timeout_s:
            self._desk.cut_off(reason="slow_reader")
            self.abort()
        elif self.stage is Stage.LINGERING:
            if waited_s > LINGER_S and self._paused_since_s is None:
                self.abort()
        elif self.stage is Stage.BODY:
            self._sweep_body(waited_s, settings.min_body_bytes_per_s)
        elif self.stage is Stage.HEAD and self._buffer:
            if waited_s > settings.header_timeout_s:
                self._refuse(_too_slow("the request head did not come within the time for it", "slow_head"))
        elif self.stage is Stage.HEAD and waited_s > (
            settings.keepalive_s if self._requests else settings.header_timeout_s
        ):
            self.abort()

    def _sweep_body(self, waited_s: float, bytes_per_s: int) -> None:
        body = self._body
        if body is not None and waited_s > BODY_GRACE_S and body.received < bytes_per_s * waited_s:
            self._refuse(_too_slow("the request body came too slowly", "slow_body"))

    # ---- requests ----

    def _pump(self) -> None:
        """Read requests from the buffer until one has to be waited for."""
        if self._pumping:
            return  # An answer was given within the loop below, which goes on by itself.
        self._pumping = True
        try:
            while self._buffer and self._paused_since_s is None:
                if self.stage is Stage.BODY:
                    self._read_body()
                elif self.stage is not Stage.HEAD or not self._read_head():
                    return
        except Refusal as refusal:
            self._refuse(refusal)
        finally:
            self._pumping = False

    def _read_head(self) -> bool:
        """Take a head from the buffer; False when it is not whole yet."""
        settings = self._desk.settings
        buffer = self._buffer
        end = buffer.find(b"\r\n\r\n") + 4
        if end < 4:
            gate.check_partial(buffer, settings.max_header_bytes)
            return False
        verdict, length = self._desk.judge(buffer[:end])
        self._requests += 1
        if verdict.refusal is not None:
            self._buffer = buffer[end:]
            self._refuse_head(
                verdict.head, verdict.refusal, keep_alive=verdict.head.keep_alive and length == 0
            )
            return True
        if length is not None and len(buffer) - end >= length:
            # The whole request came at once, as nearly all do.
            self._buffer = buffer[end + length :]
            self.stage = Stage.WAITING
            self._desk.take(self, verdict, buffer[end : end + length])
            return True
        self._buffer = buffer[end:]
        self._verdict = verdict
        body = ChunkedBody(settings.max_body_bytes) if length is None else SizedBody(length)
        self._body = CountedBody(body, self._desk.bodies)
        self.stage = Stage.BODY
        self._since_s = monotonic()
        if verdict.head.expects is not None and not self._buffer:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _refuse_head(self, head: gate.Head, refusal: Refusal, *, keep_alive: bool) -> None:
        """Turn a request away by its head. Without a body it is known where the next begins."""
        self._desk.refused(refusal)
        data = refusal_answer(refusal, request_id=self._desk.name(head), keep_alive=keep_alive)
        if head.method == "HEAD":
            data = data[: data.index(b"\r\n\r\n") + 4]
        self.answer(data, keep_alive=keep_alive)

    def _read_body(self) -> None:
        """Take body bytes from the buffer, and hand the request over when it is whole."""
        body, verdict = self._body, self._verdict
        assert body is not None
        assert verdict is not None
        self._buffer = body.feed(self._buffer)
        if not body.done:
            return
        self._drop_body()
        self.stage = Stage.WAITING
        self._desk.take(self, verdict, body.whole())

    def _drop_body(self) -> None:
        if self._body is not None:
            self._body.drop()
        self._verdict = self._body = None

    def _refuse(self, refusal: Refusal) -> None:
        """Turn a request away and close: where the next would begin is not known."""
        self._desk.refused(refusal)
        request_id = self._desk.name(None if self._verdict is None else self._verdict.head)
        if not self._transport.is_closing() and self.stage is not Stage.LINGERING:
            self._transport.write(refusal_answer(refusal, request_id=request_id, keep_alive=False))
        self.close()

    def _leave(self) -> None:
        call, self.call = self.call, None
        self.stage = Stage.LINGERING
        self._buffer = b""
        self._drop_body()
        if call is not None:
            self._desk.gone(call)


def _too_slow(message: str, reason: str) -> Refusal:
    return Refusal(408, message, reason=reason, code="request_timeout")
