"""The names that clients may ask for, and what stands behind each: a model, perhaps an adapter on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.adapters.lora import names_answered
from tidegate.config.settings import ModelSettings, Settings
from tidegate.core.settings import Routing
from tidegate.core.types import ModelId


@dataclass(frozen=True, slots=True)
class Named:
    """What one name stands for."""

    model: ModelId
    adapter: str | None = None
    uses_prefixes: bool = False
    """Its routing wants to know how the prompt begins."""


def names_of(settings: Settings) -> Mapping[str, Named]:
    """Every model by its name, each of its adapters as ``model:adapter``, and every shift between models."""
    names: dict[str, Named] = {}
    for model, of_model in settings.models.items():
        uses = uses_prefixes(of_model)
        names[model] = Named(model, None, uses)
        for name in names_answered(of_model.spec)[1:] if of_model.spec is not None else ():
            names[name] = Named(model, name.removeprefix(f"{model}:"), uses)
    for name, shift in settings.shifts.items():
        versions = (settings.models.get(ModelId(version)) for version, _ in shift.versions)
        names[name] = Named(name, None, _any(versions))
    return names


def uses_prefixes(model: ModelSettings) -> bool:
    """Only one router looks at prompts' beginnings."""
    return model.dispatch.routing is Routing.LEAST_SECONDS


def _any(models: Iterable[ModelSettings | None]) -> bool:
    return any(model is not None and uses_prefixes(model) for model in models)
