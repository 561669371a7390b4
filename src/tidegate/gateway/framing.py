"""Where an engine's answer ends, and up to where it may be passed on.

A flow takes bytes as they come from an engine and gives back what the client may have: the same
bytes, cut where something of ours could follow. For event streams that is a chunk's end at which an
event ends too, so an error event can take the place of whatever would have come next, and an event
is judged whole before any part of it is passed on. A whole event is never delayed.

Nothing here knows sockets. What is given back leaves out the last chunk (``0``): whether the answer
may be called complete is for the caller to say.
"""

from __future__ import annotations

import re
from typing import Protocol

LAST_CHUNK = b"0\r\n\r\n"
SIZE_LINE_MAX = 256
TRAILER_MAX = 4096
HELD_MAX = 4 * 1024 * 1024
"""Of one event, or one chunk, that has not come to its end."""

SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t -~]*)?")
_sizes: dict[bytes, int] = {}
"""Size lines already read. Events of a stream are alike, and a look-up costs a third of reading the
line; bounded by SIZES_MAX, since an engine chooses its keys."""
SIZES_MAX = 4096
SIZE_MAX = 10

CHUNK_ENDS = (b"\n\n\r\n", b"\r\n\r\n\r\n", b"\r\r\r\n")
"""An event's end, in each of the three line endings there are, and the chunk's end."""
EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Malformed(Exception):
    """The engine's answer is not HTTP, or not within bounds."""


class Flow(Protocol):
    """An answer's body on its way."""

    ended: bool
    """All of it has been fed."""
    surplus: bool
    """More came than the answer's end; the connection is good for nothing any more."""
    spans: bool
    """What was given back last holds an event that is spread over several chunks."""
    chunked: bool
    """What is given back is in chunks."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the engine; give back what may be passed on, possibly nothing."""

    def at_eof(self) -> bytes | None:
        """The connection was closed. What is left, when that is how this answer ends; else None."""


def read_size(line: bytes) -> int:
    """A chunk's size line as a number."""
    match = SIZE.fullmatch(line)
    if match is None:
        message = "a chunk's size is malformed"
        raise Malformed(message)
    size = int(match[1], 16)
    if len(_sizes) < SIZES_MAX and len(line) <= 8:
        _sizes[line] = size
    return size


def dechunk(raw: bytes) -> bytes:
    """The payload of whole chunks."""
    parts = []
    position = 0
    while position < len(raw):
        end = raw.index(b"\r\n", position)
        size = read_size(raw[position:end])
        parts.append(raw[end + 2 : end + 2 + size])
        position = end + 4 + size
    return b"".join(parts)


def chunk(payload: bytes) -> bytes:
    """The payload as one chunk; no payload is no chunk."""
    return b"%x\r\n%b\r\n" % (len(payload), payload) if payload else b""


def last_event_end(plain: bytes) -> int:
    """Up to where these bytes are whole events."""
    return max(plain.rfind(end) + len(end) if end in plain else 0 for end in EVENT_ENDS)


class ChunkFlow:
    """A body that comes in chunks."""

    __slots__ = ("_events", "_held", "_loose", "_scanned", "ended", "spans", "surplus")

    chunked = True

    def __init__(self, *, events: bool) -> None:
        self._events = events
        self._held = b""
        self._scanned = 0
        """Of the held bytes, those that are whole chunks."""
        self._loose = False
        """A chunk among the held ones ended inside an event."""
        self.ended = False
        self.surplus = False
        self.spans = False

    def feed(self, data: bytes) -> bytes:
        position = 0
        if not self._held:
            # Nearly always a read brings one chunk of whole events; this is all that is asked then.
            end = data.find(b"\r\n", 0, SIZE_MAX)
            usual = _sizes.get(data[:end], 0)
            if usual >= 4 and end + 4 + usual == len(data) and data.endswith(CHUNK_ENDS):
                self.spans = False
                return data
        else:
            data = self._held + data
            position = self._scanned
        self.spans = False
        return self._read_chunks(data, position)

    def at_eof(self) -> bytes | None:
        return None

    def _read_chunks(self, data: bytes, position: int) -> bytes:
        """Chunk by chunk from a position up to which they are known to be whole."""
        good = 0
        length = len(data)
        while position < length:
            end = data.find(b"\r\n", position, position + SIZE_LINE_MAX)
            if end < 0:
                self._check_partial(length - position, SIZE_LINE_MAX)
                break
            line = data[position:end]
            size = _sizes.get(line)
            if size is None:
                size = read_size(line)
            if size == 0:
                if self._last(data, end):
                    good = position
                break
            after = end + 4 + size
            if after > length:
                break
            if not data.startswith(b"\r\n", after - 2):
                message = "a chunk is longer than its size says"
                raise Malformed(message)
            position = after
            if not self._events or self._event_ends(data, good, position, size):
                good = position
                self.spans = self.spans or self._loose
                self._loose = False
            else:
                self._loose = True
        return self._split(data, good, position)

    def _event_ends(self, data: bytes, good: int, position: int, size: int) -> bool:
        if size >= 4:
            return data.endswith(CHUNK_ENDS, 0, position)
        # So short that the line ends of the framing would be taken for the payload's.
        return dechunk(data[good:position]).endswith(EVENT_ENDS)

    def _last(self, data: bytes, end: int) -> bool:
        """The last chunk, with or without trailers, which are dropped. True when it is all there."""
        blank = data.find(b"\r\n\r\n", end)
        if blank < 0:
            self._check_partial(len(data) - end, TRAILER_MAX)
            return False
        self.ended = True
        self.surplus = blank + 4 < len(data)
        self.spans = self.spans or self._loose
        return True

    def _split(self, data: bytes, good: int, position: int) -> bytes:
        if good == len(data):
            self._held = b""
            return data
        if self.ended:
            self._held = b""
            return data[:good]
        self._held = data[good:]
        self._check_partial(len(self._held), HELD_MAX)
        self._scanned = position - good
        return data[:good]

    def _check_partial(self, there: int, limit: int) -> None:
        if there >= limit:
            message = "an event or chunk does not come to its end"
            raise Malformed(message)
