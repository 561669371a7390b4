"""What every section of a policy file has in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from tidegate.config import kinds
from tidegate.engine.catalogue import PROFILES

MAX_REPLICAS = 10_000
PATH = kinds.text("path", r"[^\x00-\x1f\x7f]{1,4096}", "a path")
KIND = kinds.text(
    "word",
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    "up to 64 letters, digits and . _ - and begin with a letter or digit",
)
WORD = replace(
    kinds.text("text", r"[^\x00]{0,100000}", "text"),
    # Numbers and the like are taken as they are written.
    schema={"type": ["string", "number", "boolean", "null"]},
)
ENV_NAME = kinds.text(
    "name", r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable: letters, digits and _"
)
URL = kinds.text(
    "address",
    r"http://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}/?",
    "http://HOST:PORT and nothing more",
)
PROFILE = replace(kinds.choice("profile", *sorted(PROFILES)), span="a name of the catalogue")
MODEL_NAME = kinds.text(
    "model name",
    r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,199}",
    "up to 200 letters, digits and . _ - / : and begin with a letter or digit",
)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)


class Section(Strict):
    """A group of keys that may all be left out; so may their values, as when all are commented out."""

    model_config = ConfigDict(json_schema_extra={"type": ["object", "null"]})

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, value: Any) -> Any:
        return {} if value is None else value


def values_of(section: BaseModel, *leave_out: str) -> dict[str, Any]:
    """All its keys but these, by the names that the settings have for them."""
    return {name: getattr(section, name) for name in type(section).model_fields if name not in leave_out}
