"""The emulated engine falls asleep and wakes as a vLLM does that was started with ``--enable-sleep-mode``."""

import asyncio
import time

import pytest

from integration.emulator_world import CHAT, client_of, emulated, options, wait_until
from tidegate.adapters.vllm import Vllm
from tidegate.emulator.options import cold_start
from tidegate.emulator.server import emulator

TIMES = cold_start("weights=20s,wake=10s,sleep=5s")


async def order(client, path, **body):
    asked = {"json": body} if body else {}
    async with client.session.post(client.url + path, **asked) as answer:
        return answer.status, await answer.text()


async def is_sleeping(client):
    return (await client.get("/is_sleeping"))[1]["is_sleeping"]


async def timed_s(doing):
    began_s = time.monotonic()
    await doing
    return time.monotonic() - began_s


async def test_asleep_it_is_healthy_and_keeps_a_request_until_it_wakes():
    async with emulated() as client:
        assert await order(client, "/sleep?level=1") == (200, "")
        assert await is_sleeping(client)
        assert await client.is_healthy()
        waiting = asyncio.create_task(client.chat("hello", max_tokens=3))

        async def is_queued():
            return (await client.state())["waiting"] == 1

        await wait_until(is_queued)
        assert Vllm().metrics(await client.metrics()).waiting == 1
        assert await order(client, "/wake_up") == (200, "")
        assert not await is_sleeping(client)
        status, answer = await waiting

    assert status == 200
    assert answer["usage"]["completion_tokens"] == 3


async def test_its_metrics_page_says_how_deep_it_sleeps():
    async with emulated() as client:
        seen = [await client.metrics()]
        for level in (1, 2):
            await order(client, f"/sleep?level={level}")
            seen.append(await client.metrics())
            await order(client, "/wake_up")

    states = [
        {
            line.split('sleep_state="')[1].split('"')[0]
            for line in page.splitlines()
            if line.startswith("vllm:engine_sleep_state") and line.endswith(" 1.0")
        }
        for page in seen
    ]
    assert states == [{"awake"}, {"weights_offloaded"}, {"discard_all"}]
    assert [Vllm().metrics(page).is_sleeping for page in seen] == [False, True, True]


async def test_falling_asleep_waking_and_reading_weights_take_what_the_cold_start_says():
    async with emulated(cold_start=TIMES, time_scale=100.0) as client:
        slept_s = await timed_s(order(client, "/sleep?level=2"))
        woken_s = await timed_s(order(client, "/wake_up"))
        read_s = await timed_s(order(client, "/collective_rpc", method="reload_weights"))

    assert slept_s >= 0.05
    assert woken_s >= 0.10
    assert read_s >= 0.20


async def test_a_running_stream_ends_with_abort_when_it_is_put_to_sleep():
    async with emulated(time_scale=1.0) as client:
        stream = asyncio.create_task(client.stream("hello", max_tokens=5_000, ignore_eos=True))

        async def runs():
            return (await client.state())["running"] == 1

        await wait_until(runs)
        await order(client, "/sleep")
        seen = await stream
        state = await client.state()

    assert seen.finish_reason == "abort"
    assert seen.events[-1] == "[DONE]"
    assert state["kv_blocks_used"] == 0


async def test_it_may_wait_for_what_runs_before_it_sleeps():
    async with emulated(time_scale=20.0) as client:
        stream = asyncio.create_task(client.stream("hello", max_tokens=400, ignore_eos=True))

        async def runs():
            return (await client.state())["running"] == 1

        await wait_until(runs)
        await order(client, "/sleep?mode=wait")
        assert await is_sleeping(client)
        seen = await asyncio.wait_for(stream, 1.0)

    assert seen.finish_reason == "length"
    assert len(seen.text) == 4 * 400


async def test_a_stream_that_is_kept_goes_on_where_it_was():
    async with emulated(time_scale=20.0) as client:
        whole = await client.stream("hello", max_tokens=300, ignore_eos=True)
        stream = asyncio.create_task(client.stream("hello", max_tokens=300, ignore_eos=True))

        async def runs():
            return (await client.state())["running"] == 1

        await wait_until(runs)
        await order(client, "/sleep?mode=keep")
        assert (await client.state())["kv_blocks_used"] == 0
        assert not stream.done()
        await order(client, "/wake_up")
        seen = await stream

    assert seen.text == whole.text
    assert seen.finish_reason == "length"


