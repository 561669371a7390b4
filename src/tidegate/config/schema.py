"""A whole policy file as pydantic checks it, and its JSON Schema for editors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, Field
from pydantic.fields import FieldInfo

from tidegate.config.dispatch_keys import ShiftKeys
from tidegate.config.kinds import Kind
from tidegate.config.model_keys import ModelKeys
from tidegate.config.section import MODEL_NAME, Strict
from tidegate.config.shell_keys import Fleet, Gateway, Journal
from tidegate.config.weights_keys import Weights

OFF = "off"


def _journal_off(value: object) -> object:
    """``off`` becomes None, an empty section the default."""
    if value is None:
        return {}
    return None if value in (OFF, False) else value


class Policy(Strict):
    """A Tidegate policy file."""

    gateway: Gateway = Gateway()
    fleet: Fleet = Fleet()
    weights: Weights = Weights()
    journal: Annotated[Journal | None, BeforeValidator(_journal_off)] = Journal()
    # That there must be one is for the rules to say, so that they can look at the rest of a file without.
    models: dict[Annotated[str, MODEL_NAME], ModelKeys] = Field(
        default={}, description="What clients may ask for, by name"
    )
    shifts: dict[Annotated[str, MODEL_NAME], ShiftKeys] = Field(
        default={}, description="Names behind which several of these models stand"
    )


Keys = type[BaseModel]

SECTIONS: dict[tuple[str, ...], Keys] = {}
"""Every group of keys by where it stands; ``*`` is a model's name or a place in a list."""


def keys_of(section: Keys) -> dict[str, FieldInfo]:
    """A section's keys as the file spells them."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def parts_of(annotation: Any) -> Iterator[Any]:
    """An annotation and everything inside it."""
    yield annotation
    for part in get_args(annotation):
        yield from parts_of(part)


def kind_of(field: FieldInfo) -> Kind | None:
    """The kind of a key with one value; None for lists, mappings and sections."""
    for found in (*field.metadata, *_optional_parts(field.annotation)):
        if isinstance(found, Kind):
            return found
    return None


def _optional_parts(annotation: Any) -> Iterator[Any]:
    """Those of ``X | None``, but not of ``list[X]``."""
    if get_origin(annotation) not in (list, dict):
        yield from parts_of(annotation) if not _holds_many(annotation) else ()


def _holds_many(annotation: Any) -> bool:
    return any(get_origin(part) in (list, dict) for part in parts_of(annotation))


def _collect(section: Keys, path: tuple[str, ...]) -> None:
    SECTIONS[path] = section
    for key, field in keys_of(section).items():
        for part in parts_of(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                _collect(part, (*path, key, "*") if _holds_many(field.annotation) else (*path, key))


_collect(Policy, ())


def json_schema() -> dict[str, Any]:
    """JSON Schema of the file, with every key's description, default and range."""
    schema = Policy.model_json_schema()
    for section in SECTIONS.values():
        told = schema if section is Policy else schema["$defs"][section.__name__]
        for key, field in keys_of(section).items():
            _describe(told["properties"][key], field)
    schema["properties"]["journal"]["anyOf"] = [{"$ref": "#/$defs/Journal"}, {"enum": [OFF, False]}]
    schema["properties"]["models"] |= {"minProperties": 1}
    schema["required"] = ["models"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _describe(told: dict[str, Any], field: FieldInfo) -> None:
    """Put the default as the file would write it; a section's defaults stand at its own keys."""
    told.pop("title", None)
    told.pop("default", None)
    kind = kind_of(field)
    if kind is not None and field.default is not None and not field.is_required():
        told["default"] = kind.write(field.default)
    if "patternProperties" in told:
        told["additionalProperties"] = False
