"""Comments for clients that want to hear something while their request waits.

Asked for with ``x-queue-heartbeat: SECONDS`` on a stream. The first comment sends the head of the answer,
so from then on every end, also a refusal, is an event of the stream and no longer an HTTP status. Nothing
of an answer has been passed on by that: the request may still be tried anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.core.types import RequestId
from tidegate.gateway.answer import STREAM_FIELDS
from tidegate.gateway.call import Call
from tidegate.gateway.framing import chunk

SECONDS = re.compile(rb"[0-9]{1,3}(?:\.[0-9]{1,3})?")
LEAST_S = 0.5
COMMENT = b": waiting\n\n"


class Heartbeats:
    """Who is to hear something, how often, and when next."""

    def __init__(self) -> None:
        self._next_s: dict[RequestId, float] = {}

    def __repr__(self) -> str:
        return f"<Heartbeats {len(self._next_s)}>"

    def __len__(self) -> int:
        return len(self._next_s)

    def begin(self, call: Call, now_s: float) -> None:
        """The call waits from now on."""
        if call.heartbeat_s is not None and call.streams:
            self._next_s[call.request_id] = now_s + call.heartbeat_s

    def end(self, call: Call) -> None:
        """It has its answer, or ended without one, whichever replica that came from."""
        if self._next_s:
            self._next_s.pop(call.request_id, None)

    def sweep(self, calls: Mapping[RequestId, Call], now_s: float) -> None:
        """Say that it goes on, to whom it is time to say so."""
        for request_id, due_s in list(self._next_s.items()):
            call = calls[request_id]
            if call.began:
                del self._next_s[request_id]
            elif due_s <= now_s and call.heartbeat_s is not None:
                self._next_s[request_id] = now_s + call.heartbeat_s
                if not call.is_open:
                    call.client.write(_head(call))
                    call.opened()
                call.client.write(COMMENT if call.http10 else chunk(COMMENT))


def seconds(value: bytes | None) -> float | None:
    """What the header asks for; None when it asks for nothing that makes sense."""
    if value is None or not SECONDS.fullmatch(value) or float(value) <= 0.0:
        return None
    return max(LEAST_S, float(value))


def _head(call: Call) -> bytes:
    call.keep_alive = call.keep_alive and call.client.may_keep_alive
    framing = b"" if call.http10 else b"transfer-encoding: chunked\r\n"
    close = b"" if call.keep_alive else b"connection: close\r\n"
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n%b%bx-request-id: %b\r\n%b\r\n"
        % (
            STREAM_FIELDS,
            framing,
            call.echo,
            close,
        )
    )
