"""A subscriber to a ZeroMQ publisher, and nothing else of ZeroMQ: ZMTP 3.0 with the NULL mechanism [rfc.zeromq.org/spec/23].

What engines publish their KV events with. Tried against libzmq 4.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

GREETING = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" * 32
SIGNATURE = (GREETING[:1], GREETING[9:10])
READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
PING, PONG = b"\x04PING", b"\x04PONG"
MORE, LONG, COMMAND = 1, 2, 4
FRAME_MOST = 64 * 1024 * 1024
PARTS_MOST = 64
HANDSHAKE_S = 10.0


class NotZmtp(Exception):
    """What came is no publisher's."""


async def subscribed(host: str, port: int, topic: bytes = b"") -> AsyncIterator[list[bytes]]:
    """Messages whose first part begins with the topic, as they come, until the publisher closes.

    Raises:
        OSError: it cannot be reached, or is gone.
        NotZmtp: it does not speak this protocol.
        TimeoutError: it did not answer the greeting.
    """
    async with asyncio.timeout(HANDSHAKE_S):
        reader, writer = await asyncio.open_connection(host, port)
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            await _shake_hands(reader, writer, topic)
        parts: list[bytes] = []
        while True:
            flags, body = await _frame(reader)
            if flags & COMMAND:
                if body.startswith(PING):
                    writer.write(_framed(COMMAND, PONG + body[len(PING) + 2 :]))
                continue
            parts.append(body)
            if len(parts) > PARTS_MOST:
                raise NotZmtp("a message has too many parts")
            if not flags & MORE:
                yield parts
                parts = []
    except asyncio.IncompleteReadError:
        return
    finally:
        writer.close()


async def _shake_hands(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, topic: bytes) -> None:
    writer.write(GREETING)
    greeting = await reader.readexactly(len(GREETING))
    if (greeting[:1], greeting[9:10]) != SIGNATURE or greeting[10] < 3:
        raise NotZmtp("the greeting is not that of ZMTP 3")
    if greeting[12:32].rstrip(b"\0") != b"NULL":
        raise NotZmtp("the publisher wants authentication, which engines' streams do not have")
    writer.write(_framed(COMMAND, READY))
    flags, body = await _frame(reader)
    if not flags & COMMAND or not body.startswith(b"\x05READY"):
        raise NotZmtp("the publisher is not ready")
    writer.write(_framed(0, b"\x01" + topic))
    await writer.drain()


def _framed(flags: int, body: bytes) -> bytes:
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | LONG,)) + len(body).to_bytes(8, "big") + body


async def _frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    flags = (await reader.readexactly(1))[0]
    size = int.from_bytes(await reader.readexactly(8 if flags & LONG else 1), "big")
    if size > FRAME_MOST:
        raise NotZmtp("a frame is too large")
    return flags, await reader.readexactly(size)
