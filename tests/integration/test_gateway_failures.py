"""What a client sees when an engine fails: another replica's answer, or a stated error, never a false success."""

import asyncio
import json
import socket
import struct

import pytest

from integration.gateway_world import (
    ANSWER,
    DONE,
    MODEL,
    STREAM_HEAD,
    Engine,
    chat,
    chunk,
    event,
    post,
    wait_until,
    whole_json,
    whole_stream,
    world,
)
from tidegate.adapters.base import Manners
from tidegate.config.settings import GatewaySettings
from tidegate.core.events import RequestArrived, UpstreamFailed
from tidegate.core.settings import DispatchConfig, QueueLimits, Routing
from tidegate.core.types import ModelId
from tidegate.gateway import Named

ABORTED = event("", "abort")
ABORTED_DOCUMENT = b'{"choices":[{"finish_reason":"abort"}]}'


def failures(w):
    return [turn[0].failure.name for turn in w.turns if type(turn[0]) is UpstreamFailed]


def broken_stream(answer):
    """The error of a stream that failed after it began: one event, no end mark, a proper end of the body."""
    events = [line for line in answer.body.split(b"\n\n") if line]
    assert b"[DONE]" not in answer.body
    assert answer.whole
    return json.loads(events[-1].removeprefix(b"data: "))["error"]


async def refuse_then_close(asked):
    asked.cut()


def saying(data):
    async def script(asked):
        await asked.send(data)

    return script


def saying_and_cutting(data):
    async def script(asked):
        await asked.send(data)
        asked.writer.close()
        await asked.writer.wait_closed()

    return script


