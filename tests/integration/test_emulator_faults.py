"""The emulator breaks as ordered, and heals when told."""

import asyncio

import aiohttp
import pytest

from integration.emulator_world import DONE, emulated, wait_until
from tidegate.emulator.faults import Fault


async def test_an_abort_looks_like_a_clean_end():
    async with emulated(faults=(Fault.parse("abort:after_tokens=5"),)) as client:
        seen = await client.stream(max_tokens=50, ignore_eos=True)
        _, whole = await client.chat(max_tokens=50, ignore_eos=True)

    assert seen.is_whole
    assert seen.events[-1] == DONE
    assert seen.finish_reason == "abort"
    assert len(seen.text) == 20
    assert whole["choices"][0]["finish_reason"] == "abort"
    assert whole["usage"]["completion_tokens"] == 5


async def test_a_cut_ends_the_connection_after_so_many_tokens():
    async with emulated(faults=(Fault.parse("cut:after_tokens=5"),)) as client:
        seen = await client.stream(max_tokens=50, ignore_eos=True)
        with pytest.raises(aiohttp.ClientError):
            await client.chat(max_tokens=50, ignore_eos=True)

        async def is_free():
            return (await client.state())["running"] == 0

        await wait_until(is_free)

    assert not seen.is_whole
    assert len(seen.text) == 20
    assert DONE not in seen.events


async def test_every_third_request_is_hit():
    async with emulated(faults=(Fault.parse("status:code=502,every=3"),)) as client:
        statuses = [(await client.chat(max_tokens=1))[0] for _ in range(7)]
    assert statuses == [200, 200, 502, 200, 200, 502, 200]


async def test_a_fault_lets_so_many_requests_pass():
    async with emulated(faults=(Fault.parse("status:code=500,after=2"),)) as client:
        statuses = [(await client.chat(max_tokens=1))[0] for _ in range(4)]
    assert statuses == [200, 200, 500, 500]


async def test_a_silent_request_gets_no_byte_until_the_fault_is_cleared():
    async with emulated(faults=(Fault.parse("silent"),)) as client:
        silent = asyncio.create_task(client.chat(max_tokens=1))

        async def is_received():
            return (await client.state())["received_total"] == 1

        await wait_until(is_received)
        assert not silent.done()
        assert await client.clear_faults() == 204
        status, _ = await silent
    assert status == 200


async def test_a_hung_engine_is_healthy_and_silent():
    async with emulated(faults=(Fault.parse("hang:after=1"),)) as client:
        assert (await client.stream(max_tokens=5)).is_whole
        hung = asyncio.create_task(client.stream(max_tokens=5))

        async def is_received():
            return (await client.state())["received_total"] == 2

        await wait_until(is_received)
        state = await client.state()
        assert await client.is_healthy()
        assert state["faults"] == ["hang"]
        assert state["completed_total"] == 1
        assert not hung.done()
        await client.clear_faults()
        assert (await hung).is_whole


async def test_a_hang_that_is_over_by_itself():
    async with emulated(faults=(Fault.parse("hang:for=100ms"),)) as client:
        assert (await client.stream(max_tokens=5)).is_whole


async def test_a_slow_engine_takes_longer_for_the_same_tokens():
    async with emulated(time_scale=200.0) as client:

        async def model_seconds(words):
            await client.chat(words, max_tokens=200, ignore_eos=True)
            page = await client.metrics()
            return sum(
                float(line.split()[-1])
                for line in page.splitlines()
                if line.startswith("vllm:request_decode_time_seconds_sum")
            )

        plain_s = await model_seconds("a")
        await client.fault("slow:factor=20")
        slow_s = await model_seconds("b") - plain_s
        await client.clear_faults()
        plain_again_s = await model_seconds("c") - slow_s - plain_s

    assert slow_s == pytest.approx(20 * plain_s, rel=0.05)
    assert plain_again_s == pytest.approx(plain_s, rel=0.05)


async def test_a_refusing_engine_serves_again():
    async with emulated(faults=()) as client:
        await client.fault("refuse:for=100ms")

        async def is_refused():
            return not await client.is_healthy()

        await wait_until(is_refused)
        await wait_until(client.is_healthy)
        assert (await client.chat(max_tokens=1))[0] == 200


async def test_a_crash_resets_every_connection():
    async with emulated() as client:
        running = asyncio.create_task(client.stream(max_tokens=100_000, ignore_eos=True))

        async def is_running():
            return (await client.state())["running"] == 1

        await wait_until(is_running)
        with pytest.raises(aiohttp.ClientError):
            await client.fault("crash")
        seen = await running
        assert not seen.is_whole
        assert not await client.is_healthy()


async def test_a_fault_that_cannot_be_read_is_answered_with_what_is_allowed():
    async with emulated() as client:
        status, said = await client.fault("slow:factor=fast")
    assert status == 400
    assert "fault slow: factor is 'fast'; it must be a number above 0" in said
