"""Clients that leave, read slowly or send slowly: nobody works for them, and no counter keeps them."""

import asyncio
import contextlib
import random

import pytest

from integration.gateway_world import (
    DONE,
    STREAM_HEAD,
    Engine,
    chat,
    chunk,
    event,
    post,
    wait_until,
    whole_stream,
    world,
)
from tidegate.config.settings import GatewaySettings

BIG = b"data: " + b"x" * 60_000 + b"\n\n"


async def hang(asked):
    await asyncio.Event().wait()


async def hang_after_one(asked):
    await asked.send(STREAM_HEAD + chunk(event("one")))
    await asyncio.Event().wait()


def leave_at_once(client):
    client.cut()


def leave_politely(client):
    client.writer.close()


def half_close(client):
    client.writer.write_eof()


LEAVING = [leave_at_once, leave_politely, half_close]


@pytest.mark.parametrize("leave", LEAVING)
async def test_leaving_while_no_replica_runs(leave):
    async with world() as w:
        w.publish(engines=[])
        client = await w.connect()
        await client.send(post(chat()))
        await wait_until(lambda: w.owner.open_requests == 1)
        leave(client)
        await wait_until(lambda: w.outcomes() == ["client_gone"])
        assert w.at_rest()


@pytest.mark.parametrize("leave", LEAVING)
async def test_leaving_the_queue(leave):
    engine = Engine(hang)
    async with world(engine, slots=1) as w:
        first, second = await w.connect(), await w.connect()
        await first.send(post(chat()))
        await wait_until(lambda: engine.asked)
        await second.send(post(chat()))
        await wait_until(lambda: w.owner.open_requests == 2)
        leave(second)
        await wait_until(lambda: w.outcomes() == ["client_gone"])
        assert len(engine.asked) == 1
        assert not engine.asked[0].gone.is_set()


@pytest.mark.parametrize("leave", LEAVING)
@pytest.mark.parametrize("script", [hang, hang_after_one])
async def test_leaving_before_the_first_byte_and_in_the_stream(leave, script):
    engine = Engine(script)
    async with world(engine) as w:
        client = await w.connect()
        await client.send(post(chat(stream=True)))
        await wait_until(lambda: engine.asked)
        if script is hang_after_one:
            await client.reader.readuntil(b"\n\n\r\n")
        leave(client)
        await asyncio.wait_for(engine.asked[0].gone.wait(), 1)
        await wait_until(lambda: w.outcomes() == ["client_gone"])
        assert w.at_rest()
        await wait_until(lambda: w.gateway.open_connections == w.gateway.upstream_connections == 0)


async def test_leaving_while_the_connection_to_the_engine_is_made():
    async with world() as w:
        client = await w.connect()
        await client.send(post(chat()))
        client.cut()
        await wait_until(lambda: w.records or w.gateway.open_connections == 0)
        await wait_until(w.at_rest)


async def test_leaving_with_further_requests_in_the_pipe():
    engine = Engine(hang)
    async with world(engine) as w:
        client = await w.connect()
        await client.send(post(chat()) * 3)
        await wait_until(lambda: engine.asked)
        client.cut()
        await asyncio.wait_for(engine.asked[0].gone.wait(), 1)
        await wait_until(lambda: w.outcomes() == ["client_gone"])
        assert len(engine.asked) == 1


async def test_what_is_sent_far_ahead_is_dropped_and_leaving_is_still_seen():
    engine = Engine(hang)
    async with world(engine) as w:
        client = await w.connect()
        await client.send(post(chat()) + b"x" * 300_000)
        await wait_until(lambda: engine.asked)
        client.cut()
        await asyncio.wait_for(engine.asked[0].gone.wait(), 1)
        await wait_until(w.at_rest)


async def test_leaving_after_the_end_mark_is_no_departure():
    async def script(asked):
        await asked.send(whole_stream("a").removesuffix(b"0\r\n\r\n"))
        await asyncio.Event().wait()

    engine = Engine(script)
    async with world(engine) as w:
        client = await w.connect()
        await client.send(post(chat(stream=True)))
        await client.reader.readuntil(DONE)
        client.cut()
        await wait_until(lambda: w.outcomes() == ["completed"])
        assert engine.asked[0].gone.is_set() or await engine.asked[0].gone.wait()


