"""The head of an engine's answer: read, judged, and written anew for the client.

Hop-by-hop headers end here, and so do those that name the engine's software or its idea of a
request id. Everything else is passed on as it came.
"""

from __future__ import annotations

import re
from http import HTTPStatus

from tidegate.gateway.framing import ChunkFlow, Flow, LengthFlow, Malformed, RechunkFlow

HEAD_MAX = 64 * 1024

# The reason phrase is optional and free text.
HEAD = re.compile(
    rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*+)?\r\n(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[^\r\n\x00]*+\r\n)*+\r\n"
)
# Two passes in C over the whole block cost half of a loop over its fields.
READ = re.compile(
    rb"(?<=\n)(connection|content-encoding|content-length|content-type|transfer-encoding):[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
DROPPED = re.compile(
    rb"(?<=\n)(?:connection|content-length|keep-alive|proxy-authenticate|proxy-connection|server|te|trailer"
    rb"|transfer-encoding|upgrade|x-request-id):[^\n]*\n",
    re.IGNORECASE,
)
LENGTH = re.compile(rb"[0-9]{1,15}")

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}

EVENT_STREAM = b"text/event-stream"
# A proxy in between must neither collect the events nor press them together.
STREAM_FIELDS = b"cache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\n"


class AnswerHead:
    """What an engine's answer begins with."""

    __slots__ = ("fields", "flow", "is_json", "is_stream", "keep_alive", "status")

    def __init__(
        self, status: int, fields: bytes, flow: Flow, *, keep_alive: bool, media_type: bytes
    ) -> None:
        self.status = status
        self.fields = fields
        """As they go to the client, each with its line end."""
        self.flow = flow
        self.keep_alive = keep_alive
        self.is_stream = status == 200 and media_type.startswith(EVENT_STREAM)
        self.is_json = media_type.startswith(b"application/json")

    def for_client(self, request_id: bytes, *, http10: bool, keep_alive: bool) -> bytes:
        """The head of the client's answer."""
        line = STATUS_LINES.get(self.status) or b"HTTP/1.1 %d \r\n" % self.status
        framing = b"transfer-encoding: chunked\r\n" if self.flow.chunked and not http10 else b""
        close = b"" if keep_alive else b"connection: close\r\n"
        return b"%b%b%bx-request-id: %b\r\n%b\r\n" % (line, self.fields, framing, request_id, close)


def read_head(raw: bytes) -> AnswerHead:
    """Parse a head, from its first byte to its blank line.

    Raises:
        Malformed: it is no HTTP/1 head, or says two things about its length.
    """
    match = HEAD.fullmatch(raw)
    if match is None:
        message = "the head is malformed"
        raise Malformed(message)
    status = int(match[2])
    known: dict[bytes, bytes] = {}
    for name, value in READ.findall(raw):
        low = name.lower()
        if known.get(low, value) != value:
            message = "a header is given twice with two values"
            raise Malformed(message)
        known[low] = value.rstrip()
    media_type = known.get(b"content-type", b"").lower()
    events = status == 200 and media_type.startswith(EVENT_STREAM)
    if events and known.get(b"content-encoding", b"identity").lower() != b"identity":
        message = "the stream is compressed, which was not asked for"
        raise Malformed(message)
    flow = _flow(status, known, events=events)
    # Without the status line and the blank line.
    fields = DROPPED.sub(b"", raw)[raw.index(b"\n") + 1 : -2]
    named: set[bytes] = set()
    if (connection := known.get(b"connection")) is not None:
        named = {part.strip() for part in connection.lower().split(b",")}
        fields = _without(fields, named)
    if events:
        fields += STREAM_FIELDS if b"\ncache-control:" not in b"\n" + fields.lower() else b""
    if isinstance(flow, LengthFlow):
        fields += (
            b"content-length: %b\r\n" % known.get(b"content-length", b"0")
            if status not in (204, 304)
            else b""
        )
    by_close = isinstance(flow, RechunkFlow) and b"content-length" not in known
    keep_alive = match[1] == b"1" and b"close" not in named and not by_close
    return AnswerHead(status, fields, flow, keep_alive=keep_alive, media_type=media_type)


def _flow(status: int, known: dict[bytes, bytes], *, events: bool) -> Flow:
    """How the body comes."""
    if status in (204, 304):
        return LengthFlow(0)
    coding, length = known.get(b"transfer-encoding"), known.get(b"content-length")
    if coding is not None:
        if length is not None or coding.lower() != b"chunked":
            message = "the body's length is not clear"
            raise Malformed(message)
        return ChunkFlow(events=events)
    if length is None:
        return RechunkFlow(events=events)
    if not LENGTH.fullmatch(length):
        message = "the body's length is malformed"
        raise Malformed(message)
    return RechunkFlow(events=True, length=int(length)) if events else LengthFlow(int(length))


def _without(fields: bytes, names: set[bytes]) -> bytes:
    """The fields that the connection has not claimed for itself."""
    lines = fields.splitlines(keepends=True)
    return b"".join([line for line in lines if line.partition(b":")[0].lower() not in names])
