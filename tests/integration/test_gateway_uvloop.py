"""The gateway on uvloop: the stories told on asyncio's loop, and one that only uvloop tells.

The two loops differ in when they tell of a connection's end, and in what they tell of one that is cancelled.
"""

import asyncio
import inspect

import pytest
import uvloop

from integration import (
    test_gateway_departures,
    test_gateway_failures,
    test_gateway_relay,
    test_gateway_spill,
)
from integration.gateway_world import Engine, chat, post, wait_until, world
from integration.test_gateway_spill import certificate  # noqa: F401 (fixture)
from tidegate.gateway.upstream import UpstreamConnection

STORIES = [
    story
    for module in (test_gateway_departures, test_gateway_failures, test_gateway_relay, test_gateway_spill)
    for name, story in vars(module).items()
    if name.startswith("test_")
    and inspect.iscoroutinefunction(story)
    and not inspect.signature(story).parameters
]


@pytest.mark.parametrize("story", STORIES)
def test_it_is_the_same_on_uvloop(story):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())


def test_a_request_is_spilt_over_tls_on_uvloop_too(certificate, monkeypatch):  # noqa: F811 (fixture)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_gateway_spill.test_over_tls_to_whom_the_machine_trusts(certificate, monkeypatch))


async def _leave_as_the_engine_is_reached(monkeypatch):
    async with world(Engine()) as w:
        client = await w.connect()
        made = UpstreamConnection.connection_made
        reached = []

        def connection_made(self, transport):
            made(self, transport)
            reached.append(self)
            client.cut()
            (call,) = w.gateway._porter._calls.values()
            w.gateway._desk.gone(call)

        monkeypatch.setattr(UpstreamConnection, "connection_made", connection_made)
        await client.send(post(chat()))
        await wait_until(lambda: reached and w.outcomes() == ["client_gone"])
        await wait_until(w.at_rest)
        assert w.gateway.upstream_connections == 0


def test_a_client_that_leaves_as_its_engine_is_reached_leaves_no_connection_behind(monkeypatch):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_leave_as_the_engine_is_reached(monkeypatch))
