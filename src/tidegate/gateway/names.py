"""By which names clients may ask for which model: its own, and those of its LoRA adapters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidegate.adapters.base import EngineSpec
from tidegate.adapters.lora import names_answered
from tidegate.core.types import ModelId


def names_of(specs: Mapping[ModelId, EngineSpec | None]) -> dict[str, ModelId]:
    """Every name and the model whose queue and replicas it leads to, models before their adapters.

    An adapter is asked for as ``model:adapter``, and by its own name where no other model has one of
    that name. A model's name is never an adapter's. Which adapter a name means is read from the request
    by whoever rewrites it for an engine.
    """
    names: dict[str, ModelId] = {str(model): model for model in specs}
    with_adapters = {model: spec for model, spec in specs.items() if spec is not None and spec.lora}
    owners = Counter(adapter for spec in with_adapters.values() for adapter in spec.lora or ())
    for model, spec in with_adapters.items():
        for name in names_answered(spec):
            names.setdefault(name, model)
    for model, spec in with_adapters.items():
        for adapter in spec.lora or ():
            if owners[adapter] == 1:
                names.setdefault(adapter, model)
    return names
