"""Command lines of engines: filling in templates, reading the batch size back out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from tidegate.adapters.base import Adapter, EngineSpec
from tidegate.core.types import Address

_NOWHERE = Address("127.0.0.1", 0)


def filled(template: Sequence[str], spec: EngineSpec, address: Address, gpus: Sequence[int]) -> list[str]:
    """The operator's command with its placeholders filled in, and the operator's arguments after it.

    Plain replacement instead of ``str.format``: engines take JSON on the command line, whose braces
    must survive.
    """
    values = {
        "{port}": str(address.port),
        "{host}": address.host,
        "{model}": spec.model_name,
        "{weights}": spec.weights,
        "{slots}": str(spec.slots),
        "{gpus}": ",".join(map(str, gpus)),
    }
    return [_replaced(word, values) for word in (*template, *spec.extra_args)]


def _replaced(word: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word


def command_hash(
    adapter: Adapter, spec: EngineSpec, gpus: int, memory_bytes: int | None, kind: str = ""
) -> str:
    """The same for two replicas that are started alike, whatever their ports and devices; ``kind`` is of the GPUs.

    Raises:
        ValueError: there is no command for it.
    """
    if adapter.lora_api is not None and spec.lora:
        spec = replace(spec, lora={})  # which ones it has changes while it runs
    environment = sorted(adapter.environment(spec, ()).items())
    told = [
        adapter.name,
        adapter.command(spec, _NOWHERE, ()),
        environment,
        gpus,
        memory_bytes,
        *([kind] if kind else []),
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def number_after(argv: Sequence[str], *flags: str) -> int | None:
    """The number that follows one of these flags, as ``--flag 8`` or ``--flag=8``; the last one wins."""
    found = None
    for index, word in enumerate(argv):
        flag, equals, value = word.partition("=")
        if flag not in flags:
            continue
        if not equals:
            value = argv[index + 1] if index + 1 < len(argv) else ""
        # llama-server's own --slots takes no number: it turns an endpoint on.
        if value.isdecimal():
            found = int(value)
    return found
