"""The first request arrives at zero replicas, waits, and is answered by a real engine."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import openai

from system import journals, policies
from system.clients import Ask, How, ask
from system.figures import Figure, exactly, never, some
from system.policies import TINY
from system.product import Product, product
from system.watched_engine import Mark, notes

EXAMPLE = Path(__file__).parents[3] / "examples" / "smollm2-llamacpp.yaml"
TOKENS = 24
SLOW, COLD_START = "slow", "3s"
READY_TO_DISPATCH_MS = 50.0


async def first_request(folder: Path, weights: Path, rounds: int) -> list[Figure]:
    """So many times from zero replicas; the slowest counts."""
    waits_ms, colds_s, curls = [], [], 0
    for number in range(rounds):
        async with product(policies.only(TINY, policies.tiny(weights, 0, 1)), folder / str(number)) as p:
            assert not p.replica_processes(), "it started an engine before anybody asked"
            colds_s.append(await _streamed_with_the_sdk(p))
            curls += await _streamed_with_curl(p)
            assert await p.stop() == 0
            left = len(p.replica_processes())
        waits_ms.append(1000 * journals.ready_to_dispatch_s(p.journal_dir))
    return [
        Figure("first requests at zero replicas, streamed with the openai SDK", rounds),
        Figure("from ready to dispatch, slowest", max(waits_ms), "ms", at_most=READY_TO_DISPATCH_MS),
        Figure("from first request to first token, slowest", max(colds_s), "s"),
        exactly("streamed with curl", curls, rounds if shutil.which("curl") else 0),
        Figure(
            "from an engine's own readiness to its first request", await _noticed_ms(folder / "cold"), "ms"
        ),
        never("processes left behind", left),
    ]


async def make_serve(folder: Path) -> list[Figure]:
    """The policy that ``make serve`` runs: a real model with real words."""
    async with product(EXAMPLE, folder) as p:
        began_s = time.monotonic()
        async with openai.AsyncOpenAI(base_url=f"{p.url}/v1", api_key="none", max_retries=0) as client:
            (model,) = [model.id async for model in client.models.list()]
            messages = [{"role": "user", "content": "Say hello in one short sentence."}]
            stream = await client.chat.completions.create(
                model=model, messages=messages, max_tokens=24, temperature=0, stream=True
            )
            words = [event.choices[0].delta.content or "" async for event in stream if event.choices]
        took_s = time.monotonic() - began_s
        assert await p.stop() == 0
    return [
        Figure("from zero replicas to a whole sentence", took_s, "s"),
        some("words of the sentence", len("".join(words).split())),
        never("processes left behind", len(p.replica_processes())),
    ]


async def _noticed_ms(folder: Path) -> float:
    """An engine that takes its time: how long it was ready before it got the request that waited for it."""
    slow = policies.emulated(folder / "notes", 0, 1, "--cold-start", COLD_START)
    async with product(policies.only(SLOW, slow), folder) as p:
        answer = await ask(p.url, Ask(SLOW))
        assert answer.how is How.COMPLETE, answer
    (lines,) = notes(folder / "notes").values()
    at_s = {note.mark: note.at_s for note in lines}
    return 1000 * (at_s[Mark.BEGUN] - at_s[Mark.READY])


async def _streamed_with_the_sdk(p: Product) -> float:
    """Seconds to the first token; the model comes up meanwhile."""
    began_s, first_s, text, finished = time.monotonic(), None, "", None
    async with openai.AsyncOpenAI(base_url=f"{p.url}/v1", api_key="none", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == [TINY], "a model at zero is listed"
        stream = await client.chat.completions.create(
            model=TINY,
            messages=[{"role": "user", "content": "When is high water?"}],
            max_tokens=TOKENS,
            temperature=0,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        async for event in stream:
            if event.choices and event.choices[0].delta.content:
                text += event.choices[0].delta.content
                first_s = first_s or time.monotonic() - began_s
            finished = (event.choices[0].finish_reason if event.choices else None) or finished
    assert (len(text), finished) == (TOKENS, "length"), "one token of the tiny model is one letter"
    assert first_s is not None
    return first_s


async def _streamed_with_curl(p: Product) -> int:
    """1 when it went well, 0 without curl."""
    if shutil.which("curl") is None:
        return 0
    body = f'{{"model":"{TINY}","messages":[{{"role":"user","content":"hi"}}],"max_tokens":8,"stream":true}}'
    process = await asyncio.create_subprocess_exec(
        *("curl", "-sSN", "--fail", "--max-time", "60", f"{p.url}/v1/chat/completions"),
        *("-H", "content-type: application/json", "-d", body),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out
    assert out.startswith(b"data: {"), out
    assert out.endswith(b"data: [DONE]\n\n"), out
    return 1
