"""Clients and engines that do everything wrong, through the real gateway: each request ends once, nothing is left."""

import logging

import pytest

from benchmarks.dispatch_queue.emulated import emulated


# An engine here dies by closing its asyncio server. A connection that was accepted in that same turn of the loop gets its
# transport in the next one, where ``Server._attach`` of Python 3.11 asserts that the server is open: the new socket and
# transport are dropped unclosed, and the collector says so. It is once in some thousand requests, and on the side of the
# engine that dies. What the gateway has open is counted below, and must be none.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(
    "requests", [400, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
async def test_each_request_ends_once_as_its_client_saw_it_and_nothing_is_left(requests, caplog):
    caplog.set_level(logging.CRITICAL, "aiohttp")  # Engines that are cut off say so.

    found = await emulated(seed=11, requests=requests)

    assert (found.ended_otherwise, found.untrue, found.left) == (0, 0, 0)
    assert sum(found.outcomes.values()) == requests
    assert found.outcomes["completed"] > requests // 4
    assert found.outcomes["client_gone"] > 0
