"""The head of an engine's answer: read, judged, and written anew for the client.

Hop-by-hop headers end here, and so do those that name the engine's software or its idea of a
request id. Everything else is passed on as it came.
"""

from __future__ import annotations

import re
from enum import Enum

from tidegate.gateway.flows import LengthFlow, OpenFlow, RechunkFlow
from tidegate.gateway.framing import ChunkFlow, Flow, Malformed
from tidegate.gateway.heads import STATUS_LINES, Key, apart

HEAD_MAX = 64 * 1024

# The reason phrase is optional and free text.
HEAD = re.compile(
    rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*+)?\r\n(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[^\r\n\x00]*+\r\n)*+\r\n"
)
# Two passes in C over the whole block cost half of a loop over its fields.
READ = re.compile(
    rb"\n(connection|content-encoding|content-length|content-type|transfer-encoding):[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
DROPPED = re.compile(
    rb"\n(?:connection|content-length|keep-alive|proxy-authenticate|proxy-connection|server|te|trailer"
    rb"|transfer-encoding|upgrade|x-request-id):[^\r\n]*\r(?=\n)",
    re.IGNORECASE,
)
LENGTH = re.compile(rb"[0-9]{1,15}")

KEPT_OF_OTHERS = frozenset(
    (
        b"cache-control",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"transfer-encoding",
        b"x-accel-buffering",
        b"x-request-id",
    )
)
SPILT_FIELD = b"x-tidegate-spilt: true"

EVENT_STREAM = b"text/event-stream"
# A proxy in between must neither collect the events nor press them together.
STREAM_FIELDS = b"cache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\n"


class Framing(Enum):
    """How an engine says where its answer ends."""

    LENGTH = "length"
    CHUNKS = "chunks"
    CLOSE = "close"
    NO_BODY = "no body"


class AnswerHead:
    """What an engine's answer begins with, but for the number in its Content-Length."""

    __slots__ = (
        "_start",
        "ends_open",
        "framing",
        "is_json",
        "is_stream",
        "keep_alive",
        "says_close",
        "status",
    )

    def __init__(
        self, status: int, fields: bytes, framing: Framing, *, says_close: bool, media_type: bytes
    ) -> None:
        self._start = (STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status) + fields
        self.framing = framing
        self.status = status
        self.says_close = says_close
        """The engine has said that it closes the connection after this."""
        self.keep_alive = not says_close and framing is not Framing.CLOSE
        self.is_stream = status == 200 and media_type.startswith(EVENT_STREAM)
        self.is_json = media_type.partition(b";")[0].rstrip() == b"application/json"
        self.ends_open = framing is Framing.CLOSE and not self.is_stream and not self.is_json
        """Nothing shows where the body ends but the connection's end, so nothing may show more to the client."""

    def flow(self, length: int | None) -> Flow:
        """Where the body's bytes are to be fed."""
        if self.framing is Framing.NO_BODY:
            return LengthFlow(0)
        if self.framing is Framing.CHUNKS:
            return ChunkFlow(events=self.is_stream)
        if self.ends_open:
            return OpenFlow()
        if length is None or self.is_stream:
            return RechunkFlow(events=self.is_stream, length=length)
        return LengthFlow(length)

    def for_client(self, request_id: bytes, length: int | None, *, http10: bool, keep_alive: bool) -> bytes:
        """The head of the client's answer."""
        if self.framing is Framing.LENGTH and not self.is_stream and length is not None:
            framing = b"content-length: %d\r\n" % length
        elif self.framing is Framing.NO_BODY or self.ends_open or http10:
            framing = b""
        else:
            framing = b"transfer-encoding: chunked\r\n"
        close = b"" if keep_alive else b"connection: close\r\n"
        return b"%b%bx-request-id: %b\r\n%b\r\n" % (self._start, framing, request_id, close)


_known: dict[Key, AnswerHead] = {}
"""Heads already read, without the digits of their length. An engine's heads differ in that and in the
second of their date, so most are found here, at a third of the cost of reading them."""
KNOWN_MAX = 256
KNOWN_BYTES_MAX = 1024


def first_head(raw: bytes) -> tuple[AnswerHead, int | None, bytes] | None:
    """The first head that is an answer, its body's length, and the bytes that follow. None: not whole yet.

    Raises:
        Malformed: as ``read_head``, and when there is no end to it.
    """
    start = 0
    while (end := raw.find(b"\r\n\r\n", start) + 4) >= 4:
        head, length = read_head(raw[start:end])
        if head.status >= 200:
            return head, length, raw[end:]
        if head.status == 101:
            message = "a switch of protocols was not asked for"
            raise Malformed(message)
        start = end
    if len(raw) > HEAD_MAX:
        message = "the head does not end"
        raise Malformed(message)
    return None


def read_head(raw: bytes) -> tuple[AnswerHead, int | None]:
    """Parse a head, from its first byte to its blank line; the second value is the body's length.

    Raises:
        Malformed: it is no HTTP/1 head, or says two things about its length.
    """
    key, length = apart(raw)
    head = _known.get(key)
    if head is not None:
        return head, length if head.framing is Framing.LENGTH else None
    has_plain_length = length is not None
    head, length = _parse(raw)
    if len(raw) <= KNOWN_BYTES_MAX and (has_plain_length or head.framing is not Framing.LENGTH):
        if len(_known) >= KNOWN_MAX:
            _known.clear()
        _known[key] = head
    return head, length


def spilt(head: bytes) -> bytes:
    """The head of an answer that somebody else's servers gave: what says how to read it, and that it is theirs.
    Their cookies, limits and names for our account are nobody's here."""
    status, *lines = head.split(b"\r\n")[:-2]
    kept = [line for line in lines if line.partition(b":")[0].lower() in KEPT_OF_OTHERS]
    return b"\r\n".join((status, *kept, SPILT_FIELD, b"", b""))


def _parse(raw: bytes) -> tuple[AnswerHead, int | None]:
    match = HEAD.fullmatch(raw)
    if match is None:
        message = "the head is malformed"
        raise Malformed(message)
    status = int(match[2])
    known: dict[bytes, bytes] = {}
    for name, value in READ.findall(raw):
        low = name.lower()
        if low in known and low in (b"content-length", b"transfer-encoding"):
            message = "how the body comes is said twice"
            raise Malformed(message)
        known[low] = value.rstrip()
    media_type = known.get(b"content-type", b"").lower()
    events = status == 200 and media_type.startswith(EVENT_STREAM)
    if events and known.get(b"content-encoding", b"identity").lower() != b"identity":
        message = "the stream is compressed, which was not asked for"
        raise Malformed(message)
    framing, length = _framing(status, known)
    # Without the status line and the blank line.
    fields = DROPPED.sub(b"", raw)[raw.index(b"\n") + 1 : -2]
    named: set[bytes] = set()
    if (connection := known.get(b"connection")) is not None:
        named = {part.strip() for part in connection.lower().split(b",")}
        fields = _without(fields, named)
    if events and b"\ncache-control:" not in b"\n" + fields.lower():
        fields += STREAM_FIELDS
    says_close = match[1] == b"0" or b"close" in named
    return AnswerHead(status, fields, framing, says_close=says_close, media_type=media_type), length


def _framing(status: int, known: dict[bytes, bytes]) -> tuple[Framing, int | None]:
    """How the body comes, and its length."""
    if status in (204, 304):
        return Framing.NO_BODY, None
    coding, length = known.get(b"transfer-encoding"), known.get(b"content-length")
    if coding is not None:
        if length is not None or coding.lower() != b"chunked":
            message = "the body's length is not clear"
            raise Malformed(message)
        return Framing.CHUNKS, None
    if length is None:
        return Framing.CLOSE, None
    if not LENGTH.fullmatch(length):
        message = "the body's length is malformed"
        raise Malformed(message)
    return Framing.LENGTH, int(length)


def _without(fields: bytes, names: set[bytes]) -> bytes:
    """The fields that the connection has not claimed for itself."""
    lines = fields.splitlines(keepends=True)
    return b"".join([line for line in lines if line.partition(b":")[0].lower() not in names])
