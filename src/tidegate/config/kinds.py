"""The kinds of values that a policy file holds: how each is written, read, and described.

A ``Kind`` stands next to the type of a key in ``schema`` and is the one place for its range: the loader
reads with it, messages quote it, the JSON Schema and the documentation print it, ``render`` writes
with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic_core import CoreSchema, core_schema

from tidegate.config import units
from tidegate.config.problems import did_you_mean

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value."""

    name: str
    """As the documentation calls it."""
    span: str
    """What is allowed, briefly."""
    allowed: str
    """What is allowed, as the end of the sentence "it must be …"."""
    read: Callable[[Any], Any]
    """From what YAML gave; raises ``ValueError`` with a whole sentence part for the user."""
    write: Callable[[Any], Any]
    """Back to what YAML takes."""
    schema: Mapping[str, Any] = field(hash=False)
    """In JSON Schema's words."""

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        return dict(self.schema)


def whole(least: int, most: int) -> Kind:
    """A whole number from ``least`` to ``most``."""
    allowed = f"a whole number from {least} to {most}"

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _must_be(allowed)
        return value

    schema = {"type": "integer", "minimum": least, "maximum": most}
    return Kind("whole number", f"{least} to {most}", allowed, read, _as_it_is, schema)


def ratio() -> Kind:
    """A share of a whole."""
    allowed = "a number from 0 to 1"

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise _must_be(allowed)
        return float(value)

    schema = {"type": "number", "minimum": 0, "maximum": 1}
    return Kind("number", "0 to 1", allowed, read, _as_it_is, schema)


def number(least: float, most: float) -> Kind:
    """A number from ``least`` to ``most``."""
    allowed = f"a number from {least:g} to {most:g}"

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise _must_be(allowed)
        return float(value)

    schema = {"type": "number", "minimum": least, "maximum": most}
    return Kind("number", f"{least:g} to {most:g}", allowed, read, _tidy_number, schema)


def switch() -> Kind:
    """Yes or no."""
    allowed = "true or false"

    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise _must_be(allowed)
        return value

    return Kind("switch", "`true`, `false`", allowed, read, _as_it_is, {"type": "boolean"})


AUTO = "auto"


def number_or_auto(most: int) -> Kind:
    """A number above zero, or ``auto``."""
    allowed = f"a number above 0 and up to {most}, or {AUTO}"

    def read(value: object) -> float | str:
        if value == AUTO:
            return AUTO
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise _must_be(allowed)
        return float(value)

    schema = {"anyOf": [{"const": AUTO}, {"type": "number", "exclusiveMinimum": 0, "maximum": most}]}
    return Kind(f"number or `{AUTO}`", f"above 0, up to {most}", allowed, read, _tidy_number, schema)


def duration(least: str, most: str, *, per_s: int = 1) -> Kind:
    """A span of time. Inside it is a number of seconds, or of smaller units with ``per_s`` to a second."""
    span = f"{least} to {most}"
    allowed = f"a duration from {span}, such as 250ms, 90s, 5m or 1h30m"
    bounds = units.parse_duration(least), units.parse_duration(most)

    def read(value: object) -> float:
        seconds = _with_unit(value, units.parse_duration, "s", allowed)
        if not bounds[0] <= seconds <= bounds[1]:
            raise _must_be(allowed)
        return seconds * per_s

    def write(value: float) -> str:
        return units.format_duration(value / per_s)

    pattern = r"^(\d+(\.\d+)?d)?(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?(\d+(\.\d+)?ms)?$"
    schema = {"type": "string", "pattern": pattern, "minLength": 2}
    return Kind("duration", span, allowed, read, write, schema)


