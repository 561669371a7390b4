"""What every section of a policy file has in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from tidegate.config import kinds

MAX_REPLICAS = 10_000
PATH = kinds.text("path", r"[^\x00-\x1f\x7f]{1,4096}", "a path")
KIND = kinds.text(
    "word",
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    "up to 64 letters, digits and . _ - and begin with a letter or digit",
)
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