async def test_hundreds_of_clients_leaving_at_any_moment_leave_nothing_behind():
    at_work = 0

    async def script(asked):
        nonlocal at_work
        at_work += 1
        try:
            await answer(asked)
        finally:
            at_work -= 1

    async def answer(asked):
        await asyncio.sleep(dice.random() * 0.01)
        await asked.send(STREAM_HEAD)
        for _ in range(dice.randrange(4)):
            await asked.send(chunk(event("x")))
            await asyncio.sleep(dice.random() * 0.01)
        if dice.randrange(4) == 0:
            await asyncio.Event().wait()  # Only its client's departure ends this one.
        await asked.send(chunk(DONE) + b"0\r\n\r\n")

    async def come_and_go():
        client = await w.connect()
        await client.send(post(chat(stream=True)))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(client.read(), dice.random() * 0.05)
        dice.choice(LEAVING)(client)

    dice = random.Random(5)
    engines = [Engine(script), Engine(script)]
    async with world(*engines, slots=10) as w:
        for _ in range(10):
            await asyncio.gather(*(come_and_go() for _ in range(40)))
        await wait_until(lambda: len(w.records) == 400, say=lambda: str(len(w.records)))
        assert w.at_rest()
        assert set(w.outcomes()) <= {"completed", "client_gone"}
        await wait_until(lambda: w.gateway.open_connections == 0)
        assert any(asked.gone.is_set() for engine in engines for asked in engine.asked)
        await wait_until(lambda: at_work == 0)
        # What is still open rests, and would serve the next request.
        await wait_until(lambda: sum(engine.open for engine in engines) == w.gateway._porter.pool.resting)


# ---- slow readers ----


async def test_a_slow_reader_holds_back_its_engine_and_is_cut():
    sent = 0

    async def script(asked):
        nonlocal sent
        await asked.send(STREAM_HEAD)
        while True:
            await asked.send(chunk(BIG))
            sent += len(BIG)

    engine = Engine(script)
    settings = GatewaySettings(
        slow_reader_bytes=64 * 1024, slow_reader_timeout_s=0.3, stream_idle_timeout_s=0.1
    )
    async with world(engine, settings=settings) as w:
        client = await w.connect()
        await client.send(post(chat(stream=True)))
        await wait_until(lambda: w.outcomes() == ["client_gone"])
        assert w.meters.refusals("slow_reader") == 1
        # One request, one ending: why the client was cut off is told beside it.
        assert {name: count for name, count in w.meters.outcomes().items() if count} == {"client_gone": 1}
        # Bounded by our buffer and the kernel's on both hops (6 MB each at most), not by the engine's will.
        assert sent < 30_000_000
        await wait_until(lambda: engine.open == 0)


async def test_a_reader_that_never_fetches_the_end_of_a_whole_answer_is_cut_and_its_request_counted_once():
    async def script(asked):
        head = b"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: 30000000\r\n\r\n"
        await asked.send(head + b"x" * 30_000_000)

    settings = GatewaySettings(slow_reader_bytes=64 * 1024 * 1024, slow_reader_timeout_s=0.2)
    async with world(Engine(script), settings=settings) as w:
        client = await w.connect()
        await client.send(post(b'{"model":"m","input":"x"}', "/v1/audio/speech"))
        await wait_until(lambda: w.outcomes() == ["completed"])
        next(iter(w.gateway._desk.clients)).pause_writing()  # As at a lower bound.
        await wait_until(lambda: w.gateway.open_connections == 0)
        assert w.meters.refusals("slow_reader") == 1
        assert {name: count for name, count in w.meters.outcomes().items() if count} == {"completed": 1}


async def test_who_sends_on_without_reading_is_cut_off_and_counted_as_a_reader():
    settings = GatewaySettings(slow_reader_bytes=1024, slow_reader_timeout_s=50)
    async with world(settings=settings) as w:
        client = await w.connect()
        with contextlib.suppress(ConnectionError):
            while True:
                await client.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1000)
        await wait_until(lambda: w.gateway.open_connections == 0)
        assert w.meters.refusals("slow_reader") == 1
        assert not any(w.meters.outcomes().values())


