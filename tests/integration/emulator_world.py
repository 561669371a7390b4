"""An emulated engine in the test's own loop, or as a process, and a client that reads its streams."""

import asyncio
import contextlib
import json
import sys
import time
from dataclasses import dataclass, field

import aiohttp

from tidegate.emulator.options import EmulatorOptions
from tidegate.emulator.server import emulator

MODEL = "m"
CHAT = "/v1/chat/completions"
DONE = "[DONE]"


async def wait_until(condition, within_s=10.0, say=lambda: ""):
    """Return the first true answer of an async condition; fail with what is known when none comes."""
    end_s = time.monotonic() + within_s
    while not (found := await condition()):
        if time.monotonic() > end_s:
            message = f"{condition} did not come to hold within {within_s} s {say()}"
            raise AssertionError(message)
        await asyncio.sleep(0.005)
    return found


def options(**given):
    """Fifty times as fast as an H100: a token every 0.13 ms."""
    return EmulatorOptions(**{"port": 0, "model": MODEL, "time_scale": 50.0} | given)


@dataclass
class Streamed:
    """A stream as it came."""

    status: int = 0
    events: list = field(default_factory=list)
    is_whole: bool = False
    """The connection ended as HTTP demands."""

    @property
    def text(self):
        choices = [event["choices"][0] for event in self.events if event != DONE and event["choices"]]
        return "".join(choice.get("text") or choice.get("delta", {}).get("content", "") for choice in choices)

    @property
    def finish_reason(self):
        reasons = [
            event["choices"][0]["finish_reason"]
            for event in self.events
            if event != DONE and event["choices"]
        ]
        return next(filter(None, reasons), None)


class Client:
    """Speaks with one emulator."""

    def __init__(self, session, url):
        self.session = session
        self.url = url

    async def get(self, path):
        async with self.session.get(self.url + path) as answer:
            return answer.status, await answer.json()

    async def post(self, path, **body):
        async with self.session.post(self.url + path, json={"model": MODEL} | body) as answer:
            return answer.status, await answer.json()

    async def chat(self, words="hello", **body):
        return await self.post(CHAT, messages=[{"role": "user", "content": words}], **body)

    def opened(self, words="hello", path=CHAT, **body):
        """A stream to be read by hand."""
        asked = (
            {"prompt": words}
            if path == "/v1/completions"
            else {"messages": [{"role": "user", "content": words}]}
        )
        return self.session.post(self.url + path, json={"model": MODEL, "stream": True} | asked | body)

    async def stream(self, words="hello", **body):
        """A stream read to its end, whatever the end is."""
        seen = Streamed()
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            async with self.opened(words, **body) as answer:
                seen.status = answer.status
                async for line in answer.content:
                    if line.startswith(b"data: "):
                        data = line[6:].strip().decode()
                        seen.events.append(data if data == DONE else json.loads(data))
                seen.is_whole = True
        return seen

    async def state(self):
        return (await self.get("/emulator/state"))[1]

    async def metrics(self):
        async with self.session.get(self.url + "/metrics") as answer:
            return await answer.text()

    async def fault(self, spec):
        async with self.session.post(self.url + "/emulator/fault", data=spec) as answer:
            return answer.status, await answer.text()

    async def clear_faults(self):
        async with self.session.delete(self.url + "/emulator/fault") as answer:
            return answer.status

    async def is_healthy(self):
        try:
            async with self.session.get(self.url + "/health") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


@contextlib.asynccontextmanager
async def client_of(url):
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Client(session, url)


@contextlib.asynccontextmanager
async def emulated(**given):
    """A client of a fresh emulator that serves."""
    async with emulator(options(**given)) as server, client_of(server.url) as client:
        client.server = server
        await wait_until(client.is_healthy)
        yield client


@contextlib.asynccontextmanager
async def emulated_process(*arguments):
    """A client of an emulator that is a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tidegate.emulator", "--port", "0", "--model", MODEL, *arguments),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said = await asyncio.wait_for(process.stderr.readline(), 30)
        assert b" ready on " in said, said + await process.stderr.read()
        async with client_of(said.decode().split(" ready on ")[1].strip()) as client:
            client.process = process
            yield client
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        process._transport.close()
