"""Clients that behave badly, over real sockets: what each sends, when it leaves, and what it has read by then."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from enum import Enum
from random import Random

TOKENS_MEAN = 6.0
RESET = struct.pack("ii", 1, 0)


class Saw(Enum):
    """How a request ended for whoever sent it."""

    WHOLE = "answered"
    REFUSED = "refused"
    """A status that says so, or an error event."""
    BROKEN = "broken off"
    """Less than was announced."""
    LEFT = "left"
    """It did not wait for the end."""


class Visitor:
    """One client. Its requests follow each other on one connection, as long as that lasts."""

    def __init__(self, port: int, dice: Random, keys: list[str]) -> None:
        self._port = port
        self._dice = dice
        self._keys = keys
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, name: str) -> Saw:
        """Send a request by this name, whole, and see what comes of it."""
        roll = self._dice.random()
        patience_s = None
        if roll < 0.15:
            patience_s = self._dice.expovariate(1 / 0.03)
        was_open = self._writer is not None
        try:
            await self._send(name)
            async with asyncio.timeout(patience_s):
                return await self._read(leaves=0.15 <= roll < 0.25)
        except TimeoutError:
            self.cut(resets=self._dice.random() < 0.5)
            return Saw.LEFT
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            self.cut()
            if was_open and isinstance(error, asyncio.IncompleteReadError) and not error.partial:
                return await self.ask(
                    name
                )  # It was closed before it was asked, which no client can rule out.
            return Saw.BROKEN

    async def half(self) -> None:
        """Begin a request, and go away before its body is whole: nobody is to hear of it."""
        await self._connect()
        assert self._writer is not None
        self._writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n"
        )
        self._writer.write(b"authorization: Bearer %b\r\n" % self._keys[0].encode())
        self._writer.write(b'content-type: application/json\r\n\r\n{"model"')
        await asyncio.sleep(self._dice.random() * 0.02)
        self.cut(resets=self._dice.random() < 0.5)

    def cut(self, *, resets: bool = False) -> None:
        """Go away, with a reset or without a word."""
        if self._writer is None:
            return
        if resets:
            sock = self._writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._writer.transport.abort()
        self._writer = None

    async def _connect(self) -> None:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def _send(self, name: str) -> None:
        dice = self._dice
        words = "tide " * (1 + int(dice.expovariate(1 / dice.choice((20, 20, 20, 1_000)))))
        body = {
            "model": "m",
            "stream": dice.random() < 0.6,
            "max_tokens": 1 + int(dice.expovariate(1 / TOKENS_MEAN)),
            "messages": [{"role": "user", "content": f"{dice.randrange(50)} {words}"}],
        }
        data = json.dumps(body).encode()
        lines = [
            "POST /v1/chat/completions HTTP/1.1",
            "host: localhost",
            "content-type: application/json",
            f"authorization: Bearer {dice.choice(self._keys)}",
            f"x-request-id: {name}",
            f"content-length: {len(data)}",
        ]
        if dice.random() < 0.1:
            lines.append(f"x-request-timeout-s: {dice.choice((0.02, 0.1, 0.5))}")
        if dice.random() < 0.05:
            lines.append("x-queue-heartbeat: 0.5")
        await self._connect()
        assert self._writer is not None
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    async def _read(self, *, leaves: bool) -> Saw:
        """The answer. Whoever ``leaves`` does so after the first event of a stream."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, low = int(head[9:12]), head.lower()
        if b"\r\ntransfer-encoding: chunked" in low:
            body = await self._chunks(leaves=leaves)
            if body is None:
                self.cut(resets=True)
                return Saw.LEFT
        else:
            length = int(low.partition(b"content-length: ")[2].partition(b"\r")[0])
            body = await self._reader.readexactly(length)
        if b"connection: close" in low or b'data: {"error"' in body:
            self.cut()
        if status >= 400 or b'data: {"error"' in body:
            return Saw.REFUSED
        return Saw.WHOLE if body.endswith((b"}", b"data: [DONE]\n\n")) else Saw.BROKEN

    async def _chunks(self, *, leaves: bool) -> bytes | None:
        body = b""
        while True:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            body += (await self._reader.readexactly(size + 2))[:-2]
            if not size:
                return body
            if leaves:
                return None
