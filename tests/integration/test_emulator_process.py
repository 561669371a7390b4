"""The emulator as a process: how it ends, and what it weighs."""

import asyncio
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from integration.emulator_world import DONE, emulated_process, wait_until


async def begun(client, **body):
    """A stream of which the first token has come, and the task that reads the rest."""
    task = asyncio.create_task(client.stream(ignore_eos=True, **body))

    async def is_running():
        return (await client.state())["running"] == 1

    await wait_until(is_running)
    return task


async def test_told_to_end_it_drains_like_vllm_with_a_shutdown_timeout():
    async with emulated_process("--time-scale", "5") as client:
        running = await begun(client, max_tokens=500)
        client.process.send_signal(signal.SIGTERM)

        async def is_ending():
            return (await client.chat(max_tokens=1))[0] == 500

        await wait_until(is_ending)
        assert await client.is_healthy()
        seen = await running
        assert await asyncio.wait_for(client.process.wait(), 10) == 0

    assert seen.finish_reason == "length"
    assert len(seen.text) == 2000


async def test_a_drain_that_takes_too_long_ends_in_an_abort():
    async with emulated_process("--shutdown-timeout", "100ms") as client:
        running = await begun(client, max_tokens=100_000)
        client.process.send_signal(signal.SIGTERM)
        seen = await running
        assert await asyncio.wait_for(client.process.wait(), 10) == 0
    assert (seen.finish_reason, seen.events[-1]) == ("abort", DONE)


async def test_told_to_end_it_aborts_like_vllm_by_default():
    async with emulated_process("--on-sigterm", "abort") as client:
        running = await begun(client, max_tokens=100_000)
        client.process.send_signal(signal.SIGTERM)
        seen = await running
        assert await asyncio.wait_for(client.process.wait(), 10) == 0

    assert seen.is_whole
    assert (seen.finish_reason, seen.events[-1]) == ("abort", DONE)


async def test_told_to_end_it_cuts_its_streams():
    async with emulated_process("--on-sigterm", "cut") as client:
        running = await begun(client, max_tokens=100_000)
        client.process.send_signal(signal.SIGTERM)
        seen = await running
        assert await asyncio.wait_for(client.process.wait(), 10) == 0
    assert not seen.is_whole


async def test_a_crash_ends_the_process():
    async with emulated_process() as client:
        with pytest.raises(aiohttp.ClientError):
            await client.fault("crash")
        assert await asyncio.wait_for(client.process.wait(), 10) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_hundred_streams_fit_into_sixty_megabytes():
    async with emulated_process("--time-scale", "10") as client:
        await asyncio.gather(
            *(client.stream("x" * 4000, max_tokens=200, ignore_eos=True) for _ in range(100))
        )
        status = Path(f"/proc/{client.process.pid}/status").read_text()
    peak_kb = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
    assert peak_kb < 60_000


@pytest.mark.parametrize(
    "arguments,said",
    [
        (["--profile", "gpt-9"], "profile is 'gpt-9'; known are"),
        (["--time-scale", "0"], "time-scale is 0; it must be above 0 and at most 10000"),
        (["--max-sequences", "0"], "max-sequences is 0; it must be at least 1"),
        (["--fault", "melt"], "fault is 'melt'; allowed are slow, hang"),
        (["--cold-start", "disk=3s"], "cold-start: 'disk' is not known; allowed are procurement, image"),
        (["--max-sequences", "100000"], "max_step_tokens is 8192; it must be at least max_sequences"),
    ],
)
async def test_a_command_line_that_cannot_work_says_why(arguments, said):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tidegate.emulator", *arguments), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert said in errors.decode()


async def test_a_taken_port_is_named():
    async with emulated_process() as client:
        port = client.url.rsplit(":", 1)[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidegate.emulator", "--port", port), stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
    assert process.returncode == 1
    assert f"127.0.0.1:{port}: " in errors.decode()
    assert "in use" in errors.decode()
