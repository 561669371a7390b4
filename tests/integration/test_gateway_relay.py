import asyncio
import json

import pytest

from integration.gateway_world import (
    ANSWER,
    CHAT,
    DONE,
    STREAM_HEAD,
    Engine,
    chat,
    chunk,
    event,
    post,
    wait_until,
    whole_json,
    world,
)
from tidegate.core.events import ReportDue
from tidegate.core.settings import DispatchConfig, Routing
from tidegate.gateway.routes import RELAYS, Form


async def test_an_answer_comes_back_as_the_engine_wrote_it():
    engine = Engine()
    async with world(engine) as w:
        answer = await w.ask(post(chat(), fields=["x-request-id: mine-1", "traceparent: 00-aa-bb-01"]))

        assert answer.status == 200
        assert json.loads(answer.body) == ANSWER
        assert answer.fields["x-request-id"] == "mine-1"
        await wait_until(lambda: w.outcomes() == ["completed"])
        assert (w.records[0].prompt_tokens, w.records[0].output_tokens) == (7, 2)
        assert w.at_rest()
        assert engine.asked[0].fields["x-request-id"] == "mine-1"
        assert engine.asked[0].fields["traceparent"] == "00-aa-bb-01"


async def test_a_stream_comes_back_byte_for_byte_and_each_event_at_once():
    step = asyncio.Event()
    parts = [chunk(event("one")), chunk(event("two")), chunk(event("", "stop")), chunk(DONE) + b"0\r\n\r\n"]

    async def script(asked):
        await asked.send(STREAM_HEAD)
        for part in parts:
            await asked.send(part)
            await step.wait()
            step.clear()

    async with world(Engine(script)) as w:
        client = await w.connect()
        await client.send(post(chat(stream=True)))
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head
        assert b"x-accel-buffering: no" in head
        for part in parts:
            # The engine goes on only when the client has the event: nothing waits for what comes after.
            assert await client.reader.readexactly(len(part)) == part
            step.set()
        await wait_until(lambda: w.outcomes() == ["completed"])
        assert w.records[0].output_tokens == 1  # Four events, of which three carry no token by rule.


async def test_usage_is_read_from_the_end_of_a_stream():
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":8}}}\n\n'

    async def script(asked):
        await asked.send(STREAM_HEAD + chunk(event("a")) + chunk(event("", "stop")))
        await asked.send(chunk(usage))
        await asked.send(chunk(DONE))
        await asked.send(b"0\r\n\r\n")

    async with world(Engine(script)) as w:
        assert (await w.ask(post(chat(stream=True)))).body.endswith(usage + DONE)
        await wait_until(lambda: w.records)
        assert (w.records[0].prompt_tokens, w.records[0].output_tokens) == (11, 5)
        ended = [e for e, _ in w.turns if type(e).__name__ == "UpstreamEnded"]
        assert ended[0].cached_tokens == 8


async def test_connections_to_clients_and_engines_are_used_again():
    engine = Engine()
    async with world(engine) as w:
        client = await w.connect()
        for _ in range(5):
            await client.send(post(chat()))
            assert (await client.read()).status == 200
            await client.send(post(chat(stream=True)))
            assert (await client.read()).body.endswith(DONE)
        assert len(engine.asked) == 10
        assert engine.connections == 1


async def test_the_key_and_unknown_headers_do_not_reach_the_engine():
    engine = Engine()
    async with world(engine) as w:
        secret = [
            "authorization: Bearer sk-secret",
            "cookie: a=b",
            "x-forwarded-for: 1.2.3.4",
            "connection: close, x-y",
        ]
        await w.ask(post(chat(), fields=secret))
        assert set(engine.asked[0].fields) == {
            "host",
            "accept-encoding",
            "content-type",
            "content-length",
            "x-request-id",
        }


async def test_hop_by_hop_headers_of_the_engine_end_here():
    fields = "connection: keep-alive, x-hop\r\nkeep-alive: timeout=5\r\nx-hop: 1\r\nserver: engine/1\r\nx-kept: yes\r\n"

    async def script(asked):
        await asked.send(whole_json(fields=fields))

    async with world(Engine(script)) as w:
        answer = await w.ask(post(chat()))
        assert answer.fields["x-kept"] == "yes"
        assert not {"connection", "keep-alive", "x-hop", "server"} & set(answer.fields)


