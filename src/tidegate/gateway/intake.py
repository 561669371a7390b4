"""The body of a request, from as many reads as it takes.

A chunked body is read by a grammar as strict as the gate's: a size in plain hexadecimal, no
extension, no trailer, CR LF everywhere.
"""

from __future__ import annotations

import re
from typing import Protocol

from tidegate.gateway.errors import malformed, too_large, too_many_bodies

SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
SIZE_LINE_MAX = 10
CHUNKS_MAX = 20_000
"""In one body. A body of single bytes in chunks of their own costs a microsecond a byte to read; a
client that streams 10 MB in pieces of 1 KB needs half of this."""


class Budget:
    """Bytes of bodies that are being received, over all connections.

    A body that comes in one read is never counted: it is handed over at once, and the bounds of its
    model's queue hold from there on.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def take(self, count: int) -> bool:
        """Count bytes that have come; False when they are more than there is room for."""
        self.used += count
        return self.used <= self.limit

    def give_back(self, count: int) -> None:
        """Bytes that were taken are held no longer."""
        self.used -= count


class Body(Protocol):
    """A body that is being read."""

    received: int
    """Bytes of it that have come."""
    done: bool

    def feed(self, data: bytes) -> bytes:
        """Take what belongs to the body; give back what follows it."""

    def whole(self) -> bytes:
        """All of it, once ``done``."""


class CountedBody:
    """A body that takes its bytes from the budget of all until it is whole or dropped."""

    __slots__ = ("_body", "_budget", "_counted")

    def __init__(self, body: Body, budget: Budget) -> None:
        self._body = body
        self._budget = budget
        self._counted = 0

    @property
    def received(self) -> int:
        return self._body.received

    @property
    def done(self) -> bool:
        return self._body.done

    def feed(self, data: bytes) -> bytes:
        rest = self._body.feed(data)
        if not self._body.done:
            grown = self._body.received - self._counted
            self._counted = self._body.received
            if not self._budget.take(grown):
                raise too_many_bodies()
        return rest

    def whole(self) -> bytes:
        return self._body.whole()

    def drop(self) -> None:
        """It is received no longer, whatever became of it."""
        self._budget.give_back(self._counted)
        self._counted = 0


class SizedBody:
    """A body whose length was announced."""

    __slots__ = ("_parts", "done", "length", "received")

    def __init__(self, length: int) -> None:
        self.length = length
        self.received = 0
        self.done = length == 0
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        missing = self.length - self.received
        if len(data) < missing:
            self._parts.append(data)
            self.received += len(data)
            return b""
        self._parts.append(data[:missing])
        self.received = self.length
        self.done = True
        return data[missing:]

    def whole(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class ChunkedBody:
    """A body in chunks, bounded in bytes and in chunks."""

    __slots__ = ("_announced", "_chunks", "_parts", "_pending", "_wanted", "done", "limit", "received")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.received = 0
        self._announced = 0
        """Of the chunks so far; a chunk may be announced long before it comes."""
        self.done = False
        self._parts: list[bytes] = []
        self._pending = b""
        self._wanted = 0
        """Bytes of the current chunk, with its CR LF, that have not come yet; 0 between two chunks."""
        self._chunks = 0

    def feed(self, data: bytes) -> bytes:
        if self._pending:
            data = self._pending + data
            self._pending = b""
        position = 0
        while position < len(data) and not self.done:
            after = self._data(data, position) if self._wanted else self._size(data, position)
            if after is None:
                self._pending = data[position:]
                return b""
            position = after
        return data[position:]

    def whole(self) -> bytes:
        return b"".join(self._parts)

    def _size(self, data: bytes, position: int) -> int | None:
        """Read a size line; None when more bytes are needed."""
        end = data.find(b"\r\n", position, position + SIZE_LINE_MAX)
        if end < 0:
            if len(data) - position >= SIZE_LINE_MAX or not _may_begin_size(data[position:]):
                raise malformed("the size of a chunk is malformed")
            return None
        if not SIZE.fullmatch(data, position, end):
            raise malformed("the size of a chunk is malformed")
        size = int(data[position:end], 16)
        if size == 0:
            return self._end(data, position, end + 2)
        self._chunks += 1
        self._announced += size
        if self._announced > self.limit:
            raise too_large(self.limit)
        if self._chunks > CHUNKS_MAX:
            raise malformed(f"the request body has more than {CHUNKS_MAX} chunks")
        self._wanted = size + 2
        return end + 2

    def _end(self, data: bytes, position: int, after: int) -> int | None:
        """The blank line after the last chunk; anything else there would be a trailer."""
        blank = data[after : after + 2]
        if blank == b"\r\n":
            self.done = True
            return after + 2
        if blank in (b"", b"\r"):
            return None
        raise malformed("trailers are not accepted")

    def _data(self, data: bytes, position: int) -> int | None:
        """Take as much of the current chunk as there is."""
        there = len(data) - position
        if there >= self._wanted:
            end = position + self._wanted - 2
            if self._wanted > 2:
                self._parts.append(data[position:end])
                self.received += end - position
            if data[end : end + 2] != b"\r\n":
                raise malformed("a chunk is longer than its size says")
            self._wanted = 0
            return end + 2
        if self._wanted - there < 2 or there == 0:
            # Only the line end is incomplete. The data before it is kept with it, so that a line
            # end split over two reads is seen whole.
            return None
        self._parts.append(data[position:])
        self.received += there
        self._wanted -= there
        return len(data)


def _may_begin_size(rest: bytes) -> bool:
    digits = rest[:-1] if rest.endswith(b"\r") else rest
    return not digits or SIZE.fullmatch(digits) is not None
