"""What is made of an engine's answers about LoRA adapters: engines that say one thing and do another."""

from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tidegate.adapters.base import EngineSpec
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends import loras
from tidegate.backends.engine_client import EngineClient
from tidegate.core.types import Address

TOKEN = {"choices": [{"index": 0, "text": "tide"}]}


@asynccontextmanager
async def engine(*, load=200, unload=200, lists=(), answers=200):
    """Answers so, whatever it is asked; lists these names, or nothing at all when that is None."""

    async def listed(_):
        if lists is None:
            return web.Response(status=500)
        return web.json_response({"data": [{"id": name} for name in ("m", *lists)]})

    async def token(request):
        asked.append((await request.json())["model"])
        return web.json_response(TOKEN if answers == 200 else {"error": {}}, status=answers)

    def with_status(status):
        async def handle(_):
            return web.Response(status=status)

        return handle

    asked, app = [], web.Application()
    app.router.add_post("/v1/load_lora_adapter", with_status(load))
    app.router.add_post("/v1/unload_lora_adapter", with_status(unload))
    app.router.add_get("/v1/models", listed)
    app.router.add_post("/v1/completions", token)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    client = EngineClient()
    try:
        yield client, Address("127.0.0.1", site._server.sockets[0].getsockname()[1]), asked
    finally:
        await client.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    "says,problem",
    [
        ({}, None),
        ({"load": 400, "lists": ("red",)}, None),  # it was loaded by a call whose answer was lost
        ({"load": 400}, "/v1/load_lora_adapter: HTTP 400"),
        ({"load": 500, "lists": None}, "/v1/load_lora_adapter: HTTP 500"),
        ({"answers": 404}, "it was loaded, and gives no token: HTTP 404"),  # dynamo#11163
        ({"load": 400, "lists": ("red",), "answers": 500}, "it was loaded, and gives no token: HTTP 500"),
        ({"answers": 503}, None),  # too busy to say
    ],
)
async def test_loaded_is_one_token_under_its_name(says, problem):
    spec = EngineSpec("m", weights="w", slots=1, lora={"red": "/red"})
    async with engine(**says) as (client, address, asked):
        assert await loras.load(client, address, ADAPTERS["vllm"], spec, "red", "/red") == problem
        assert set(asked) <= {"red"}


@pytest.mark.parametrize(
    "says,problem",
    [
        ({}, None),
        ({"unload": 404}, None),  # it was not there
        ({"unload": 500, "lists": ("red",)}, "/v1/unload_lora_adapter: HTTP 500"),
        ({"unload": 500, "lists": None}, "/v1/unload_lora_adapter: HTTP 500"),
    ],
)
async def test_unloaded_is_what_it_does_not_list(says, problem):
    async with engine(**says) as (client, address, _):
        assert await loras.unload(client, address, ADAPTERS["vllm"].lora_api, "red") == problem


async def test_an_engine_without_such_an_api_is_not_asked():
    spec = EngineSpec("m", weights="w", slots=1, lora={"red": "/red"})
    async with engine() as (client, address, asked):
        problem = await loras.load(client, address, ADAPTERS["llamacpp"], spec, "red", "/red")
    assert problem == "engine llamacpp cannot load it while it runs"
    assert asked == []
