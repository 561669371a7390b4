"""Clients and engines that do everything wrong, through the real gateway: each request ends once, nothing is left."""

import logging

import pytest

from benchmarks.dispatch_queue.emulated import emulated


# One that is accepted in the moment in which its engine dies is closed by the collector. What the gateway has open is
# counted, and must be none.
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
