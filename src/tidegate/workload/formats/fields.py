"""Rows with named fields: our own CSV and every JSONL read them through here, by one list of names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypedDict

from tidegate.workload.arrival import BadValue

PROMPT_NAMES = (
    "prompt_tokens", "input_tokens", "input_length", "input_toks", "input_len", "prompt_len", "prefill_tokens", "num_prefill_tokens",
)  # fmt: skip
OUTPUT_NAMES = (
    "output_tokens", "completion_tokens", "output_length", "output_toks", "output_len", "decode_tokens", "num_decode_tokens",
)  # fmt: skip
"""Our own word first; then OpenAI's, Mooncake's and aiperf's, vLLM's benchmark's and Vidur's."""

NAME_KEYS = {
    "model": ("model",),
    "tenant": ("tenant", "flow"),
    "adapter": ("adapter",),
    "session": ("session", "session_id", "conversation_id"),
}
"""Our word for each name, and the keys under which it is found; ``flow`` is the gateway's own log."""


class Rest(TypedDict, total=False):
    """The optional fields of ``TraceBuilder.add``."""

    model: str | None
    tenant: str | None
    priority: int
    adapter: str | None
    session: str | None
    prefix_hashes: tuple[int, ...]
    cached_tokens: int | None
    deadline_s: float | None


def parsed(row: str) -> dict[str, Any]:
    """One JSON object; BadValue for anything else."""
    try:
        value = json.loads(row)
    # The parser recurses into brackets; a row of ten thousand of them must not end the reading.
    except (ValueError, RecursionError) as error:
        message = f"not JSON ({error})"
        raise BadValue(message) from None
    if not isinstance(value, dict):
        message = f"a JSON object was expected, not {row[:40]}"
        raise BadValue(message)
    return value


def first_of(row: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of the names that the row has."""
    return next((name for name in names if name in row), None)


def number(value: object, name: str) -> float:
    """A JSON number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f"{name} is {value!r}; a number was expected"
        raise BadValue(message)
    try:
        return float(value)
    except OverflowError:
        message = f"{name} is too large"
        raise BadValue(message) from None


def integer(value: object, name: str) -> int:
    """A JSON number that is whole; 374.0 is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    message = f"{name} is {value!r}; a whole number was expected"
    raise BadValue(message)


def optional_integer(value: object, name: str) -> int | None:
    return None if value is None else integer(value, name)


def tokens(row: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The count under the first of these names that the row has; null is not known, absent is broken."""
    name = first_of(row, names)
    if name is None:
        message = f"none of {', '.join(names)} is there"
        raise BadValue(message)
    return optional_integer(row[name], name)


def text(value: object, name: str) -> str | None:
    """A name; an empty one is none. Numbers are taken as they are written."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        message = f"{name} is {value!r}; a name was expected"
        raise BadValue(message)
    return str(value).strip() or None


def hashes(value: object, name: str) -> tuple[int, ...]:
    """A list of block hashes; null is none."""
    if value is None:
        return ()
    if not isinstance(value, list):
        message = f"{name} is {value!r:.40}; a list of whole numbers was expected"
        raise BadValue(message)
    return tuple(integer(item, name) for item in value)


def rest_of(row: Mapping[str, Any]) -> Rest:
    """The optional fields that a JSON object has."""
    rest: Rest = {}
    for name, keys in NAME_KEYS.items():
        key = first_of(row, keys)
        if key is not None:
            rest[name] = text(row[key], key)  # type: ignore[literal-required]
    if (key := first_of(row, ("prefix_hashes", "hash_ids"))) is not None:
        rest["prefix_hashes"] = hashes(row[key], key)
    if row.get("priority") is not None:
        rest["priority"] = integer(row["priority"], "priority")
    if row.get("cached_tokens") is not None:
        rest["cached_tokens"] = integer(row["cached_tokens"], "cached_tokens")
    if row.get("deadline_s") is not None:
        rest["deadline_s"] = number(row["deadline_s"], "deadline_s")
    return rest
