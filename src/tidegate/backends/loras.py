"""Giving an engine a LoRA adapter while it runs, and ridding it of one: its own API, and a look when that says no.

A status says little. 400 is also the answer for a name that is loaded already (after a call of ours whose answer was lost),
500 also that for one which vLLM has had to move out of its host memory; and 200 has been answered for a name that could
not be asked for afterwards (dynamo#11163). So loaded is one token under its name, unless the engine is too busy to say.
"""

from __future__ import annotations

from tidegate.adapters.base import Adapter, EngineSpec, LoraApi, Readiness
from tidegate.backends.engine_client import EngineClient
from tidegate.core.types import Address

_CALL_S = 120.0
"""An adapter of 1 GB from a slow disk takes 10 s; one that the engine fetches itself takes longer."""
_LOOK_S = 5.0
_TOKEN_S = 10.0


async def load(
    client: EngineClient, address: Address, adapter: Adapter, spec: EngineSpec, name: str, path: str
) -> str | None:
    """Have it loaded. None once it can be asked for, else what went wrong.

    ``spec`` is the engine's, with this adapter among its own.
    """
    api = adapter.lora_api
    if api is None:
        return f"engine {adapter.name} cannot load it while it runs"
    problem = await client.control(address, [api.load_call(name, path)], _CALL_S)
    if problem is not None and name not in (await client.names(address, api.listing, _LOOK_S) or ()):
        return problem
    answer = await client.probe(address, adapter, spec, _TOKEN_S, name)
    if answer.readiness is Readiness.BROKEN:
        return f"it was loaded, and gives no token: {answer.detail}"
    return None


async def unload(client: EngineClient, address: Address, api: LoraApi, name: str) -> str | None:
    """Have it unloaded. None once the engine does not know it, else what went wrong."""
    problem = await client.control(address, [api.unload_call(name)], _CALL_S)
    if problem is None:
        return None
    names = await client.names(address, api.listing, _LOOK_S)
    return None if names is not None and name not in names else problem
