"""Bodies of engines that do not come in chunks: of a known length, or to the connection's end."""

from __future__ import annotations

from tidegate.gateway.framing import HELD_MAX, Malformed, chunk, last_event_end


class RechunkFlow:
    """A body that ends with its length or with the connection, passed on in chunks of ours.

    Only so can an error follow what has been passed on already.
    """

    __slots__ = ("_events", "_held", "_left", "ended", "spans", "surplus")

    chunked = True

    def __init__(self, *, events: bool, length: int | None = None) -> None:
        self._events = events
        self._left = length
        self._held = b""
        self.ended = length == 0
        self.surplus = False
        self.spans = False

    def feed(self, data: bytes) -> bytes:
        if self._left is not None:
            self.surplus = len(data) > self._left
            data = data[: self._left]
            self._left -= len(data)
            self.ended = self._left == 0
        if self.ended or not self._events:
            data, self._held = self._held + data, b""
            return chunk(data)
        data = self._held + data
        good = last_event_end(data)
        self._held = data[good:]
        if len(self._held) > HELD_MAX:
            message = "an event does not come to its end"
            raise Malformed(message)
        return chunk(data[:good])

    def at_eof(self) -> bytes | None:
        if self._left is not None:
            return None
        self.ended = True
        data, self._held = self._held, b""
        return chunk(data)


class OpenFlow:
    """A body that nothing but the connection's end ends, passed on as it comes."""

    __slots__ = ("ended",)

    chunked = False
    spans = False
    surplus = False

    def __init__(self) -> None:
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        return data

    def at_eof(self) -> bytes | None:
        self.ended = True
        return b""


class LengthFlow:
    """A body of a known length, passed on as it comes."""

    __slots__ = ("_left", "ended", "surplus")

    chunked = False
    spans = False

    def __init__(self, length: int) -> None:
        self._left = length
        self.ended = length == 0
        self.surplus = False

    def feed(self, data: bytes) -> bytes:
        left = self._left - len(data)
        if left > 0:
            self._left = left
            return data
        self.ended = True
        if left < 0:
            self.surplus = True
            data = data[:left]
        self._left = 0
        return data

    def at_eof(self) -> bytes | None:
        return None
