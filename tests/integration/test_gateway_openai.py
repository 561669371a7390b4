"""OpenAI's own client in front of the gateway: streams work, and each error becomes its exception."""

import asyncio
import hashlib

import openai
import pytest

from integration.gateway_world import (
    STREAM_HEAD,
    Engine,
    chunk,
    event,
    wait_until,
    whole_json,
    whole_stream,
    world,
)
from tidegate.config.settings import Client, GatewaySettings
from tidegate.core.settings import DispatchConfig, QueueLimits
from tidegate.core.types import FlowId

MESSAGES = [{"role": "user", "content": "hello"}]


def sdk(w, key="sk-good", max_retries=0, timeout=20):
    return openai.AsyncOpenAI(
        base_url=f"http://{w.host}:{w.port}/v1",
        api_key=key,
        max_retries=max_retries,
        timeout=timeout,
        http_client=openai.DefaultAsyncHttpxClient(trust_env=False),
    )


async def read_all(stream, seen, go):
    """Read to the end, and say when something came."""
    async for piece in stream:
        seen.append(piece)
        go.set()


async def hang(asked):
    await asyncio.Event().wait()


async def test_an_answer_and_a_stream():
    async with world() as w, sdk(w) as client:
        answer = await client.chat.completions.create(model="m", messages=MESSAGES)
        assert answer.choices[0].message.content == "hi"
        assert answer._request_id.startswith("req-")
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        text = [piece.choices[0].delta.content async for piece in stream]
        assert text == ["hi", "there", None]
        assert [model.id for model in (await client.models.list()).data] == ["m", "m-adapter"]
        await wait_until(lambda: w.outcomes() == ["completed", "completed"])


async def test_an_upload():
    engine = Engine()

    async def script(asked):
        await asked.send(whole_json({"text": "hello"}))

    engine.script = script
    async with world(engine) as w, sdk(w) as client:
        answer = await client.audio.transcriptions.create(model="m", file=("a.wav", b"RIFF\r\n--x\r\n" * 100))
        assert answer.text == "hello"


async def test_a_key_is_needed_when_keys_are_configured():
    keys = {hashlib.sha256(b"sk-good").hexdigest(): Client(FlowId("a"))}
    async with world(settings=GatewaySettings(keys=keys)) as w, sdk(w) as good, sdk(w, "sk-bad") as bad:
        await good.chat.completions.create(model="m", messages=MESSAGES)
        with pytest.raises(openai.AuthenticationError) as caught:
            await bad.chat.completions.create(model="m", messages=MESSAGES)
        assert caught.value.code == "invalid_api_key"


async def test_400_404_413():
    settings = GatewaySettings(max_body_bytes=2_000)
    async with world(settings=settings) as w, sdk(w, max_retries=2) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="m", messages=MESSAGES, max_tokens=-1)
        assert caught.value.param == "max_tokens"
        with pytest.raises(openai.NotFoundError) as caught:
            await client.chat.completions.create(model="nobody", messages=MESSAGES)
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "x" * 3_000_000}]
            )
        assert caught.value.status_code == 413
        # Of three that no retry can help none was retried.
        assert w.meters.refusals("invalid_body") == w.meters.refusals("body_too_large") == 1


async def test_429_when_the_queue_is_full():
    engine = Engine(hang)
    async with world(engine, slots=1) as w, sdk(w) as client:
        w.publish()
        w.configure(DispatchConfig(queue=QueueLimits(max_requests=1)))
        waiting = [
            asyncio.ensure_future(client.chat.completions.create(model="m", messages=MESSAGES))
            for _ in range(2)
        ]
        await wait_until(lambda: w.owner.open_requests == 2)
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="m", messages=MESSAGES)
        assert caught.value.code == "queue_full"
        assert float(caught.value.response.headers["retry-after-ms"]) >= 1000
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await wait_until(w.at_rest)


async def test_503_and_504():
    async with world(Engine(hang), settings=GatewaySettings(request_timeout_s=0.2)) as w, sdk(w) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            await client.chat.completions.create(model="m", messages=MESSAGES)
        assert (caught.value.status_code, caught.value.code) == (504, "deadline_exceeded")
        w.publish(engines=[], can_serve=False)
        with pytest.raises(openai.InternalServerError) as caught:
            await client.chat.completions.create(model="m", messages=MESSAGES)
        assert (caught.value.status_code, caught.value.code) == (503, "no_replica")


async def test_a_stream_that_fails_raises_after_what_it_had():
    async def script(asked):
        await asked.send(STREAM_HEAD + chunk(event("one")))
        await asyncio.wait_for(go.wait(), 5)
        asked.cut()

    go = asyncio.Event()
    async with world(Engine(script)) as w, sdk(w, max_retries=2) as client:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        seen = []
        with pytest.raises(openai.APIError, match="failed in the middle"):
            await read_all(stream, seen, go)
        assert [piece.choices[0].delta.content for piece in seen] == ["one"]
        assert w.outcomes() == ["failed_midstream"]


async def test_a_responses_stream_that_fails_raises_too():
    created = (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a"}\n\n'
    )

    async def script(asked):
        await asked.send(STREAM_HEAD + chunk(created))
        await asyncio.wait_for(go.wait(), 5)
        await asked.send(b"0\r\n\r\n")  # In good order, but without its last event.

    go = asyncio.Event()
    async with world(Engine(script)) as w, sdk(w) as client:
        stream = await client.responses.create(model="m", input="x", stream=True)
        with pytest.raises(openai.APIError):
            await read_all(stream, [], go)


async def test_leaving_a_stream_stops_the_engine():
    async def script(asked):
        await asked.send(STREAM_HEAD + chunk(event("one")))
        await asyncio.Event().wait()

    engine = Engine(script)
    async with world(engine) as w, sdk(w) as client:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        async for _ in stream:
            break
        await stream.close()
        await asyncio.wait_for(engine.asked[0].gone.wait(), 1)
        await wait_until(lambda: w.outcomes() == ["client_gone"])


async def test_a_client_that_closes_on_the_end_mark_has_completed():
    async def script(asked):
        await asked.send(whole_stream("hi").removesuffix(b"0\r\n\r\n"))
        await asyncio.Event().wait()

    async with world(Engine(script)) as w, sdk(w) as client:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        assert [piece.choices[0].delta.content async for piece in stream] == ["hi", None]
        await wait_until(lambda: w.outcomes() == ["completed"])
