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
    rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*+)?\r\n((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[^\r\n\x00]*+\r\n)*+)\r\n"
)
FIELD = re.compile(rb"([^:\r\n]+):[ \t]*([^\r\n]*)\r\n")
LENGTH = re.compile(rb"[0-9]{1,15}")

DROPPED = frozenset(
    {
        b"connection",
        b"content-length",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-connection",
        b"server",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"x-request-id",
    }
)
READ = frozenset(
    {b"connection", b"content-encoding", b"content-length", b"content-type", b"transfer-encoding"}
)

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
    kept = []
    for name, value in FIELD.findall(match[3]):
        low = name.lower()
        if low in READ:
            if known.get(low, value) != value:
                message = "a header is given twice with two values"
                raise Malformed(message)
            known[low] = value.rstrip()
        if low not in DROPPED:
            kept.append((low, value))
    media_type = known.get(b"content-type", b"").lower()
    events = status == 200 and media_type.startswith(EVENT_STREAM)
    if events and known.get(b"content-encoding", b"identity").lower() != b"identity":
        message = "the stream is compressed, which was not asked for"
        raise Malformed(message)
    flow = _flow(status, known, events=events)
    connection = known.get(b"connection", b"").lower()
    named = {part.strip() for part in connection.split(b",")} if connection else set()
    fields = b"".join([b"%b: %b\r\n" % field for field in kept if field[0] not in named])
    if events:
        fields += STREAM_FIELDS if b"\r\ncache-control:" not in b"\r\n" + fields else b""
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
