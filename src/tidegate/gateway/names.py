"""By which names clients may ask for which model: its own, and those of its LoRA adapters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.adapters.base import EngineSpec
from tidegate.adapters.lora import names_answered
from tidegate.config.settings import ModelSettings, Settings
from tidegate.core.settings import Routing
from tidegate.core.types import ModelId


@dataclass(frozen=True, slots=True)
class Named:
    """What one name stands for."""

    model: ModelId
    """Whose queue and replicas it leads to."""
    adapter: str | None = None
    uses_prefixes: bool = False
    """Its routing wants to know how the prompt begins."""


def names_of(
    specs: Mapping[ModelId, EngineSpec | None],
    uses_prefixes: Callable[[ModelId], bool] = lambda _model: False,
) -> dict[str, Named]:
    """Every name and what it stands for, models before their adapters.

    An adapter is asked for as ``model:adapter``, and by its own name where no other model has one of
    that name. A model's name is never an adapter's.
    """
    names = {str(model): Named(model, None, uses_prefixes(model)) for model in specs}
    with_adapters = {model: spec for model, spec in specs.items() if spec is not None and spec.lora}
    owners = Counter(adapter for spec in with_adapters.values() for adapter in spec.lora or ())
    for model, spec in with_adapters.items():
        for name in names_answered(spec)[1:]:
            adapter = name.removeprefix(f"{spec.model_name}:")
            names.setdefault(name, Named(model, adapter, uses_prefixes(model)))
    for model, spec in with_adapters.items():
        for adapter in spec.lora or ():
            if owners[adapter] == 1:
                names.setdefault(adapter, Named(model, adapter, uses_prefixes(model)))
    return names


def names_in(settings: Settings) -> dict[str, Named]:
    """All names of a policy: those of its models, and those behind which several versions stand."""
    models = settings.models

    def uses(model: ModelId) -> bool:
        return model in models and uses_prefixes(models[model])

    names = names_of({name: model.spec for name, model in models.items()}, uses)
    for name, shift in settings.shifts.items():
        names[str(name)] = Named(name, None, any(uses(ModelId(version)) for version, _ in shift.versions))
    return names


def uses_prefixes(model: ModelSettings) -> bool:
    """Only one router looks at prompts' beginnings."""
    return model.dispatch.routing is Routing.LEAST_SECONDS
