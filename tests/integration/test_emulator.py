"""The emulator as a client sees it."""

import asyncio

import openai
import pytest

from integration.emulator_world import CHAT, DONE, MODEL, client_of, emulated, options, wait_until
from tidegate.adapters.base import Readiness
from tidegate.adapters.emulated import Emulated
from tidegate.emulator.options import cold_start
from tidegate.emulator.server import Server, emulator
from tidegate.emulator.text import chat_prompt, tokens_in


async def test_an_answer_in_one_piece():
    async with emulated() as client:
        status, answer = await client.chat("hello", max_tokens=5)

    assert status == 200
    assert answer["object"] == "chat.completion"
    assert len(answer["choices"][0]["message"]["content"]) == 20
    assert answer["choices"][0]["finish_reason"] == "length"
    prompt_tokens = tokens_in(chat_prompt([("user", "hello")]))
    assert answer["usage"]["prompt_tokens"] == prompt_tokens
    assert answer["usage"]["completion_tokens"] == 5
    assert answer["usage"]["total_tokens"] == prompt_tokens + 5


async def test_a_stream_says_the_same_as_the_answer_in_one_piece():
    async with emulated() as client:
        _, whole = await client.chat("tell me of the tide", max_tokens=40)
        seen = await client.stream("tell me of the tide", max_tokens=40)

    assert seen.is_whole
    assert seen.events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert seen.events[-1] == DONE
    assert seen.text == whole["choices"][0]["message"]["content"]
    assert seen.finish_reason == "length"
    assert {event["object"] for event in seen.events[:-1]} == {"chat.completion.chunk"}


async def test_the_usage_chunk_comes_when_asked_for():
    async with emulated() as client:
        plain = await client.stream(max_tokens=3)
        counted = await client.stream(max_tokens=3, stream_options={"include_usage": True})

    assert not any("usage" in event for event in plain.events[:-1])
    assert counted.events[-2]["choices"] == []
    assert counted.events[-2]["usage"]["completion_tokens"] == 3


async def test_a_completion_streams_text():
    async with emulated() as client:
        seen = await client.stream("once", path="/v1/completions", max_tokens=4)
        _, whole = await client.post("/v1/completions", prompt="once", max_tokens=4)
        _, ids = await client.post("/v1/completions", prompt=[1, 2, 3], max_tokens=4)

    assert seen.text == whole["choices"][0]["text"]
    assert ids["usage"]["prompt_tokens"] == 3


async def test_without_a_limit_the_answer_ends_by_itself():
    async with emulated() as client:
        _, answer = await client.chat("hello")
        _, longer = await client.chat("hello", max_tokens=4000, ignore_eos=True)

    assert answer["choices"][0]["finish_reason"] == "stop"
    assert 16 <= answer["usage"]["completion_tokens"] <= 271
    assert longer["usage"]["completion_tokens"] == 4000


async def test_the_openai_sdk_understands_it():
    async with (
        emulated() as client,
        openai.AsyncOpenAI(base_url=f"{client.url}/v1", api_key="none", max_retries=0) as sdk,
    ):
        chat = await sdk.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=3
        )
        stream = await sdk.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=3, stream=True
        )
        pieces = [chunk.choices[0].delta.content async for chunk in stream]
        vectors = await sdk.embeddings.create(model=MODEL, input=["one", "two"])
        models = [model.id async for model in sdk.models.list()]
        with pytest.raises(openai.NotFoundError):
            await sdk.chat.completions.create(model="other", messages=[{"role": "user", "content": "hi"}])
        with pytest.raises(openai.BadRequestError, match="max_tokens must be at least 1"):
            await sdk.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=0
            )

    assert "".join(filter(None, pieces)) == chat.choices[0].message.content
    assert [len(vector.embedding) for vector in vectors.data] == [64, 64]
    assert sum(value**2 for value in vectors.data[0].embedding) == pytest.approx(1)
    assert models == [MODEL]


async def test_the_next_turn_of_a_chat_finds_the_turn_before_cached():
    question = {"role": "user", "content": "w" * 400}
    async with emulated() as client:
        _, first = await client.post(CHAT, messages=[question], max_tokens=60, ignore_eos=True)
        said = first["choices"][0]["message"]
        _, second = await client.post(CHAT, messages=[question, said, question], max_tokens=1)
        page = await client.metrics()

    before = first["usage"]["total_tokens"]
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    # The answer's last token was never computed; of what was, the full blocks of 16 are found.
    assert cached == (before - 1) // 16 * 16
    assert f'vllm:prefix_cache_hits_total{{engine="0",model_name="m"}} {cached:.1f}' in page


async def test_the_metrics_are_read_by_the_vllm_adapter():
    async with emulated(max_sequences=2, time_scale=1.0) as client:
        tasks = [
            asyncio.create_task(client.stream(str(n), max_tokens=4000, ignore_eos=True)) for n in range(5)
        ]

        async def is_full():
            state = await client.state()
            return (state["running"], state["waiting"]) == (2, 3)

        await wait_until(is_full)
        read = Emulated().metrics(await client.metrics())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    assert (read.running, read.waiting) == (2, 3)
    assert 0 < read.kv_usage_ratio < 1
    assert (read.kv_blocks_total, read.kv_block_tokens) == (28181, 16)
    assert read.prompt_tokens_total > 0


