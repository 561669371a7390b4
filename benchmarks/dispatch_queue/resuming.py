"""Streams killed in their middle, through the real gateway and emulated engines: what clients read."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import aiohttp

from benchmarks.dispatch_queue.live import MODEL, live_fleet
from tidegate.core.settings import DispatchConfig
from tidegate.emulator import text

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
    config = DispatchConfig(resume=True, max_retries=5)
    world = live_fleet(config, engines=ENGINES, slots=32, time_scale=20.0)
    async with world as fleet, aiohttp.ClientSession() as session:
        number, records = 0, fleet.records
        while found.kills < kills:
            for engine in fleet.engines:
                await fleet.fault(engine, f"cut:after_tokens={1 + dice.randrange(TOKENS - 4)},every=3")
            streams = (_stream(session, fleet.url, f"question {number + n}", found) for n in range(AT_ONCE))
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