async def test_a_clients_mistake_is_told_in_the_engines_words():
    async def script(asked):
        await asked.send(whole_json({"error": {"message": "too long"}}, "400 Bad Request"))

    async with world(Engine(script)) as w:
        answer = await w.ask(post(chat()))
        assert (answer.status, answer.error) == (400, {"message": "too long"})
        await wait_until(lambda: w.outcomes() == ["completed"])


async def test_a_body_in_chunks_reaches_the_engine_whole():
    engine = Engine()
    body = chat(filler="x" * 5000)
    async with world(engine) as w:
        client = await w.connect()
        await client.send(post(b"", fields=["transfer-encoding: chunked"], length=False))
        for at in range(0, len(body), 777):
            part = body[at : at + 777]
            for piece in (b"%x\r\n" % len(part), part[:-1], part[-1:] + b"\r", b"\n"):
                await client.send(piece)
        await client.send(b"0\r")
        await client.send(b"\n\r\n")
        assert (await client.read()).status == 200
        assert engine.asked[0].body == body


@pytest.mark.parametrize("size", [33_000, 129_000, 1_500_000, 9_000_000])
async def test_a_body_of_any_size_reaches_the_engine_as_it_was_sent(size):  # F48
    engine = Engine()
    async with world(engine) as w:
        body = chat(messages=[{"role": "user", "content": "x" * size}])
        assert (await w.ask(post(body))).status == 200
        assert engine.asked[0].body == body


async def test_a_request_counts_by_whatever_path_it_came():  # F5
    async def never(asked):
        await asyncio.Event().wait()

    config = DispatchConfig(routing=Routing.LEAST_TOKENS)
    async with world(Engine(never), Engine(never), config=config) as w:
        paths = [relay.path for relay in RELAYS.values() if relay.form is Form.JSON]
        for path in paths:
            for stream in (False, True):
                client = await w.connect()
                await client.send(post(chat(stream=stream), path=path))
        await wait_until(lambda: w.owner.open_requests == 2 * len(paths))
        w.owner.handle(ReportDue())

        assert [load.in_flight for load in w.reports[-1].replicas] == [len(paths)] * 2


async def test_pipelined_requests_are_answered_in_their_order():
    async def script(asked):
        await asked.send(whole_json({"seed": json.loads(asked.body)["seed"]}))

    async with world(Engine(script)) as w:
        client = await w.connect()
        get = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
        await client.send(b"".join(post(chat(seed=n)) + get for n in range(20)))
        for n in range(20):
            assert json.loads((await client.read()).body) == {"seed": n}
            assert json.loads((await client.read()).body) == {"status": "ok"}