async def test_a_reader_that_catches_up_gets_everything():
    async def script(asked):
        await asked.send(STREAM_HEAD + chunk(BIG) * 200 + chunk(DONE) + b"0\r\n\r\n")

    settings = GatewaySettings(slow_reader_bytes=64 * 1024, slow_reader_timeout_s=20)
    async with world(Engine(script), settings=settings) as w:
        client = await w.connect()
        await client.send(post(chat(stream=True)))
        await wait_until(lambda: next(iter(w.gateway._desk.clients))._paused_since_s is not None)
        answer = await client.read()
        assert answer.body == BIG * 200 + DONE
        await client.send(post(chat()))
        assert (await client.read()).status == 200


# ---- slow senders ----


async def closed_with(client):
    answer = await client.read()
    assert await client.at_end()
    return answer.status


async def test_a_head_that_drips_is_cut_off_at_an_absolute_time():
    async with world(settings=GatewaySettings(header_timeout_s=0.3)) as w:
        client = await w.connect()

        async def drip():
            for byte in post(chat()):
                client.writer.write(bytes((byte,)))
                await asyncio.sleep(0.03)

        dripping = asyncio.ensure_future(drip())
        assert await closed_with(client) == 408
        dripping.cancel()
        assert w.meters.refusals("slow_head") == 1


async def test_a_connection_that_says_nothing_is_closed():
    async with world(settings=GatewaySettings(header_timeout_s=0.2)) as w:
        client = await w.connect()
        assert await client.at_end()


async def test_an_idle_connection_is_closed_after_its_time():
    async with world(settings=GatewaySettings(keepalive_s=0.2)) as w:
        client = await w.connect()
        await client.send(post(chat()))
        await client.read()
        assert await client.at_end()


async def test_a_body_that_drips_is_cut_off(monkeypatch):
    monkeypatch.setattr("tidegate.gateway.client.BODY_GRACE_S", 0.1)
    async with world(settings=GatewaySettings(min_body_bytes_per_s=100_000)) as w:
        client = await w.connect()
        await client.send(post(b"x" * 1000)[:-500])
        assert await closed_with(client) == 408
        assert w.meters.refusals("slow_body") == 1


async def test_bodies_that_are_together_too_large_are_told_to_come_back():
    settings = GatewaySettings(max_body_bytes=100_000, max_bodies_bytes=150_000)
    body = chat(filler="x" * 90_000)
    request = post(body)
    async with world(settings=settings) as w:
        senders = [await w.connect() for _ in range(2)]
        await senders[0].send(request[:-10])
        await wait_until(lambda: w.gateway._desk.bodies.used > 80_000)
        await senders[1].send(request[:-10])
        answer = await senders[1].read()
        assert (answer.status, answer.error["code"]) == (503, "too_many_bodies")
        assert answer.error["type"] == "service_unavailable_error"
        assert answer.fields["retry-after"] == "1"
        assert "x-should-retry" not in answer.fields
        assert await senders[1].at_end()
        assert w.meters.refusals("too_many_bodies") == 1
        # The other one is not touched, and makes room when it is whole.
        await senders[0].send(request[-10:])
        assert (await senders[0].read()).status == 200
        assert w.gateway._desk.bodies.used == 0
        assert (await w.ask(request)).status == 200


async def test_a_chunk_that_is_announced_and_drips_is_a_slow_body(monkeypatch):
    monkeypatch.setattr("tidegate.gateway.client.BODY_GRACE_S", 0.1)
    async with world(settings=GatewaySettings(min_body_bytes_per_s=100_000)) as w:
        client = await w.connect()
        head = post(b"", fields=["transfer-encoding: chunked"], length=False)
        await client.send(head + b"100000\r\nx")
        assert await closed_with(client) == 408


async def test_connections_beyond_the_bound_are_told_and_closed():
    async with world(settings=GatewaySettings(max_connections=2)) as w:
        kept = [await w.connect(), await w.connect()]
        await wait_until(lambda: w.gateway.open_connections == 2)
        third = await w.connect()
        answer = await third.read()
        assert (answer.status, answer.error["code"]) == (503, "too_many_connections")
        assert answer.fields["retry-after"] == "1"
        assert await third.at_end()
        await kept[0].send(post(chat()))
        assert (await kept[0].read()).status == 200