async def test_nothing_is_cached_after_sleep():
    words = "w" * 400
    async with emulated() as client:
        await client.chat(words, max_tokens=1)
        _, warm = await client.chat(words, max_tokens=1)
        await order(client, "/sleep")
        await order(client, "/wake_up")
        _, cold = await client.chat(words, max_tokens=1)

    assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_it_sleeps_until_both_parts_are_awake():
    async with emulated() as client:
        await order(client, "/sleep")
        await order(client, "/wake_up?tags=weights")
        assert await is_sleeping(client)
        await order(client, "/wake_up?tags=nothing")
        assert await is_sleeping(client)
        await order(client, "/wake_up?tags=kv_cache")
        assert not await is_sleeping(client)


async def test_after_level_two_it_answers_garbage_until_it_has_its_weights():
    async def says(client):
        return (await client.chat("hello", max_tokens=5))[1]["choices"][0]["message"]["content"]

    async with emulated() as client:
        sense = await says(client)
        await order(client, "/sleep?level=2")
        assert (await order(client, "/collective_rpc", method="reload_weights"))[0] == 500
        await order(client, "/wake_up?tags=weights")
        await order(client, "/wake_up?tags=kv_cache")
        garbage = await says(client)
        assert (await order(client, "/collective_rpc", method="reload_weights"))[0] == 200
        again = await says(client)

    assert garbage == "!!! " * 5
    assert again == sense


async def test_a_hang_that_ends_does_not_wake_it():
    async with emulated() as client:
        await client.fault("hang")
        await order(client, "/sleep")
        await client.clear_faults()
        waiting = asyncio.create_task(client.chat("hello", max_tokens=1))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await order(client, "/wake_up")
        assert (await waiting)[0] == 200


async def test_whoever_hangs_up_has_ordered_it_all_the_same():
    async with emulated(cold_start=TIMES, time_scale=20.0) as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(order(client, "/sleep"), 0.05)
        await wait_until(lambda: is_sleeping(client))


@pytest.mark.parametrize(
    "path,said",
    [
        ("/sleep?level=3", "level is '3'; it must be 1 or 2"),
        ("/sleep?level=", "level is ''; it must be 1 or 2"),
        ("/sleep?mode=now", "mode is 'now'; it must be one of abort, wait, keep"),
    ],
)
async def test_an_order_that_makes_no_sense_is_refused(path, said):
    async with emulated() as client:
        status, answer = await order(client, path)
        assert not await is_sleeping(client)
    assert status == 400
    assert said in answer


async def test_a_vllm_without_sleep_mode_knows_none_of_this():
    async with emulated(sleep_mode=False) as client:
        found = [(await order(client, path))[0] for path in ("/sleep", "/wake_up", "/collective_rpc")]
    assert found == [404, 404, 404]


async def test_the_first_request_waits_longer_than_the_others():
    async with emulated(cold_start=cold_start("first_request=20s"), time_scale=100.0) as client:
        first_s = await timed_s(client.post(CHAT, messages=[{"role": "user", "content": "a"}], max_tokens=1))
        second_s = await timed_s(client.post(CHAT, messages=[{"role": "user", "content": "b"}], max_tokens=1))

    assert first_s >= 0.2
    assert second_s < first_s


@pytest.mark.parametrize(
    "tier,passed",
    [
        ("cold", ["procurement", "image", "weights", "compile", "engine_start"]),
        ("cached", ["weights", "compile", "engine_start"]),
        ("sleeping", ["wake"]),
        ("warm", []),
        ("serving", []),
    ],
)
async def test_a_start_passes_through_what_its_tier_lacks(tier, passed):
    text = "procurement=1h,image=10m,weights=1m,compile=5m,cached_compile=8s,engine_start=20s,wake=3s"
    made = options(cold_start=cold_start(f"{text},first_request=2s"), tier=type(options().tier)(tier))
    stages = list(made.starting())

    assert [stage.kind.value for stage in stages] == passed
    assert made.first_request_s == (2.0 if tier in ("cold", "cached") else 0.0)
    if tier == "cached":
        assert [stage.median_s for stage in stages] == [60.0, 8.0, 20.0]


async def test_it_cannot_be_put_to_sleep_before_it_serves():
    made = options(cold_start=cold_start("1h"), time_scale=1.0)
    async with emulator(made) as server, client_of(server.url) as client:
        status, answer = await order(client, "/sleep")
    assert status == 503
    assert "Loading model: engine_start" in answer