async def test_expect_continue_is_answered_before_the_body():
    async with world() as w:
        client = await w.connect()
        request = post(chat(), fields=["expect: 100-continue"])
        head, _, body = request.partition(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        assert (await client.read()).status == 100
        await client.send(body)
        assert (await client.read()).status == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_an_http_1_0_client_gets_an_answer_without_chunks(stream):
    async with world() as w:
        client = await w.connect()
        await client.send(post(chat(stream=stream)).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        answer = await client.read()
        assert "transfer-encoding" not in answer.fields
        expected = (
            event("hi") + event("there") + event("", "stop") + DONE if stream else json.dumps(ANSWER).encode()
        )
        assert answer.body == expected
        assert await client.at_end()


async def test_a_response_that_ends_with_its_connection_is_passed_on_in_chunks():
    async def script(asked):
        if b'"stream": true' in asked.body:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
            await asked.send(head + event("a")[:20])
            await asked.send(event("a")[20:] + DONE)
        else:
            await asked.send(b'HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{"a":1}')
        raise ConnectionResetError

    async with world(Engine(script)) as w:
        assert (await w.ask(post(chat()))).body == b'{"a":1}'
        assert (await w.ask(post(chat(stream=True)))).body == event("a") + DONE
        await wait_until(lambda: w.outcomes() == ["completed", "completed"])


async def test_binary_answers_pass_as_they_come():
    step = asyncio.Event()

    async def script(asked):
        await asked.send(b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: 6\r\n\r\nabc")
        await step.wait()
        await asked.send(b"def")

    async with world(Engine(script)) as w:
        client = await w.connect()
        await client.send(post(b'{"model":"m","input":"x","voice":"v"}', "/v1/audio/speech"))
        await client.reader.readuntil(b"\r\n\r\n")
        assert await client.reader.readexactly(3) == b"abc"
        step.set()
        assert await client.reader.readexactly(3) == b"def"


async def test_an_upload_goes_to_the_engine_as_it_came():
    engine = Engine()
    form = (
        b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
        b'\x00\x01\r\n\r\nRIFF\r\n--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--XX--\r\n'
    )
    head = f"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=XX\r\ncontent-length: {len(form)}\r\n\r\n"
    async with world(engine) as w:
        assert (await w.ask(head.encode() + form)).status == 200
        assert engine.asked[0].body == form
        assert engine.asked[0].fields["content-type"] == "multipart/form-data; boundary=XX"


async def test_an_adapters_name_leads_to_its_model_and_reaches_the_rewriting_as_it_was_written():
    engine, seen = Engine(), []

    def rewrite(route, body):
        seen.append((route.engine, route.model))
        return body

    async with world(engine, rewrite=rewrite) as w:
        answer = await w.ask(post(chat(model="m-adapter")))
        assert answer.status == 200
        assert seen == [("engine", "m")]
        assert json.loads(engine.asked[0].body)["model"] == "m-adapter"
        await wait_until(lambda: w.records)
        assert w.records[0].model == "m"
        assert w.meters.requests("m", w.records[0].outcome) == 1
        # Names that come later hold for requests that come later.
        assert (await w.ask(post(chat(model="new")))).status == 404
        w.names = w.names | {"new": w.names["m"]}
        assert (await w.ask(post(chat(model="new")))).status == 200


async def test_the_body_is_rewritten_for_the_engine_that_gets_it():
    engine = Engine()
    async with world(engine, rewrite=lambda route, body: f"{route.engine} {route.replica_id}".encode()) as w:
        await w.ask(post(chat()))
        assert engine.asked[0].body == f"engine {w.records[0].replica_id}".encode()


async def test_every_model_is_listed_from_the_first_connection_on_though_nothing_runs():
    async with world() as w:
        w.publish(engines=[])
        client = await w.connect()
        await client.send(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n")
        models = json.loads((await client.read()).body)
        assert [card["id"] for card in models["data"]] == ["m", "m-adapter"]


async def test_pages():
    async with world() as w:

        async def get(path, method="GET"):
            client = await w.connect()
            await client.send(f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            return await client.read(bodiless=method == "HEAD")

        models = json.loads((await get("/v1/models")).body)
        assert [card["id"] for card in models["data"]] == ["m", "m-adapter"]
        assert (await get("/health")).status == 200
        assert (await get("/ready")).status == 200
        assert (await get("/ready", "HEAD")).fields["content-length"] == "18"
        assert (await get(CHAT, "OPTIONS")).fields["allow"] == "POST, OPTIONS"
        wrong = await get(CHAT)
        assert (wrong.status, wrong.fields["allow"]) == (405, "POST, OPTIONS")
        assert (await get("/v1/chat/completions/render")).error["code"] == "unknown_url"
        await w.ask(post(chat()))
        await wait_until(lambda: w.records)
        page = (await get("/metrics")).body.decode()
        assert 'tidegate_requests_total{model="m",outcome="completed"} 1.0' in page
        assert 'tidegate_ttft_seconds_count{model="m"} 1.0' in page
        assert 'tidegate_refusals_total{reason="wrong_method"} 1.0' in page


async def test_random_model_names_add_no_series():
    async with world() as w:
        client = await w.connect()
        for n in range(50):
            await client.send(post(json.dumps({"model": f"x{n}"}).encode()))
            assert (await client.read()).status == 404
        await client.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
        page = (await client.read()).body.decode()
        assert 'tidegate_requests_total{model="other",outcome="rejected_unknown_model"} 50.0' in page
        assert "x49" not in page


async def test_a_request_waits_at_zero_replicas_and_is_sent_when_one_is_ready():
    engine = await Engine().start()
    async with world() as w:
        w.engines.append(engine)
        w.publish(engines=[])
        client = await w.connect()
        await client.send(post(chat()))
        await wait_until(lambda: w.owner.open_requests == 1)
        client_2 = await w.connect()
        await client_2.send(b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await client_2.read()).status == 200
        w.publish(engines=[engine])
        assert (await client.read()).status == 200
