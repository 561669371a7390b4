"""KV events over a socket: what libzmq sends is read, a publisher that goes is asked again, nothing else is believed."""

import asyncio
import contextlib

import pytest

from integration.libzmq_bytes import FROM_LIBZMQ
from tidegate.core.lifecycle import State
from tidegate.core.types import Address, ModelRoute, Route, RouteTable
from tidegate.runtime import cache_watch
from tidegate.runtime.cache_watch import CacheWatch
from tidegate.runtime.zmtp import GREETING, READY, NotZmtp, subscribed

GREETED = len(GREETING)
HANDSHAKE, EVENTS = FROM_LIBZMQ[: GREETED + 27], FROM_LIBZMQ[GREETED + 27 :]
"""The greeting with the READY command, and what came after the subscription."""


@contextlib.asynccontextmanager
async def publishing(sent, after=b"", heard=None):
    """A peer that greets, waits for the other's greeting, and then says what it has to say."""
    here = []

    async def serve(reader, writer):
        here.append(writer)
        writer.write(sent[:GREETED])
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readexactly(GREETED)
            writer.write(sent[GREETED:])
            asked = await reader.readexactly(2 + len(READY) + 3)
            if heard is not None:
                heard.append(asked)
            writer.write(after)
            await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], here
    finally:
        for writer in here:
            writer.close()
        server.close()


async def messages(port, count):
    found = []
    async for parts in subscribed("127.0.0.1", port):
        found.append(parts)
        if len(found) == count:
            break
    return found


async def test_what_libzmq_sends_is_read():
    heard = []
    async with publishing(HANDSHAKE, EVENTS, heard) as (port, _), asyncio.timeout(10):
        found = await messages(port, 6)

    assert [parts[0] for parts in found] == [b"kv-events"] * 6
    assert [int.from_bytes(parts[1], "big") for parts in found] == [0, 1, 2, 3, 4, 9]
    assert found[5][2] == b"x" * 300  # a long frame
    assert heard[0].endswith(b"\x00\x01\x01")  # it subscribed, to everything


async def test_a_ping_is_answered_and_is_no_message():
    # Heartbeats are of ZMTP 3.1; a publisher that sends one to a 3.0 peer is answered all the same.
    ping, message = b"\x04\x07\x04PING\x00\x0a", b"\x00\x02hi"
    async with publishing(HANDSHAKE, ping + message) as (port, _), asyncio.timeout(10):
        assert await messages(port, 1) == [[b"hi"]]


@pytest.mark.parametrize(
    "greeting",
    [
        b"HTTP/1.1 400 Bad Request\r\n".ljust(64, b" "),
        GREETING[:10] + b"\x01" + GREETING[11:],
        GREETING[:12] + b"CURVE".ljust(20, b"\0") + GREETING[32:],
    ],
    ids=["something else", "an old version", "authentication"],
)
async def test_what_is_no_publisher_is_refused(greeting):
    async with publishing(greeting) as (port, _), asyncio.timeout(10):
        with pytest.raises(NotZmtp):
            await messages(port, 1)


async def test_a_frame_of_senseless_size_is_refused():
    huge = b"\x02" + (2**40).to_bytes(8, "big")
    async with publishing(HANDSHAKE, huge) as (port, _), asyncio.timeout(10):
        with pytest.raises(NotZmtp, match="too large"):
            await messages(port, 1)


def table(version, *states):
    routes = tuple(
        Route(f"m-{n}", "m", state, Address("127.0.0.1", 1), 4, "vllm") for n, state in enumerate(states)
    )
    return RouteTable(version, (ModelRoute("m", can_serve=True),), routes)


async def test_a_replica_that_serves_is_listened_to_and_one_that_is_gone_is_not(monkeypatch):
    monkeypatch.setattr(cache_watch, "AGAIN_FIRST_S", 0.01)
    told = asyncio.Queue()
    async with publishing(HANDSHAKE, EVENTS) as (port, there), asyncio.timeout(20):
        watch = CacheWatch(lambda model: port if model == "m" else None, told.put_nowait, lambda: 50.0)
        watch.routes_are(table(1, State.STARTING))
        watch.routes_are(table(2, State.SERVING))
        watch.routes_are(table(3, State.SERVING))

        # Stored and removed, then all cleared; then the next version of the batches: stored and removed again.
        first = [await told.get() for _ in range(3)]
        assert [fact.replica_id for fact in first] == ["m-0"] * 3
        assert [fact.gone_before_s for fact in first] == [49.75, 50.0, 49.75]
        assert len(there) == 1

        there[0].close()  # it comes back, and its numbers begin anew: that is another engine
        assert (await told.get()).gone_before_s == 50.0
        assert len(there) == 2

        watch.routes_are(table(4, State.DRAINING))
        assert repr(watch) == "<CacheWatch replicas=[]>"
        await watch.close()


async def test_nobody_is_listened_to_where_there_is_no_port():
    watch = CacheWatch(lambda model: None, lambda fact: None, lambda: 0.0)
    watch.routes_are(table(1, State.SERVING))

    assert repr(watch) == "<CacheWatch replicas=[]>"
    await watch.close()
