"""What of an engine's settings is to be fetched first, and the settings with it in place."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from tidegate.adapters.base import EngineSpec
from tidegate.weights.source import Source, is_remote, parsed


def needs(spec: EngineSpec) -> dict[str, Source]:
    """Each source that the engine needs on this machine, by what is written for it."""
    found = {}
    if is_remote(spec.weights):
        found[spec.weights] = parsed(spec.weights, spec.weights_sha256)
    for written in (spec.lora or {}).values():
        if is_remote(written) and written not in found:
            found[written] = parsed(written)
    return found


def with_paths(spec: EngineSpec, paths: Mapping[str, str]) -> EngineSpec:
    """The settings as the engine is given them. ``paths``: by what is written for each source."""
    lora = spec.lora and {name: paths.get(path, path) for name, path in spec.lora.items()}
    return replace(spec, weights=paths.get(spec.weights, spec.weights), lora=lora)


def by_identity(spec: EngineSpec) -> EngineSpec:
    """The settings with a name in place of each source that stays the same while the source does: a signature
    that was renewed is no reason to start an engine anew, another checksum is."""
    return with_paths(spec, {written: f"source:{source.key}" for written, source in needs(spec).items()})


def adapter_marks(spec: EngineSpec) -> dict[str, str]:
    """Each LoRA adapter with a mark that stays the same while its source does. Nothing can be read out of it: a source
    may hold a key."""
    sources = by_identity(spec).lora or {}
    return {name: hashlib.sha256(source.encode()).hexdigest()[:12] for name, source in sources.items()}
