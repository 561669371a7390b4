"""The real llama.cpp server through our launcher and adapter."""

import asyncio
import contextlib
import json
import signal
import sys
import time

import aiohttp
import pytest

from conformance.worlds import Observer, free_ports, launch
from engines.tiny import tiny_spec
from engines.waiting import wait_until
from tidegate.adapters.base import EngineSpec, Readiness
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.engine_client import EngineClient
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.model import LocalModel
from tidegate.core.lifecycle import Seen
from tidegate.core.types import Address

LLAMACPP = ADAPTERS["llamacpp"]


class Engine:
    """One server on a free port."""

    def __init__(self, spec):
        self.spec = spec
        self.address = Address("127.0.0.1", free_ports(1)[0])

    async def __aenter__(self):
        argv = LLAMACPP.command(self.spec, self.address, ())
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *argv, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
        self.client = EngineClient()
        async with asyncio.timeout(20):
            await self.client.until_ready(self.address, LLAMACPP, self.spec, on_answer=lambda answer: None)
        return self

    async def __aexit__(self, *error):
        await self.client.close()
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()

    async def complete(self, model):
        """The text of a fixed request, sent as the gateway sends it."""
        fields = {
            "model": model,
            "prompt": "The tide",
            "max_tokens": 12,
            "temperature": 0,
            "ignore_eos": True,
        }
        body = LLAMACPP.rewrite(json.dumps(fields).encode(), self.spec)
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url("/v1/completions"), data=body) as answer,
        ):
            assert answer.status == 200
            return (await answer.json())["choices"][0]["text"]

    async def get(self, path):
        async with aiohttp.ClientSession() as session, session.get(self.url(path)) as answer:
            return await answer.json()

    def url(self, path):
        return f"http://{self.address.host}:{self.address.port}{path}"


async def run(*arguments):
    """Exit code and output of the launcher when it cannot start."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tidegate.adapters.llamacpp_server",
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_adapters_are_chosen_by_model_name_and_do_not_leak_into_the_next_request(
    tiny_model, tiny_adapters
):
    # One slot, so that every request finds the cached prompt of the one before it.
    async with Engine(tiny_spec(tiny_model, slots=1, lora=tiny_adapters)) as engine:
        plain = await engine.complete("tiny")
        red = await engine.complete("tiny:red")
        blue = await engine.complete("blue")
        again = [await engine.complete(name) for name in ("tiny", "tiny:blue", "red", "tiny")]

    assert len({plain, red, blue}) == 3
    assert again == [plain, blue, red, plain]


async def test_the_engine_answers_to_its_name_and_has_as_many_slots_as_it_was_told(tiny_model):
    async with Engine(tiny_spec(tiny_model, name="my-model", slots=3)) as engine:
        models = await engine.get("/v1/models")
        props = await engine.get("/props")

    assert models["data"][0]["id"] == "my-model"
    assert props["total_slots"] == 3
    assert props["default_generation_settings"]["n_ctx"] == 512


async def test_its_metrics_count_what_was_generated(tiny_model):
    async with Engine(tiny_spec(tiny_model)) as engine:
        before = await engine.client.scrape(engine.address, LLAMACPP, 2.0)
        await engine.complete("tiny")
        after = await engine.client.scrape(engine.address, LLAMACPP, 2.0)

    assert (after.running, after.waiting) == (0, 0)
    assert after.output_tokens_total - before.output_tokens_total == 12
    # One token is one byte of "The tide".
    assert after.prompt_tokens_total - before.prompt_tokens_total == 8


async def test_sigterm_in_a_stream_ends_it_at_once_instead_of_five_silent_seconds(tiny_model):
    async with Engine(tiny_spec(tiny_model)) as engine:
        fields = {
            "prompt": "The tide",
            "max_tokens": 480,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
        }
        url = engine.url("/v1/completions")
        async with aiohttp.ClientSession() as session, session.post(url, json=fields) as answer:
            await answer.content.readline()
            engine.process.send_signal(signal.SIGTERM)
            began_s = time.monotonic()
            with contextlib.suppress(aiohttp.ClientError):
                await answer.content.read()
            assert time.monotonic() - began_s < 1.0
        await asyncio.wait_for(engine.process.wait(), 1.0)


async def test_a_probe_says_loading_until_the_port_answers(tiny_model):
    client = EngineClient()
    answer = await client.probe(Address("127.0.0.1", free_ports(1)[0]), LLAMACPP, tiny_spec(tiny_model), 1.0)
    await client.close()

    assert answer.readiness is Readiness.LOADING
    assert answer.is_refused


async def test_a_sleeping_engine_is_left_asleep(tiny_model, tmp_path):
    spec = tiny_spec(tiny_model)
    spec = EngineSpec(spec.model_name, spec.weights, spec.slots, extra_args=("--sleep-idle-seconds", "1"))
    fleet, observer = (
        LocalFleet([LocalModel("m", LLAMACPP, spec)], state_dir=tmp_path, scrape_every_s=0.1),
        Observer(),
    )
    await fleet.open(observer)
    launch(fleet, "r1")
    ready = await observer.until("r1", Seen.READY)
    try:
        async with aiohttp.ClientSession() as session:
            url = f"http://{ready.address.host}:{ready.address.port}/props"

            async def sleeps():
                async with session.get(url) as answer:
                    return (await answer.json())["is_sleeping"]

            deadline_s = time.monotonic() + 10
            while not await sleeps():
                assert time.monotonic() < deadline_s, "it never slept: something keeps it awake"
                await asyncio.sleep(0.1)
            told = len(observer.reports("r1"))
            asleep_s = time.monotonic()
            await wait_until(lambda: time.monotonic() - asleep_s > 1.0, within_s=2.0)
            assert await sleeps()
            assert len(observer.reports("r1")) == told
    finally:
        await fleet.close()


async def test_a_taken_port_is_told_apart(tiny_model):
    async with Engine(tiny_spec(tiny_model)) as engine:
        code, output = await run("--model-path", tiny_model, "--alias", "x", "--port", engine.address.port)

    assert code == 98
    assert "address already in use" in output


@pytest.mark.parametrize(
    "arguments,complaint",
    [
        (("--model-path", "/nowhere.gguf", "--alias", "x", "--port", "1"), "/nowhere.gguf: no such file"),
        (("--model-path", __file__, "--alias", "x", "--port", "1", "--slots", "0"), "must be at least 1"),
        (("--model-path", __file__, "--alias", "x", "--port", "0"), "the engine did not start"),
    ],
)
async def test_what_cannot_work_is_refused_with_a_reason(arguments, complaint):
    code, output = await run(*arguments)

    assert code != 0
    assert complaint in output
