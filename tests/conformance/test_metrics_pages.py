"""What is made of an engine's own page of metrics: figures, no news, or one more that could not be read."""

from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.engine_client import EngineClient
from tidegate.backends.metrics_pages import MetricsPages
from tidegate.core.types import Address

BUSY = "llamacpp:requests_processing 3\nllamacpp:requests_deferred 1\n"
AWAKE = '{"is_sleeping": false}'


@asynccontextmanager
async def engine(page, props):
    """A llama.cpp server as far as its page goes; each is a body, or a status."""

    def with_answer(said):
        async def handle(_):
            return web.Response(status=said) if isinstance(said, int) else web.Response(text=said)

        return handle

    app = web.Application()
    app.router.add_get("/metrics", with_answer(page))
    app.router.add_get("/props", with_answer(props))
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield Address("127.0.0.1", site._server.sockets[0].getsockname()[1])
    finally:
        await runner.cleanup()


async def read(address, adapter="llamacpp"):
    pages, client = MetricsPages(), EngineClient()
    try:
        return await pages.read(client, "m-1", "m", address, ADAPTERS[adapter], 2.0), pages.unread["m"]
    finally:
        await client.close()


@pytest.mark.parametrize(
    "page,props,running,unread",
    [
        (BUSY, AWAKE, 3, 0),
        (BUSY, '{"is_sleeping": true}', None, 0),
        (500, AWAKE, None, 1),
        (BUSY, 503, None, 1),
        ("another_engine:requests 3\n", AWAKE, None, 1),  # a version that names everything anew
    ],
)
async def test_what_cannot_be_read_is_counted_and_is_no_idle_engine(page, props, running, unread):
    async with engine(page, props) as address:
        report, counted = await read(address)
    assert (report and report.running, counted) == (running, unread)


async def test_an_engine_that_is_gone_counts_and_one_without_a_page_does_not():
    async with engine(BUSY, AWAKE) as address:
        assert await read(address, "openai") == (None, 0)
    assert await read(address) == (None, 1)