def size(least: str, most: str, *, rate: bool = False) -> Kind:
    """A number of bytes, or of bytes a second."""
    span = f"{least} to {most}"
    what = "a size for each second" if rate else "a size"
    allowed = f"{what} from {span}, such as 512MiB or 16GiB"
    bounds = units.parse_size(least), units.parse_size(most)

    def read(value: object) -> int:
        parsed = _with_unit(value, units.parse_size, "MiB", allowed)
        if not bounds[0] <= parsed <= bounds[1]:
            raise _must_be(allowed)
        return parsed

    schema = {"type": "string", "pattern": r"^\d+(\.\d+)? ?([KMGT]iB|B)$"}
    return Kind("size", span, allowed, read, units.format_size, schema)


def money() -> Kind:
    """A price per hour."""
    return _money("a price per hour such as 2.50", "h", 1_000_000, units.parse_money, units.format_money)


def money_per_day() -> Kind:
    """A sum for 24 hours."""
    parse, write = units.parse_money_per_day, units.format_money_per_day
    return _money("a sum per day such as 60", "d", 10_000_000, parse, write)


def token_price() -> Kind:
    """A price per million tokens. Inside it is that of one."""
    parse, write = units.parse_token_price, units.format_token_price
    return _money("a price per million tokens such as 0.40", "M", 1_000_000, parse, write, 1e-6)


def _money(
    what: str,
    unit: str,
    most: int,
    parse: Callable[[str], float],
    write: Callable[[float], str],
    inside: float = 1.0,
) -> Kind:
    """Money for a ``unit``, of which there are ``inside`` in the number that is used; ``most`` is as it is written."""
    allowed = f"{what}/{unit}, up to {most}/{unit}"

    def read(value: object) -> float:
        parsed = _with_unit(value, parse, f"/{unit}", allowed)
        if parsed > most * inside:
            raise _must_be(allowed)
        return parsed

    schema = {"type": "string", "pattern": rf"^\d+(\.\d+)? ?/ ?{unit}$"}
    return Kind("money", f"0/{unit} to {most}/{unit}", allowed, read, write, schema)


def choice(what: str, *names: str) -> Kind:
    """One of a few names."""
    allowed = f"one of {', '.join(names)}"

    def read(value: object) -> str:
        if isinstance(value, str) and value in names:
            return value
        meant = did_you_mean(value, names) if isinstance(value, str) else None
        raise _must_be(allowed, f"did you mean {meant}?" if meant else None)

    span = ", ".join(f"`{name}`" for name in names)
    return Kind(what, span, allowed, read, _as_it_is, {"type": "string", "enum": list(names)})


def text(what: str, pattern: str, allowed: str) -> Kind:
    """Words of one shape."""
    shape = re.compile(pattern)

    def read(value: object) -> str:
        if not isinstance(value, str):
            hint = "put it in quotation marks" if isinstance(value, int | float) else None
            raise _must_be(allowed, hint)
        if not shape.fullmatch(value):
            raise _must_be(allowed)
        return value

    return Kind(what, "", allowed, read, _as_it_is, {"type": "string", "pattern": f"^(?:{pattern})$"})


def _must_be(allowed: str, hint: str | None = None) -> ValueError:
    return ValueError(f"it must be {allowed}" + (f"; {hint}" if hint else ""))


def _with_unit(value: object, parse: Callable[[str], _T], unit: str, allowed: str) -> _T:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise _must_be(allowed, f"it has no unit: write {value:g}{unit} if you mean that")
    if not isinstance(value, str):
        raise _must_be(allowed)
    try:
        return parse(value)
    except ValueError:
        if re.fullmatch(r"[\d.]+", value):
            raise _must_be(allowed, f"it has no unit: write {value}{unit} if you mean that") from None
        if re.fullmatch(r"[\d.]+ ?[kKMGT]i?[bB]?", value):
            raise _must_be(allowed, "units are B, KiB, MiB, GiB and TiB, steps of 1024") from None
        raise _must_be(allowed) from None


def _as_it_is(value: object) -> object:
    return value


def _tidy_number(value: float | str) -> object:
    """8.0 is written 8."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