async def test_every_ended_request_is_on_the_page():
    async with emulated() as client:
        for _ in range(3):
            await client.chat("hello", max_tokens=10)
        page = await client.metrics()

    labels = 'engine="0",model_name="m"'
    assert f"vllm:generation_tokens_total{{{labels}}} 30.0" in page
    assert 'vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 3.0' in page
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds"):
        assert f"vllm:{name}_count{{{labels}}} 3.0" in page
    assert f"vllm:inter_token_latency_seconds_count{{{labels}}} 27.0" in page
    assert 'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="m"}' in page


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_leaves_frees_its_place(is_stream):
    async with emulated(time_scale=1.0) as client:
        leaving = asyncio.create_task(client.stream(max_tokens=100_000, ignore_eos=True, stream=is_stream))

        async def is_running():
            return (await client.state())["running"] == 1

        await wait_until(is_running)
        leaving.cancel()

        async def is_free():
            state = await client.state()
            return state["running"] == 0 and state["kv_blocks_used"] == 0 and state["open_connections"] == 0

        await wait_until(is_free)
        state = await client.state()

    assert (state["received_total"], state["cancelled_total"], state["completed_total"]) == (1, 1, 0)


async def test_a_client_that_leaves_the_queue_is_forgotten():
    async with emulated(time_scale=1.0, max_sequences=1) as client:
        running = asyncio.create_task(client.stream("a", max_tokens=100_000, ignore_eos=True))
        queued = asyncio.create_task(client.stream("b", max_tokens=100_000, ignore_eos=True))

        async def is_queued():
            return (await client.state())["waiting"] == 1

        await wait_until(is_queued)
        queued.cancel()

        async def is_alone():
            state = await client.state()
            return (state["running"], state["waiting"], state["cancelled_total"]) == (1, 0, 1)

        await wait_until(is_alone)
        running.cancel()
        await asyncio.gather(running, queued, return_exceptions=True)


async def test_a_full_queue_answers_busy():
    async with emulated(time_scale=1.0, max_sequences=1, max_queued=1) as client:
        running = asyncio.create_task(client.stream("first", max_tokens=100_000, ignore_eos=True))

        async def is_running():
            return (await client.state())["running"] == 1

        await wait_until(is_running)
        waiting = asyncio.create_task(client.stream("in line", max_tokens=1))

        async def is_waiting():
            return (await client.state())["waiting"] == 1

        await wait_until(is_waiting)
        status, answer = await client.chat("too many", max_tokens=1)
        page = await client.metrics()
        running.cancel()
        waiting.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)

    assert status == 503
    assert "currently busy" in answer["error"]["message"]
    reason = 'engine="0",model_name="m",reason="max_num_queued_reqs"'
    assert f"vllm:admission_rejections_total{{{reason}}} 1.0" in page


async def test_a_prompt_that_can_never_fit_is_the_clients_fault():
    async with emulated(kv_blocks=4) as client:
        status, answer = await client.chat("x" * 400)

    assert status == 400
    assert answer["error"]["message"].startswith("This model's maximum context length is 64 tokens")


@pytest.mark.parametrize(
    "body,said",
    [
        ({"messages": "hello"}, "Expected `array`"),
        ({}, "missing required field `messages`"),
        ({"messages": [], "n": 2}, "n must be 1, got 2"),
        ({"messages": [], "max_tokens": -1}, "max_tokens must be at least 1, got -1"),
    ],
)
async def test_a_body_that_cannot_be_read_is_answered_with_why(body, said):
    async with emulated() as client:
        status, answer = await client.post(CHAT, **body)
    assert status == 400
    assert said in answer["error"]["message"]


async def test_while_it_loads_it_answers_like_an_engine_that_loads():
    stages = cold_start("image=200s,weights=1h")
    async with (
        emulator(options(cold_start=stages, time_scale=1000.0)) as server,
        client_of(server.url) as client,
    ):
        status, answer = await client.chat("hello", max_tokens=1)
        adapter = Emulated()
        body = b'{"error":{"message":"Loading model: image","type":"ServiceUnavailableError","code":503}}'

        async def is_at_weights():
            return (await client.state())["stage"] == "weights"

        await wait_until(is_at_weights)

    assert status == 503
    assert answer["error"]["message"] == "Loading model: image"
    assert adapter.readiness(503, body) is Readiness.LOADING


async def test_it_may_refuse_connections_until_it_is_ready():
    stages = cold_start("1h")
    server = Server(options(cold_start=stages, refuse_until_ready=True, time_scale=36_00.0))
    await server.start()
    async with client_of(server.url) as client:
        assert not await client.is_healthy()
        await wait_until(client.is_healthy)
        status, _ = await client.chat("hello", max_tokens=1)
    await server.stop()
    assert status == 200


async def test_hundreds_of_streams_all_get_every_token():
    async with emulated(time_scale=20.0) as client:
        seen = await asyncio.gather(
            *(client.stream(f"{n}", max_tokens=50, ignore_eos=True) for n in range(300))
        )
        state = await client.state()

    assert {len(stream.text) for stream in seen} == {200}
    assert state["completed_total"] == 300
    assert state["kv_blocks_used"] == 0


async def test_an_adapter_is_a_model_of_its_own():
    async with emulated(adapters=("red", "blue"), max_adapters=1) as client:
        _, models = await client.get("/v1/models")
        before = await client.metrics()
        answers = [await client.chat("w" * 200, model=model, max_tokens=1) for model in ("m", "red", "red")]
        status, _ = await client.chat("hello", model="green")
        page = await client.metrics()

    assert [(card["id"], card["parent"]) for card in models["data"]] == [
        ("m", None),
        ("red", "m"),
        ("blue", "m"),
    ]
    assert [status for status, _ in answers] == [200, 200, 200]
    cached = [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for _, answer in answers]
    assert cached == [0, 0, 48]  # what the base model has computed is of no use to an adapter
    assert status == 404
    assert "lora_requests_info" not in before
    assert 'vllm:lora_requests_info{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""}' in page
