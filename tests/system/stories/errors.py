"""Each error status reaches the openai SDK as the exception that its users catch."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import openai

from system import policies
from system.figures import Figure, exactly, never
from system.policies import TINY
from system.product import Product, product

KEY = "sk-tide-1"
COLD, BROKEN, BUSY = "cold", "broken", "busy"
FULL_AT = 2


async def errors(folder: Path, weights: Path) -> list[Figure]:
    """Provoke each status once."""
    async with product(_policy(folder, weights), folder) as p:
        wrong = [wrong for check in _CHECKS if (wrong := await check(p))]
    assert not wrong, "\n".join(wrong)
    return [
        exactly("error statuses with the SDK's right exception", len(_CHECKS) - len(wrong), len(_CHECKS)),
        never("processes left behind", len(p.replica_processes())),
    ]


def _policy(folder: Path, weights: Path) -> dict[str, Any]:
    """One model that works, one that loads for ever, one that cannot be started, one with a single slot."""
    busy = policies.emulated(folder / "notes", 1, 1, slots=1, queue={"max_requests": FULL_AT})
    cold = policies.emulated(
        folder / "notes", 0, 1, "--cold-start", "2h", slots=1, queue={"max_requests": FULL_AT}
    )
    broken = {
        **policies.emulated(folder / "notes", 0, 1),
        "command": ["/bin/false", "{port}"],
        "restarts": {"give_up_after": 1, "retry_failed": "1h"},
    }
    return {
        "gateway": {
            "keys": [{"name": "crew", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}],
            "max_body_size": "64KiB",
        },
        "models": {TINY: policies.tiny(weights, 0, 1), COLD: cold, BROKEN: broken, BUSY: busy},
    }


async def _says(
    p: Product,
    error: type[openai.APIStatusError],
    status: int,
    *,
    key: str = KEY,
    model: str = TINY,
    content: Any = "hi",
    retry_after: bool = False,
    **more: Any,
) -> str:
    """Ask, and return what is wrong with the exception; empty when nothing is."""
    async with openai.AsyncOpenAI(base_url=f"{p.url}/v1", api_key=key, max_retries=0) as client:
        messages = [{"role": "user", "content": content}]
        try:
            await client.chat.completions.create(model=model, messages=messages, **more)
        except openai.APIStatusError as raised:
            seen = (type(raised), raised.status_code)
            if seen != (error, status):
                return f"{status}: {raised!r}"
            if not isinstance(raised.body, dict) or not {"message", "type", "code"} <= raised.body.keys():
                return f"{status}: not OpenAI's shape: {raised.body}"
            if retry_after and int(raised.response.headers.get("retry-after", 0)) < 1:
                return f"{status}: no Retry-After"
            return ""
        return f"{status}: it was answered"


async def _malformed(p: Product) -> str:
    return await _says(p, openai.BadRequestError, 400, extra_body={"max_tokens": "many"})


async def _too_long_for_the_engine(p: Product) -> str:
    return await _says(p, openai.BadRequestError, 400, content="tide " * 2000)


async def _wrong_key(p: Product) -> str:
    return await _says(p, openai.AuthenticationError, 401, key="sk-other")


async def _unknown_model(p: Product) -> str:
    return await _says(p, openai.NotFoundError, 404, model="no-such-model")


async def _too_large(p: Product) -> str:
    return await _says(p, openai.APIStatusError, 413, content="x" * 70_000)


async def _cannot_be_started(p: Product) -> str:
    return await _says(p, openai.InternalServerError, 503, model=BROKEN, retry_after=True)


async def _expired(p: Product) -> str:
    headers = {"x-request-timeout-s": "0.3"}
    return await _says(
        p, openai.InternalServerError, 503, model=COLD, extra_headers=headers, retry_after=True
    )


async def _queue_full(p: Product) -> str:
    """As many wait as may, beside the one at work; the next one is told when to come back."""
    return await _no_room(p, BUSY, FULL_AT + 1, openai.RateLimitError, 429)


async def _queue_full_and_nobody_serves(p: Product) -> str:
    return await _no_room(p, COLD, FULL_AT, openai.InternalServerError, 503)


async def _no_room(
    p: Product, model: str, count: int, error: type[openai.APIStatusError], status: int
) -> str:
    endless = {"max_tokens": 20_000, "extra_body": {"ignore_eos": True}}

    async def keep_asking() -> None:
        # An answer ends with the model's context, which a fast machine reaches within a second.
        while True:
            await _says(p, openai.APIStatusError, 0, model=model, **endless)
            await asyncio.sleep(0.01)

    waiting = [asyncio.create_task(keep_asking()) for _ in range(count)]

    async def all_wait() -> bool:
        return await p.metric("tidegate_open_requests") == count

    await p.wait_until(all_wait, 30.0)
    wrong = await _says(p, error, status, model=model, retry_after=True)
    for client in waiting:
        client.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await p.until_idle()
    return wrong


_CHECKS: tuple[Callable[[Product], Awaitable[str]], ...] = (
    _malformed,
    _too_long_for_the_engine,
    _wrong_key,
    _unknown_model,
    _too_large,
    _queue_full,
    _queue_full_and_nobody_serves,
    _cannot_be_started,
    _expired,
)