@pytest.mark.parametrize(
    "bad, failure",
    [
        (refuse_then_close, "CUT"),
        (saying(whole_json({}, "503 Service Unavailable")), "BUSY"),
        (saying(whole_json({}, "429 Too Many Requests")), "BUSY"),
        (saying(whole_json({}, "500 Internal Server Error")), "ERROR"),
        (saying(whole_json({}, "599 Odd")), "ERROR"),
        (saying(whole_json({}, "302 Found")), "ERROR"),
        (saying(whole_json({}, "401 Unauthorized")), "ERROR"),
        (saying(b"SSH-2.0-OpenSSH\r\n\r\n"), "MALFORMED"),
        (saying(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"), "MALFORMED"),
        (saying(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n"), "MALFORMED"),
        (saying(STREAM_HEAD + b"zz\r\n"), "MALFORMED"),
        (saying(STREAM_HEAD + b"2\r\nabc\r\n"), "MALFORMED"),
        (saying(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), "MALFORMED"),
        (saying_and_cutting(b"HTTP/1.1 200 OK\r\ncontent-le"), "CUT"),
        (saying_and_cutting(STREAM_HEAD), "CUT"),
        (saying_and_cutting(STREAM_HEAD + chunk(event("a"))[:30]), "CUT"),
        (saying_and_cutting(whole_json()[:-5]), "CUT"),
        (saying(STREAM_HEAD + b"0\r\n\r\n"), "ABORTED"),
        (saying(STREAM_HEAD + chunk(ABORTED) + chunk(DONE) + b"0\r\n\r\n"), "ABORTED"),
        (saying(STREAM_HEAD + chunk(event("x")) + chunk(ABORTED)), "ABORTED"),
        (saying(STREAM_HEAD + chunk(b'data: {"error":{"message":"boom"}}\n\n')), "ABORTED"),
        (saying(whole_json(ABORTED_DOCUMENT)), "ABORTED"),
    ],
)
async def test_before_the_first_byte_another_replica_is_tried(bad, failure):
    bad_engine, good_engine = Engine(bad), Engine()
    async with world(bad_engine, good_engine) as w:
        answer = await w.ask(post(chat()))
        assert answer.status == 200
        assert answer.whole
        assert failures(w) == [failure]
        assert (len(bad_engine.asked), len(good_engine.asked)) == (1, 1)
        await wait_until(lambda: w.outcomes() == ["completed"])
        assert w.records[0].attempts == 2


SHUT_DOWN = whole_json(
    {"error": {"message": "cannot schedule new futures after shutdown"}}, "500 Internal Server Error"
)


@pytest.mark.parametrize("pieces", [1, 2, 7])
async def test_an_error_whose_words_say_that_nothing_was_taken_on_is_a_busy_engine(pieces):
    async def script(asked):
        size = -(-len(SHUT_DOWN) // pieces)
        for start in range(0, len(SHUT_DOWN), size):
            await asked.send(SHUT_DOWN[start : start + size])
            await asyncio.sleep(0.005)

    manners = Manners(busy_marks=(b"cannot schedule new futures after shutdown",))
    leaving, staying = Engine(script), Engine()
    async with world(leaving, staying, manners=manners) as w:
        assert (await w.ask(post(chat()))).status == 200
        assert failures(w) == ["BUSY"]


async def test_other_errors_of_such_an_engine_stay_errors():
    manners = Manners(busy_marks=(b"cannot schedule new futures after shutdown",))
    words = whole_json({"error": {"message": "out of memory"}}, "500 Internal Server Error")
    cut_short = saying_and_cutting(words[:-5])
    async with world(Engine(saying(words)), Engine(cut_short), Engine(), manners=manners) as w:
        assert (await w.ask(post(chat()))).status == 200
        assert failures(w) == ["ERROR", "ERROR"]


async def test_a_replica_that_does_not_listen_is_passed_over():
    engine = await Engine().start()
    dead = await Engine().start()
    await dead.stop()
    async with world(engine) as w:
        w.publish(engines=[dead, engine])
        assert (await w.ask(post(chat()))).status == 200
        assert failures(w) == ["REFUSED"]


async def test_when_no_retry_is_left_the_client_is_told():
    async with world(Engine(saying(whole_json({}, "500 Internal Server Error"))), max_retries=0) as w:
        answer = await w.ask(post(chat(), fields=["x-request-id: abc"]))
        assert (answer.status, answer.error["code"]) == (503, "engine_failed")
        assert answer.fields["retry-after"] == "1"
        assert answer.fields["x-request-id"] == "abc"


@pytest.mark.parametrize(
    "then",
    [
        b"",  # killed
        chunk(event("lost"))[:40],  # killed inside a chunk
        chunk(event("lost")[:20]),  # killed between two chunks of one event
        b"0\r\n\r\n",  # ended in good order, without the end mark
        chunk(ABORTED) + chunk(DONE) + b"0\r\n\r\n",
        chunk(ABORTED + DONE) + b"0\r\n\r\n",
        chunk(ABORTED[:30]) + chunk(ABORTED[30:] + DONE) + b"0\r\n\r\n",
        chunk(b'data: {"error":{"message":"out of memory","code":500}}\n\n') + chunk(DONE) + b"0\r\n\r\n",
        b"xyz\r\n",
    ],
)
async def test_after_the_first_byte_a_failure_is_one_error_event(then):
    sent = chunk(event("one")) + chunk(event("two"))

    async def script(asked):
        await asked.send(STREAM_HEAD + sent)
        await asyncio.wait_for(first.wait(), 5)
        await asked.send(then)
        asked.writer.close()
        await asked.writer.wait_closed()

    first = asyncio.Event()
    other = Engine()
    async with world(Engine(script), other) as w:
        client = await w.connect()
        await client.send(post(chat(stream=True)))
        await wait_until(lambda: any(type(t[0]).__name__ == "FirstByte" for t in w.turns))
        first.set()
        answer = await client.read()
        assert answer.body.startswith(event("one") + event("two") + b'data: {"error"')
        assert broken_stream(answer)["code"] == "engine_failed_midstream"
        assert await client.at_end()
        assert w.outcomes() == ["failed_midstream"]
        assert other.asked == []


async def test_events_before_the_abort_in_the_same_read_are_the_clients():
    async def script(asked):
        await asked.send(STREAM_HEAD + chunk(event("one")))
        await asyncio.wait_for(first.wait(), 5)
        await asked.send(chunk(event("two") + event("three")) + chunk(event("four") + ABORTED))

    first = asyncio.Event()
    async with world(Engine(script)) as w:
        client = await w.connect()
        await client.send(post(chat(stream=True)))
        await wait_until(lambda: len(w.turns) > 3)
        first.set()
        answer = await client.read()
        events = event("one") + event("two") + event("three") + event("four")
        assert answer.body.startswith(events + b'data: {"error"')
        assert b"abort" not in answer.body


async def test_text_that_quotes_the_marks_is_no_mark():
    text = 'data: [DONE] "finish_reason":"abort" \ndata: {"error":'

    async def script(asked):
        await asked.send(whole_stream(text))

    async with world(Engine(script)) as w:
        answer = await w.ask(post(chat(stream=True)))
        assert answer.body == event(text) + event("", "stop") + DONE
        await wait_until(lambda: w.outcomes() == ["completed"])


async def test_an_end_mark_that_is_only_quoted_does_not_complete_a_stream():
    async def script(asked):
        await asked.send(STREAM_HEAD + chunk(event("data: [DONE]")))
        await asyncio.wait_for(first.wait(), 5)
        await asked.send(b"0\r\n\r\n")

    first = asyncio.Event()
    async with world(Engine(script)) as w:
        client = await w.connect()
        await client.send(post(chat(stream=True)))
        await wait_until(lambda: len(w.turns) > 3)
        first.set()
        assert broken_stream_allowing_quote(await client.read()) == "engine_failed_midstream"


def broken_stream_allowing_quote(answer):
    return json.loads(answer.body.split(b"\n\n")[-2].removeprefix(b"data: "))["error"]["code"]


async def test_a_stream_cut_after_its_end_mark_is_complete():
    async def script(asked):
        await asked.send(whole_stream("hi").removesuffix(b"0\r\n\r\n"))
        asked.cut()

    async with world(Engine(script)) as w:
        answer = await w.ask(post(chat(stream=True)))
        assert answer.whole
        assert answer.body.endswith(DONE)
        await wait_until(lambda: w.outcomes() == ["completed"])


async def test_a_document_cut_in_the_middle_ends_short():
    big = b"x" * 100_000

    async def script(asked):
        head = b"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: 200000\r\n\r\n"
        await asked.send(head + big)
        await asyncio.wait_for(first.wait(), 5)
        asked.cut()

    first = asyncio.Event()
    async with world(Engine(script)) as w:
        client = await w.connect()
        await client.send(post(b'{"model":"m","input":"x"}', "/v1/audio/speech"))
        await wait_until(lambda: len(w.turns) > 3)
        first.set()
        answer = await client.read()
        assert not answer.whole
        assert w.outcomes() == ["failed_midstream"]


# ---- answers that end with their connection ----

SPEECH = b'{"model":"m","input":"x"}'
OLD = b"HTTP/1.0 200 OK\r\ncontent-type: audio/mpeg\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\nconnection: close\r\n\r\n"
OPEN = b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\n\r\n"


async def close(asked):
    asked.writer.close()
    await asked.writer.wait_closed()


async def reset(asked):
    linger = struct.pack("ii", 1, 0)
    asked.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    asked.cut()


def in_two(head, first, second, end):
    """An engine that goes on when ``go`` is set."""
    go = asyncio.Event()

    async def script(asked):
        await asked.send(head + first)
        await asyncio.wait_for(go.wait(), 5)
        if second:
            await asked.send(second)
        await end(asked)

    return Engine(script), go


async def heard(w, go, request):
    """The answer, of which the first part has come before the engine goes on."""
    client = await w.connect()
    await client.send(request)
    await wait_until(lambda: any(type(t[0]).__name__ == "FirstByte" for t in w.turns))
    go.set()
    return await client.read()


@pytest.mark.parametrize("head", [OLD, CLOSING])
async def test_a_body_of_unknown_end_ends_as_it_came_and_claims_no_more(head):
    engine, go = in_two(head, b"abc", b"def", close)
    async with world(engine) as w:
        answer = await heard(w, go, post(SPEECH, "/v1/audio/speech"))
        assert (answer.body, answer.was_reset) == (b"abcdef", False)
        # Chunks would claim an end that nobody knows.
        assert not {"transfer-encoding", "content-length"} & set(answer.fields)
        assert answer.fields["connection"] == "close"
        await wait_until(lambda: w.outcomes() == ["completed"])


@pytest.mark.parametrize("head, end", [(OPEN, close), (OPEN, reset), (OLD, reset), (CLOSING, reset)])
async def test_a_body_of_unknown_end_that_is_cut_ends_in_a_reset(head, end):
    engine, go = in_two(head, b"abc", b"", end)
    async with world(engine) as w:
        answer = await heard(w, go, post(SPEECH, "/v1/audio/speech"))
        assert answer.was_reset
        assert w.outcomes() == ["failed_midstream"]
        await wait_until(lambda: w.gateway.open_connections == 0)
        assert w.at_rest()


@pytest.mark.parametrize("end", [close, reset])
async def test_a_client_of_http_1_0_notices_a_cut_of_a_body_in_chunks(end):
    head = b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ntransfer-encoding: chunked\r\n\r\n"
    engine, go = in_two(head, chunk(b"abc"), b"", end)
    async with world(engine) as w:
        request = post(SPEECH, "/v1/audio/speech").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        assert (await heard(w, go, request)).was_reset
        assert w.outcomes() == ["failed_midstream"]


async def test_closing_the_gateway_is_no_end_of_a_body_of_unknown_end():
    engine, _go = in_two(CLOSING, b"abc", b"", close)
    async with world(engine) as w:
        client = await w.connect()
        await client.send(post(SPEECH, "/v1/audio/speech"))
        await wait_until(lambda: any(type(t[0]).__name__ == "FirstByte" for t in w.turns))
        await w.gateway.close()
        assert (await client.read()).was_reset


@pytest.mark.parametrize("head", [OLD, CLOSING, OPEN])
@pytest.mark.parametrize("cut_at", [1, 23, 40, len(json.dumps(ANSWER)) - 1])
async def test_half_a_document_is_no_document(head, cut_at):
    async def script(asked):
        await asked.send(
            head.replace(b"audio/mpeg", b"application/json") + json.dumps(ANSWER).encode()[:cut_at]
        )
        await close(asked)

    whole = Engine()
    async with world(Engine(script), whole) as w:
        answer = await w.ask(post(chat()))
        assert json.loads(answer.body) == ANSWER
        assert failures(w) == ["CUT"]
        assert len(whole.asked) == 1


@pytest.mark.parametrize("head", [OLD, CLOSING, OPEN, STREAM_HEAD])
@pytest.mark.parametrize(
    "path, last",
    [
        ("/v1/audio/transcriptions", b'data: {"type":"transcript.text.done","text":"hi"}\n\n'),
        ("/v1/audio/translations", DONE),
        ("/v1/audio/speech", b'data: {"type":"speech.audio.done"}\n\n'),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
async def test_streams_about_audio_are_whole_with_their_end_mark_only(head, path, last, is_whole):
    delta = b'data: {"type":"transcript.text.delta","delta":"hi"}\n\n'
    wrap, tail = (chunk, b"0\r\n\r\n") if head is STREAM_HEAD else (bytes, b"")
    then = wrap(last) + tail if is_whole else tail
    engine, go = in_two(head.replace(b"audio/mpeg", b"text/event-stream"), wrap(delta), then, close)
    request = post(SPEECH, path)
    if path != "/v1/audio/speech":
        form = b'--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--XX--\r\n'
        request = post(form, path).replace(b"application/json", b"multipart/form-data; boundary=XX")
    async with world(engine) as w:
        answer = await heard(w, go, request)
        if is_whole:
            assert answer.body == delta + last
            await wait_until(lambda: w.outcomes() == ["completed"])
        else:
            assert answer.body.startswith(delta + b'data: {"error"')
            assert w.outcomes() == ["failed_midstream"]


# ---- connections that were kept ----


async def test_a_kept_connection_that_died_unread_is_replaced_without_a_word():
    answered = 0

    async def script(asked):
        nonlocal answered
        answered += 1
        if answered == 2:
            asked.cut()
            return
        await asked.send(whole_json())

    engine = Engine(script)
    async with world(engine, max_retries=0) as w:
        client = await w.connect()
        for _ in range(2):
            await client.send(post(chat()))
            assert (await client.read()).status == 200
        assert engine.connections == 2
        assert failures(w) == []


async def test_the_second_death_is_told():
    answered = 0

    async def script(asked):
        nonlocal answered
        answered += 1
        if answered > 1:
            asked.cut()
            return
        await asked.send(whole_json())

    async with world(Engine(script), max_retries=0) as w:
        client = await w.connect()
        await client.send(post(chat()))
        await client.read()
        await client.send(post(chat()))
        assert (await client.read()).error["code"] == "engine_failed"
        assert failures(w) == ["CUT"]


async def test_a_connection_is_not_kept_longer_than_the_engine_keeps_it():
    engine = Engine()
    async with world(engine, manners=Manners(idle_connection_s=0.1)) as w:
        await w.ask(post(chat()))
        await wait_until(lambda: w.gateway.upstream_connections == 0)
        await w.ask(post(chat()))
        assert engine.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        whole_json() + b"surplus",
        whole_json(fields="connection: close\r\n"),
        whole_json().replace(b"HTTP/1.1", b"HTTP/1.0"),
        whole_json({}, "400 Bad Request", "connection: close\r\n"),
    ],
)
async def test_a_connection_in_any_doubt_is_not_kept(answer):
    engine = Engine(saying(answer))
    async with world(engine) as w:
        await w.ask(post(chat()))
        await w.ask(post(chat()))
        assert engine.connections == 2


async def test_bytes_that_nobody_asked_for_close_a_kept_connection():
    engine = Engine()
    async with world(engine) as w:
        await w.ask(post(chat()))
        await engine.asked[0].send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        await wait_until(lambda: w.gateway.upstream_connections == 0)
        assert (await w.ask(post(chat()))).status == 200


async def test_connections_to_a_replica_that_left_the_table_are_closed():
    async with world() as w:
        await w.ask(post(chat()))
        assert w.gateway.upstream_connections == 1
        w.publish(engines=[])
        await wait_until(lambda: w.gateway.upstream_connections == 0)


# ---- silence ----


async def hang(asked):
    await asyncio.Event().wait()


async def hang_after_one(asked):
    await asked.send(STREAM_HEAD + chunk(event("one")))
    await asyncio.Event().wait()


async def test_a_stream_that_does_not_begin_is_sent_elsewhere():
    settings = GatewaySettings(first_byte_timeout_s=0.1)
    hung = Engine(hang)
    async with world(hung, Engine(), settings=settings) as w:
        assert (await w.ask(post(chat(stream=True)))).body.endswith(DONE)
        assert failures(w) == ["SILENT"]
        await wait_until(hung.asked[0].gone.is_set)


async def test_an_engine_that_sent_its_head_and_no_event_has_not_begun():
    async def head_only(asked):
        await asked.send(STREAM_HEAD)
        await asyncio.Event().wait()

    settings = GatewaySettings(first_byte_timeout_s=0.1, stream_idle_timeout_s=50)
    async with world(Engine(head_only), Engine(), settings=settings) as w:
        assert (await w.ask(post(chat(stream=True)))).body.endswith(DONE)


async def test_an_answer_that_is_not_streamed_may_be_silent_until_its_deadline():
    settings = GatewaySettings(first_byte_timeout_s=0.05, stream_idle_timeout_s=0.05)
    engine = Engine(hang)
    async with world(engine, settings=settings) as w:
        answer = await w.ask(post(chat(), fields=["x-request-timeout-s: 0.4"]))
        assert (answer.status, answer.error["code"]) == (504, "deadline_exceeded")
        assert answer.fields["x-should-retry"] == "false"
        assert failures(w) == []
        await wait_until(engine.asked[0].gone.is_set)


@pytest.mark.parametrize(
    "settings, manners",
    [
        (GatewaySettings(stream_idle_timeout_s=0.1), Manners()),
        (GatewaySettings(), Manners(silence_means_dead_s=0.1)),
    ],
)
async def test_a_stream_that_stops_moving_ends_with_an_error(settings, manners):
    engine = Engine(hang_after_one)
    async with world(engine, settings=settings, manners=manners) as w:
        answer = await w.ask(post(chat(stream=True)))
        assert broken_stream(answer)["code"] == "engine_failed_midstream"
        await wait_until(engine.asked[0].gone.is_set)
        assert failures(w) == ["SILENT"]


async def test_a_deadline_ends_a_running_stream_with_an_error():
    async def drip(asked):
        await asked.send(STREAM_HEAD)
        while True:
            await asked.send(chunk(event("x")))
            await asyncio.sleep(0.01)

    async with world(Engine(drip)) as w:
        answer = await w.ask(post(chat(stream=True), fields=["x-request-timeout-s: 0.3"]))
        assert broken_stream(answer)["code"] == "deadline_exceeded"
        assert w.outcomes() == ["expired_running"]


# ---- stopping ----


async def test_stopping_lets_what_runs_end_and_closes_after_it():
    go = asyncio.Event()

    async def script(asked):
        await go.wait()
        await asked.send(whole_json())

    async with world(Engine(script)) as w:
        idle = await w.connect()
        busy = await w.connect()
        await busy.send(post(chat()))
        await wait_until(lambda: w.owner.open_requests == 1 and w.gateway.open_connections == 2)
        w.stop(within_s=10)
        assert await idle.at_end()
        go.set()
        answer = await busy.read()
        assert (answer.status, answer.fields["connection"]) == (200, "close")
        assert await busy.at_end()
        await wait_until(lambda: not w.gateway._server.is_serving())
        with pytest.raises(ConnectionRefusedError):
            await w.connect()


async def test_while_what_runs_ends_whoever_asks_is_told_that_the_gateway_stops():
    go = asyncio.Event()

    async def script(asked):
        await go.wait()
        await asked.send(whole_json())

    engine = Engine(script)
    async with world(engine) as w:
        busy = await w.connect()
        await busy.send(post(chat()))
        await wait_until(lambda: engine.asked)
        w.stop(within_s=10)
        for path, status in (("/ready", 503), ("/health", 200), ("/ready", 503)):
            client = await w.connect()
            await client.send(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            answer = await client.read()
            assert (answer.status, answer.fields["connection"]) == (status, "close")
            assert ("retry-after" in answer.fields) == (status == 503)
            assert await client.at_end()
        for stream in (False, True):
            client = await w.connect()
            await client.send(post(chat(stream=stream)))
            answer = await client.read()
            assert (answer.status, answer.error["code"]) == (503, "gateway_stopping")
            assert answer.fields["retry-after"] == "1"
            assert await client.at_end()
        silent = await w.connect()
        go.set()
        assert (await busy.read()).status == 200
        # Nobody is kept waiting by a connection that asks for nothing.
        assert await silent.at_end(within_s=1)
        await wait_until(lambda: w.gateway.open_connections == 0)
        assert len(engine.asked) == 1
        assert sorted(w.outcomes()) == ["completed", "rejected_stopping", "rejected_stopping"]


async def test_at_the_deadline_the_listener_goes_too():
    async with world(Engine(hang)) as w:
        client = await w.connect()
        await client.send(post(chat()))
        await wait_until(lambda: w.owner.open_requests == 1)
        w.stop(within_s=0.1)
        assert (await client.read()).status == 503
        await wait_until(lambda: not w.gateway._server.is_serving())


async def test_an_idle_gateway_stops_at_once():
    async with world() as w:
        client = await w.connect()
        await client.send(post(chat()))
        await client.read()
        w.stop(within_s=10)
        assert not w.gateway._server.is_serving()
        assert await client.at_end(within_s=0.5)
        with pytest.raises(ConnectionRefusedError):
            await w.connect()


async def test_at_the_stop_deadline_streams_get_their_error_and_waiters_theirs():
    async with world(Engine(hang_after_one), Engine(hang_after_one), slots=1) as w:
        streams = [await w.connect() for _ in range(2)]
        for client in streams:
            await client.send(post(chat(stream=True)))
        await wait_until(lambda: sum(type(t[0]).__name__ == "FirstByte" for t in w.turns) == 2)
        waiter = await w.connect()
        await waiter.send(post(chat()))
        await wait_until(lambda: w.owner.open_requests == 3)
        w.stop(within_s=0.1)
        for client in streams:
            assert broken_stream(await client.read())["code"] == "gateway_stopped"
        answer = await waiter.read()
        assert (answer.status, answer.error["code"]) == (503, "gateway_stopping")
        await wait_until(w.at_rest)


async def test_while_stopping_new_requests_on_open_connections_are_turned_away():
    async with world() as w:
        client = await w.connect()
        request = post(chat())
        await client.send(request[:30])  # A head under way: the connection is not idle.
        await wait_until(lambda: any(not one.is_idle for one in w.gateway._desk.clients))
        w.stop(within_s=10)
        await client.send(request[30:])
        answer = await client.read()
        assert (answer.status, answer.error["code"]) == (503, "gateway_stopping")
        assert await client.at_end()


@pytest.mark.parametrize("status", [500, 503])
async def test_every_refusal_that_may_pass_says_when_to_come_back(status):
    async with world() as w:
        w.publish(engines=[], can_serve=False)
        answer = await w.ask(post(chat()))
        assert (answer.status, answer.error["code"]) == (503, "no_replica")
        assert int(answer.fields["retry-after"]) >= 1
        assert int(answer.fields["retry-after-ms"]) >= 1000
        assert "x-should-retry" not in answer.fields


async def test_a_long_prompt_that_is_turned_away_is_not_hashed_first():
    limits = QueueLimits(max_requests=1)
    config = DispatchConfig(queue=limits, routing=Routing.LEAST_SECONDS)
    long = chat(messages=[{"role": "user", "content": "tide " * 5_000}])
    async with world(config=config) as w:
        w.names = {MODEL: Named(ModelId(MODEL), uses_prefixes=True)}
        w.publish(engines=[])
        waits = await w.connect()
        await waits.send(post(long))
        await wait_until(lambda: w.owner.open_requests == 1)

        assert (await w.ask(post(long))).status == 503

        arrived = [event for event, _ in w.turns if isinstance(event, RequestArrived)]
        assert [len(event.prefix) > 0 for event in arrived] == [True, False]
        w.publish()
        assert (await waits.read()).status == 200
