"""Giving an engine a LoRA adapter while it runs, and ridding it of one: its own API, and a look when that says no.

A status other than 2xx says little: 400 is also the answer for a name that is loaded already (after a call of ours whose
answer was lost), 500 also that for one which vLLM has had to move out of its host memory.
"""

from __future__ import annotations

from tidegate.adapters.base import LoraApi
from tidegate.backends.engine_client import EngineClient
from tidegate.core.types import Address

_CALL_S = 120.0
"""An adapter of 1 GB from a slow disk takes 10 s; one that the engine fetches itself takes longer."""
_LOOK_S = 5.0


async def load(client: EngineClient, address: Address, api: LoraApi, name: str, path: str) -> str | None:
    """Have it loaded. None once it can be asked for, else what went wrong."""
    problem = await client.control(address, [api.load_call(name, path)], _CALL_S)
    if problem is not None and name in (await client.names(address, api.listing, _LOOK_S) or ()):
        return None
    return problem


async def unload(client: EngineClient, address: Address, api: LoraApi, name: str) -> str | None:
    """Have it unloaded. None once the engine does not know it, else what went wrong."""
    problem = await client.control(address, [api.unload_call(name)], _CALL_S)
    if problem is None:
        return None
    names = await client.names(address, api.listing, _LOOK_S)
    return None if names is not None and name not in names else problem
