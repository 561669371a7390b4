"""The process that fetches: killed in the middle, twice at once, and never outliving who ordered it."""

import asyncio
import os
import signal
import sys

import msgspec
import pytest

from integration.gateway_world import wait_until
from integration.weights_world import MIB, Sources, noise, serving, sha256
from tidegate.weights.protocol import Done, Failed, Going, Order, Told
from tidegate.weights.source import parsed
from tidegate.weights.store import Store

DATA = noise(8 * MIB)


@pytest.fixture
async def server():
    async with serving(Sources()) as sources:
        sources.put("/m.gguf", DATA)
        yield sources


class Process:
    """One ``python -m tidegate.weights``."""

    def __init__(self, server, folder, **order):
        values = {
            "source": f"{server.url}/m.gguf",
            "sha256": sha256(DATA),
            "cache_dir": str(folder),
            "max_bytes": None,
            "connections": 4,
            "hub_endpoint": None,
            "s3_endpoint": None,
            "s3_region": None,
            "bytes_per_s": None,
        }
        self.order = Order(**{**values, **order})
        self.told = []

    async def __aenter__(self):
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "tidegate.weights", stdin=pipe, stdout=pipe
        )
        self._process.stdin.write(msgspec.json.encode(self.order) + b"\n")
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_):
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading

    async def _read(self):
        while line := await self._process.stdout.readline():
            self.told.append(msgspec.json.decode(line, type=Told))

    def kill(self):
        os.kill(self._process.pid, signal.SIGKILL)

    def say(self, line):
        self._process.stdin.write(line)

    def hang_up(self):
        self._process.stdin.close()

    async def wait(self):
        await self._process.wait()
        await self._reading
        return self.told[-1] if self.told else None


def kept(folder, server):
    pin = Store(folder).pin(parsed(f"{server.url}/m.gguf", sha256(DATA)))
    assert pin is not None
    data = pin.path.read_bytes()
    pin.let_go()
    return data


@pytest.mark.slow  # two kills and three starts of Python
async def test_killed_twice_in_the_middle_it_ends_with_the_very_bytes(server, tmp_path):
    async def slowly(asked, request):
        return await server.send(request, asked, DATA, pause_s=0.02)

    server.fault(slowly)
    for want in (2 * MIB, 5 * MIB):
        async with Process(server, tmp_path) as process:
            await wait_until(lambda want=want: server.sent_bytes > want, within_s=10)
            process.kill()
            await process.wait()
    server.faults.clear()

    async with Process(server, tmp_path) as process:
        last = await process.wait()

    assert isinstance(last, Done)
    assert kept(tmp_path, server) == DATA
    assert not list(tmp_path.glob("partial/*/*"))


async def test_bytes_that_were_noted_before_the_kill_are_not_sent_again(server, tmp_path):
    async def slowly(asked, request):
        return await server.send(request, asked, DATA, pause_s=0.1)

    server.fault(slowly)
    async with Process(server, tmp_path) as process:
        await wait_until(
            lambda: any(path.read_bytes().count(b"\n") > 1 for path in tmp_path.glob("partial/*/0/have")),
            within_s=10,
        )
        process.kill()
        await process.wait()
    server.faults.clear()
    async with Process(server, tmp_path) as process:
        last = await process.wait()

    assert isinstance(last, Done)
    assert 0 < last.fetched_bytes < len(DATA)
    assert kept(tmp_path, server) == DATA


async def test_two_processes_fetch_it_once(server, tmp_path):
    async with Process(server, tmp_path) as one, Process(server, tmp_path) as other:
        ends = [await one.wait(), await other.wait()]

    assert all(isinstance(end, Done) for end in ends)
    assert sum(asked.range == (0, 1) for asked in server.asked) == 1
    assert kept(tmp_path, server) == DATA


async def test_it_ends_when_whoever_ordered_it_is_gone(server, tmp_path):
    async def slowly(asked, request):
        return await server.send(request, asked, DATA, pause_s=0.1)

    server.fault(slowly)
    async with Process(server, tmp_path) as process:
        await wait_until(lambda: server.sent_bytes > 0, within_s=10)
        process.hang_up()
        async with asyncio.timeout(5):
            await process.wait()

    assert not any(isinstance(told, Done) for told in process.told)


async def test_a_limit_is_lifted_when_somebody_begins_to_wait(server, tmp_path):
    async with Process(server, tmp_path, bytes_per_s=64 * 1024) as process:
        # The whole would take two minutes.
        await wait_until(
            lambda: any(isinstance(t, Going) and t.done_bytes for t in process.told), within_s=10
        )
        process.say(b"null\n")
        async with asyncio.timeout(10):
            last = await process.wait()

    assert isinstance(last, Done)
    assert last.fetched_bytes == 0


async def test_why_it_failed_is_said_without_the_signature(server, tmp_path):
    source = f"{server.url}/gone.gguf?X-Amz-Signature=secret-signature"
    async with Process(server, tmp_path, source=source, sha256=None) as process:
        last = await process.wait()

    assert last == Failed(f"{server.url}/gone.gguf answers 404: there is nothing there")
