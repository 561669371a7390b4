"""Putting an engine to sleep and waking it: its own API, and then a look whether it is true.

An answer of 200 proves little: sleep requests have been answered while the engine crashed (vllm#45520), and engines
have said that they woke and then answered with garbage (vllm-omni#4473). So sleep is what the engine itself says
afterwards, and awake is one real token.
"""

from __future__ import annotations

import asyncio

from tidegate.adapters.base import Adapter, EngineSpec, Readiness
from tidegate.backends.engine_client import EngineClient
from tidegate.core.types import Address

_CALL_S = 120.0
"""For one request of the control API: weights of 140 GB at 2 GB/s take 70 s to be put aside."""
_CHECK_S = 5.0
_CHECKS = 20
_PAUSE_S = 0.25


async def fall_asleep(client: EngineClient, address: Address, adapter: Adapter, level: int) -> str | None:
    """Put it to sleep. None once it says that it sleeps, else what went wrong."""
    api = adapter.sleep_api
    calls = None if api is None else api.sleep.get(level)
    if calls is None:
        return f"engine {adapter.name} has no sleep of level {level}"
    problem = await client.control(address, calls, _CALL_S)
    if problem is not None:
        return f"it was told to sleep, and did not: {problem}"
    return await _until(client, address, adapter, asleep=True)


async def wake_up(
    client: EngineClient, address: Address, adapter: Adapter, spec: EngineSpec, level: int
) -> str | None:
    """Wake it. None once it has generated a token, else what went wrong."""
    api = adapter.sleep_api
    calls = None if api is None else api.wake.get(level)
    if calls is None:
        return f"engine {adapter.name} has no sleep of level {level}"
    problem = await client.control(address, calls, _CALL_S)
    if problem is not None:
        return f"it was told to wake up, and did not: {problem}"
    problem = await _until(client, address, adapter, asleep=False)
    if problem is not None:
        return problem
    answer = await client.until_ready(address, adapter, spec, on_answer=lambda _answer: None)
    if answer.readiness is not Readiness.READY:
        return f"it says that it is awake, and generates nothing: {answer.detail}"
    return None


async def _until(client: EngineClient, address: Address, adapter: Adapter, *, asleep: bool) -> str | None:
    said: bool | None = None
    for _ in range(_CHECKS):
        said = await client.is_asleep(address, adapter, _CHECK_S)
        if said is asleep:
            return None
        await asyncio.sleep(_PAUSE_S)
    saying = {
        None: "does not say whether it sleeps",
        True: "says that it sleeps",
        False: "says that it is awake",
    }
    return f"it was told to {'sleep' if asleep else 'wake up'}, and {saying[said]}"
