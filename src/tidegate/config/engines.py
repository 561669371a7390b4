"""The engines that a policy may name."""

from __future__ import annotations

from tidegate.adapters import commands
from tidegate.adapters.base import Adapter, EngineSpec
from tidegate.adapters.registry import ADAPTERS
from tidegate.core.types import Address
from tidegate.weights.needs import by_identity

LLAMACPP = "llamacpp"
TRTLLM = "trtllm"
OPENAI = "openai"
EMULATED = "emulated"

# In the order in which messages and docs list them.
ENGINES = tuple(dict.fromkeys((*ADAPTERS, EMULATED)))

_ANYWHERE = Address("127.0.0.1", 1)


def adapter_of(engine: str) -> Adapter | None:
    """The adapter of a known engine."""
    return ADAPTERS.get(engine)


def sleeps(engine: str) -> bool:
    """The engine can be put to sleep."""
    adapter = adapter_of(engine)
    return adapter is not None and adapter.sleep_api is not None


def loads_adapters(engine: str) -> bool:
    """The engine is given LoRA adapters, and rid of them, while it runs."""
    adapter = adapter_of(engine)
    return adapter is not None and adapter.lora_api is not None


def adapters_at_start(engine: str) -> bool:
    """It is started with those that there are."""
    adapter = adapter_of(engine)
    return adapter is None or adapter.lora_api is None or adapter.lora_api.at_start


def command_line(spec: EngineSpec, engine: str, gpus: int) -> list[str]:
    """The arguments a replica would be started with, at some address and on some devices."""
    adapter = adapter_of(engine)
    return [] if adapter is None else adapter.command(spec, _ANYWHERE, range(gpus))


def command_hash(spec: EngineSpec, engine: str, gpus: int, memory_bytes: int | None, kind: str) -> str:
    """The same for two replicas that would be started alike."""
    adapter = adapter_of(engine)
    if adapter is None:
        return ""
    return commands.command_hash(adapter, by_identity(spec), gpus, memory_bytes, kind)


def batch_size(spec: EngineSpec, engine: str, gpus: int) -> int | None:
    """The batch size that the engine's command line asks for; None when it does not say."""
    adapter = adapter_of(engine)
    return None if adapter is None else adapter.batch_size(command_line(spec, engine, gpus))
