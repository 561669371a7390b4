"""Clients that look closely at how each answer ends.

Each request has a connection of its own, so that a client can leave in any phase and in any manner, and
so that what was not sent cannot be hidden by a library.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

END_OF_CHUNKS = b"0\r\n\r\n"
DONE = b"data: [DONE]"
ERROR_EVENT = b'data: {"error":'
USAGE = re.compile(rb'"completion_tokens": ?(\d+)')
FINISHED = re.compile(rb'"finish_reason": ?"(\w+)"')
GOOD_ENDS = (b"stop", b"length")


class How(Enum):
    """How a request ended, as its client saw it."""

    COMPLETE = "complete"
    ERROR_EVENT = "error event"
    """It had begun, and was ended by an event that says what went wrong, and by no ``[DONE]``."""
    STATUS = "error status"
    FALSE_SUCCESS = "false success"
    """It says that all is well, and tokens are missing."""
    CUT = "cut"
    """It just ended."""
    REFUSED = "refused"
    HUNG = "hung"
    LEFT = "left"
    """By the client."""


@dataclass(frozen=True, slots=True)
class Ending:
    """One request's."""

    how: How
    status: int | None
    raw: bytes
    first_byte_s: float | None
    took_s: float

    def __str__(self) -> str:
        return f"{self.how.value} {self.status or ''} {self.raw[-300:]!r}"


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for so many tokens."""

    model: str
    tokens: int = 32
    stream: bool = True
    prompt: str = "The tide comes in."
    request_id: str | None = None

    def bytes_for(self, host: str) -> bytes:
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": self.prompt,
            "max_tokens": self.tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": self.stream,
        }
        if self.stream:
            body["stream_options"] = {"include_usage": True}
        written = json.dumps(body).encode()
        lines = [
            "POST /v1/completions HTTP/1.1",
            f"host: {host}",
            "content-type: application/json",
            f"content-length: {len(written)}",
            "connection: close",
        ]
        if self.request_id is not None:
            lines.append(f"x-request-id: {self.request_id}")
        return "\r\n".join((*lines, "", "")).encode() + written


class Client:
    """One request on one connection."""

    def __init__(self, url: str, ask: Ask) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port
        self._ask = ask
        self._raw = b""
        self._began_s = 0.0
        self._first_byte_s: float | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def run(self, within_s: float = 120.0) -> Ending:
        """Ask, and read to the end."""
        self._began_s = time.monotonic()
        try:
            async with asyncio.timeout(within_s):
                await self.send()
                while await self.read():
                    pass
        except TimeoutError:
            return self._ending(How.HUNG)
        except OSError:
            return self._ending(How.CUT if self._raw else How.REFUSED)
        finally:
            self.leave()
        return self._ending(how_it_ended(self._raw, self._ask))

    async def send(self) -> None:
        """Connect and send the request."""
        self._began_s = time.monotonic()
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._writer.write(self._ask.bytes_for(f"{self._host}:{self._port}"))
        await self._writer.drain()

    async def read(self) -> bytes:
        """The next bytes of the answer; empty at its end."""
        piece = await self._reader.read(65_536)
        if piece and self._first_byte_s is None:
            self._first_byte_s = time.monotonic() - self._began_s
        self._raw += piece
        return piece

    def leave(self, *, with_reset: bool = False) -> None:
        """Close the connection, whatever is under way."""
        if self._writer is None:
            return
        if with_reset:
            raw: socket.socket = self._writer.get_extra_info("socket")
            # A failed socket has no options any more; it is closed all the same.
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        self._writer = None

    def _ending(self, how: How) -> Ending:
        took_s = time.monotonic() - self._began_s
        return Ending(how, _status(self._raw), self._raw, self._first_byte_s, took_s)


def how_it_ended(raw: bytes, ask: Ask) -> How:
    """What a whole answer, as it came over the wire, tells its client."""
    head, _, body = raw.partition(b"\r\n\r\n")
    if not head:
        return How.CUT
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    is_whole = len(body) == int(length[1]) if length else body.endswith(END_OF_CHUNKS)
    if not is_whole:
        return How.CUT
    if _status(raw) != 200:
        return How.STATUS if b'"error"' in body else How.CUT
    if ERROR_EVENT in body:
        return How.FALSE_SUCCESS if DONE in body else How.ERROR_EVENT
    if ask.stream and DONE not in body:
        return How.CUT
    ends, usages = FINISHED.findall(body), USAGE.findall(body)
    if not ends or ends[-1] not in GOOD_ENDS or not usages or int(usages[-1]) != ask.tokens:
        return How.FALSE_SUCCESS
    return How.COMPLETE


def _status(raw: bytes) -> int | None:
    found = re.match(rb"HTTP/1\.[01] (\d{3})", raw)
    return int(found[1]) if found else None


async def ask(url: str, wanted: Ask, within_s: float = 120.0) -> Ending:
    """Ask once and read to the end."""
    return await Client(url, wanted).run(within_s)


class Crowd:
    """Clients that ask again as soon as they were answered, until they are told to stop."""

    def __init__(self, url: Callable[[], str], asks: list[Ask]) -> None:
        """``url`` is asked before each request: a product that was killed comes back elsewhere."""
        self.endings: list[Ending] = []
        self._url = url
        self._stop = asyncio.Event()
        self._tasks = [asyncio.create_task(self._go_on(wanted)) for wanted in asks]

    def count(self, *hows: How) -> int:
        """How many have ended so."""
        return sum(ending.how in hows for ending in self.endings)

    async def stop(self) -> list[Ending]:
        """Let everybody finish; all endings."""
        self._stop.set()
        await asyncio.gather(*self._tasks)
        return self.endings

    async def _go_on(self, wanted: Ask) -> None:
        while not self._stop.is_set():
            ending = await ask(self._url(), wanted)
            self.endings.append(ending)
            if ending.how in (How.REFUSED, How.STATUS):
                await asyncio.sleep(0.02)


def counted(endings: list[Ending]) -> Counter[How]:
    """How often each."""
    return Counter(ending.how for ending in endings)


async def all_of(work: list[Awaitable[Ending]]) -> list[Ending]:
    """All endings, in order."""
    return list(await asyncio.gather(*work))
