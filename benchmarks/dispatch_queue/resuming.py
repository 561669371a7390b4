"""Streams killed in their middle, through the real gateway and emulated engines: what clients read."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random

import aiohttp

from tidegate.adapters.emulated import Emulated
from tidegate.config.settings import GatewaySettings
from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import Record
from tidegate.core.events import ModelsConfigured, Tick
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig
from tidegate.core.types import Address, ModelId, ModelRoute, ReplicaId, Route, RouteTable
from tidegate.emulator import text
from tidegate.emulator.options import EmulatorOptions
from tidegate.emulator.server import emulator
from tidegate.gateway import Gateway
from tidegate.runtime.clock import WallClock
from tidegate.runtime.dispatching import DispatchOwner
from tidegate.runtime.journal import NoJournal

MODEL = ModelId("m")
ENGINES = 3
AT_ONCE = 16
TOKENS = 64


@dataclass(slots=True)
class Resumed:
    """How clients' streams ended, and how often one was killed."""

    kills: int = 0
    identical: int = 0
    told: int = 0
    """Ended with an explicit error."""
    false_ends: int = 0
    """Called complete, and not the same text."""
    resumed: int = 0
    attempts: dict[int, int] = field(default_factory=dict)


async def resumed(seed: int, kills: int) -> Resumed:
    """Streams until that many were killed. Every third one at an engine is cut, somewhere."""
    found, dice = Resumed(), Random(seed)
    records: list[Record] = []
    async with _world(records) as (url, engines), aiohttp.ClientSession() as session:
        number = 0
        while found.kills < kills:
            for engine in engines:
                spec = f"cut:after_tokens={1 + dice.randrange(TOKENS - 4)},every=3"
                async with session.delete(f"{engine}/emulator/fault") as answer:
                    answer.raise_for_status()
                async with session.post(f"{engine}/emulator/fault", data=spec) as answer:
                    answer.raise_for_status()
            streams = (_stream(session, url, f"question {number + n}", found) for n in range(AT_ONCE))
            await asyncio.gather(*streams)
            number += AT_ONCE
            found.attempts = dict(Counter(record.attempts for record in records))
            found.kills = sum((tries - 1) * count for tries, count in found.attempts.items()) + found.told
    found.resumed = sum(1 for record in records if record.attempts > 1)
    return found


async def _stream(session: aiohttp.ClientSession, url: str, question: str, found: Resumed) -> None:
    body = {"model": MODEL, "stream": True, "max_tokens": TOKENS, "ignore_eos": True}
    body["messages"] = [{"role": "user", "content": question}]
    expected = text.answer(text.chat_prompt([("user", question)]), TOKENS)
    read, is_complete, is_told = "", False, False
    with contextlib.suppress(aiohttp.ClientError):
        async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
            async for line in answer.content:
                if line.startswith(b"data: [DONE]"):
                    is_complete = True
                elif line.startswith(b"data: "):
                    said = json.loads(line[6:])
                    is_told = is_told or "error" in said
                    for choice in said.get("choices") or ():
                        read += choice["delta"].get("content") or ""
    if is_complete and read == expected:
        found.identical += 1
    elif is_complete:
        found.false_ends += 1
    elif is_told and expected.startswith(read):
        found.told += 1
    else:
        found.false_ends += 1


@contextlib.asynccontextmanager
async def _world(records: list[Record]) -> AsyncIterator[tuple[str, list[str]]]:
    options = EmulatorOptions(port=0, model=MODEL, time_scale=20.0)
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(emulator(options)) for _ in range(ENGINES)]
        urls = [server.url for server in servers]
        owner = DispatchOwner(
            Dispatcher(), WallClock(), NoJournal(), on_report=lambda _: None, on_record=records.append
        )
        settings = GatewaySettings(port=0)
        gateway = Gateway(
            owner,
            settings,
            models=lambda: [MODEL],
            manners=lambda _: Emulated.manners,
            resumes=lambda _: True,
        )
        owner.handle(ModelsConfigured({MODEL: DispatchConfig(resume=True, max_retries=5)}))
        routes = tuple(
            Route(
                ReplicaId(f"m-{number}"),
                MODEL,
                State.SERVING,
                Address("127.0.0.1", int(url.rsplit(":", 1)[1])),
                32,
                "emulated",
            )
            for number, url in enumerate(urls)
        )
        async with aiohttp.ClientSession() as session:
            for url in urls:
                while (await session.get(f"{url}/health")).status != 200:
                    await asyncio.sleep(0.01)
        owner.publish(RouteTable(1, (ModelRoute(MODEL, can_serve=True),), routes))
        host, port = await gateway.start()
        ticking = asyncio.create_task(_tick(owner))
        try:
            yield f"http://{host}:{port}", urls
        finally:
            ticking.cancel()
            await gateway.close()
            owner.cease()


async def _tick(owner: DispatchOwner) -> None:
    while True:
        await asyncio.sleep(0.05)
        owner.handle(Tick())
