"""What a new policy file cannot change in a running Tidegate."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.config.settings import ModelSettings, Settings

_GATEWAY = ("host", "port", "admin_host", "admin_port")


def differences(old: Settings, new: Settings) -> list[str]:
    """The keys that differ and take effect only with a restart; empty when ``new`` can be taken over whole.

    Models may come and go, and limits, API keys, routing, queues, scaling, restarts, prices and deadlines
    may change at any time: they are values of the brains and of the gateway. What running
    processes were started with is not.
    """
    fixed = [f"gateway.{name}" for name in _GATEWAY if _differs(old.gateway, new.gateway, name)]
    if old.gpus != new.gpus:
        fixed.append("fleet.gpus")
    if old.state_dir != new.state_dir:
        fixed.append("fleet.state_dir")
    if old.journal_dir != new.journal_dir:
        fixed.append("journal.dir")
    if old.journal_max_bytes != new.journal_max_bytes:
        fixed.append("journal.max_size")
    for name in old.models.keys() & new.models.keys():
        fixed += [f"models.{name}.{key}" for key in _of_processes(old.models[name], new.models[name])]
    return sorted(fixed)


def _differs(old: object, new: object, attribute: str) -> bool:
    return bool(getattr(old, attribute) != getattr(new, attribute))


def _of_processes(old: ModelSettings, new: ModelSettings) -> Iterator[str]:
    for key in ("engine", "slots", "gpus"):
        if _differs(old.fleet, new.fleet, key):
            yield key
    if old.static != new.static:
        yield "static"
    if old.memory_bytes != new.memory_bytes:
        yield "memory"
    if old.spec is None or new.spec is None:
        return
    spec_keys = {
        "weights": "weights",
        "context_tokens": "context",
        "threads": "threads",
        "extra_args": "args",
        "lora": "lora",
        "command": "command",
        "env": "env",
    }
    for attribute, key in spec_keys.items():
        if _differs(old.spec, new.spec, attribute):
            yield key
