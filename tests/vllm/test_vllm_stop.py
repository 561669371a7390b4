"""Ending a real vLLM, which is three processes, while it works."""

import asyncio

import pytest

from conformance.worlds import stop
from engines.waiting import wait_until
from tidegate.backends.local import processes
from tidegate.core.lifecycle import Seen

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="module")]


async def test_a_stop_lets_the_running_request_finish_and_leaves_no_process(replica):
    running = asyncio.create_task(replica.complete(max_tokens=300))
    reported = len(replica.observer.reports("r1"))
    await wait_until(lambda: any(e.running for e in replica.observer.reports("r1")[reported:]), within_s=30.0)
    left = processes.marked(replica.fleet_id)["r1"]
    assert len(left) > 1, "an engine core of its own, which must not outlive the server"

    stop(replica.fleet, "r1")
    answer = await running
    await replica.observer.until("r1", Seen.EXITED, within_s=60.0)

    assert answer["choices"][0]["finish_reason"] == "length"
    assert processes.marked(replica.fleet_id) == {}
