"""The reference tables of ``docs/policy-file.md``, made from the schema so that they cannot lag behind it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_origin

from pydantic.fields import FieldInfo

from tidegate.config.constants import constants_table
from tidegate.config.kinds import Kind
from tidegate.config.schema import SECTIONS, Keys, keys_of, kind_of, parts_of

PAGE = Path("docs/policy-file.md")
BEGIN = "<!-- keys: made by `python -m tidegate.config --docs --write` -->"
END = "<!-- keys: end -->"


def tables() -> str:
    """Every section with its keys: type, default, range, meaning."""
    sections = [_section(path, section) for path, section in SECTIONS.items() if path]
    return "\n\n".join([*sections, _constants()])


def _constants() -> str:
    """What may stand under ``law``, by policy."""
    rows = [f"| `{policy}` | {told} |" for policy, told in constants_table()]
    said = (
        "What may stand under `law`, by `policy`, with each law's own values. Durations are written with their unit.\n"
        "Other systems' laws say in their file under `core/fleet/scaling/policies/rivals` where the values are from."
    )
    return "\n".join(["### Constants of laws", "", said, "", "| policy | constants |", "|---|---|", *rows])


def page_with_tables(page: str) -> str:
    """The page with what stands between the two marks replaced.

    Raises:
        ValueError: a mark is missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        message = f"{PAGE} must hold the lines {BEGIN} and {END}"
        raise ValueError(message)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def _section(path: tuple[str, ...], section: Keys) -> str:
    is_list = path[-2:] in (("keys", "*"), ("schedule", "*"))
    name = ".".join(path[:-1] if is_list else path).replace(".*", ".NAME") + "[]" * is_list
    rows = [
        _row(key, field) for key, field in keys_of(section).items() if not _is_section((*path, key), field)
    ]
    head = "| key | type | default | range | meaning |\n|---|---|---|---|---|"
    return "\n".join([f"### `{name}`", "", inspect.getdoc(section) or "", "", head, *rows])


def _is_section(path: tuple[str, ...], field: FieldInfo) -> bool:
    """It has a table of its own, and no meaning beside."""
    return path in SECTIONS and field.description is None


def _row(key: str, field: FieldInfo) -> str:
    type_, span = _type_and_span(field)
    return f"| `{key}` | {type_} | {_default(field)} | {span or '—'} | {field.description} |"


def _type_and_span(field: FieldInfo) -> tuple[str, str]:
    kind = kind_of(field)
    if kind is not None:
        return kind.name, kind.span
    inner = [part for part in parts_of(field.annotation) if isinstance(part, Kind)]
    if any(get_origin(part) is dict for part in parts_of(field.annotation)):
        return f"mapping, {inner[0].name}: {inner[1].name if len(inner) > 1 else 'mapping'}", ""
    return (f"list, each: {inner[0].name}", inner[0].span) if inner else ("list of mappings", "")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    kind = kind_of(field)
    if kind is None or field.default is None:
        return "none" if field.default in ([], {}, None) else "—"
    return f"`{kind.write(field.default)}`"
