"""The JSON Schema, the documentation and the loader say the same."""

import json
import re
from pathlib import Path

import pytest

from tidegate.config import PolicyError, docs, json_schema, parse
from tidegate.config.__main__ import main
from tidegate.config.schema import SECTIONS, keys_of, kind_of

ROOT = Path(__file__).parents[3]
SCHEMA = json_schema()

VALUES = [
    None,
    True,
    False,
    -1,
    0,
    1,
    7,
    0.5,
    2.5,
    99,
    70_000,
    10**7,
    "",
    "auto",
    "off",
    "8",
    "10s",
    "5m",
    "1h30m",
]
VALUES += [
    "250ms",
    "90",
    "16GiB",
    "512 MiB",
    "3GB",
    "2.50/h",
    "$2/h",
    "vllm",
    "emulated",
    "least_tokens",
    "thresholds",
]
VALUES += [
    "a b",
    "127.0.0.1",
    "::1",
    "ab" * 32,
    "http://h:1",
    "\x07",
    [],
    ["x"],
    [0],
    [-1],
    ["http://h:1"],
    {},
    {"A": "b"},
]

KEYS = [
    pytest.param(place, key, id=".".join((*place, key)))
    for place, section in SECTIONS.items()
    for key, field in keys_of(section).items()
    if kind_of(field) or field.description
]


def allows(schema, value):
    """Enough of JSON Schema for the words that ours uses; an unknown word is an error."""
    schema = {word: told for word, told in schema.items() if word not in ("description", "default", "title")}
    if "$ref" in schema:
        schema |= SCHEMA["$defs"][schema.pop("$ref").removeprefix("#/$defs/")]
        return allows(schema, value)
    return all(CHECKS[word](told, value) for word, told in schema.items())


def is_a(types, value):
    names = {type(None): "null", bool: "boolean", int: "integer", float: "number"}
    names |= {str: "string", list: "array", dict: "object"}
    name = names[type(value)]
    wanted = types if isinstance(types, list) else [types]
    return name in wanted or (name == "integer" and "number" in wanted)


def number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


CHECKS = {
    "type": is_a,
    "enum": lambda told, value: any(value is it or (value == it and value is not False) for it in told),
    "const": lambda told, value: value == told,
    "anyOf": lambda told, value: any(allows(one, value) for one in told),
    "minimum": lambda told, value: not number(value) or value >= told,
    "maximum": lambda told, value: not number(value) or value <= told,
    "exclusiveMinimum": lambda told, value: not number(value) or value > told,
    "minLength": lambda told, value: not isinstance(value, str) or len(value) >= told,
    "pattern": lambda told, value: not isinstance(value, str) or re.search(told, value) is not None,
    "items": lambda told, value: not isinstance(value, list) or all(allows(told, item) for item in value),
    "patternProperties": lambda told, value: (
        not isinstance(value, dict)
        or all(
            allows(one, item)
            for shape, one in told.items()
            for key, item in value.items()
            if re.search(shape, key)
        )
    ),
    "properties": lambda told, value: (
        not isinstance(value, dict)
        or all(allows(told[key], item) for key, item in value.items() if key in told)
    ),
    "required": lambda told, value: not isinstance(value, dict) or set(told) <= set(value),
    "minProperties": lambda told, value: not isinstance(value, dict) or len(value) >= told,
    "additionalProperties": lambda told, value: told is False,
}


def complains(place, key, value):
    """Whether the loader objects to this very key (other keys may be wrong or missing)."""
    whole = {"models": {"m": {"engine": "emulated"}}}
    at, path = whole, ""
    for part in place:
        named = {"models": "m", "shifts": "s", "models.m.variants": "v", "fleet.nodes": "n"}
        name = named.get(path, part) if part == "*" else part
        path += "[0]" if name == "*" else f".{name}" if path else name
        if name == "*":
            at.append({})
            at = at[0]
        else:
            at = at.setdefault(name, [] if name in ("keys", "schedule") else {})
    at[key] = value
    dotted = f"{path}.{key}" if path else key
    try:
        parse(json.dumps(whole))
    except PolicyError as error:
        shape = re.compile(re.escape(dotted) + r"($|[.\[])")
        # Rules between keys are not the schema's to know.
        values = [
            p for p in error.problems if not p.message.startswith(("it must be at most", "it must be below"))
        ]
        return any(shape.match(p.key) and not p.message.startswith("needs") for p in values)
    return False


@pytest.mark.parametrize("place, key", KEYS)
def test_what_the_schema_refuses_the_loader_refuses_too(place, key):
    told = SCHEMA
    for part in schema_path(place):
        told = told[part]

    refused = [value for value in VALUES if not allows(told["properties"][key], value)]

    assert [value for value in refused if not complains(place, key, value)] == []


def schema_path(place):
    return ("$defs", SECTIONS[place].__name__) if place else ()


def test_every_key_of_the_schema_is_known_to_the_loader_and_no_other():
    for place, section in SECTIONS.items():
        told = SCHEMA
        for part in schema_path(place):
            told = told[part]
        assert set(told["properties"]) == set(keys_of(section))
        assert told["additionalProperties"] is False


def test_every_key_tells_what_it_means_its_default_and_its_range():
    for place, section in SECTIONS.items():
        for key, field in keys_of(section).items():
            kind = kind_of(field)
            if (*place, key) in SECTIONS and field.description is None:
                continue
            assert field.description, f"{place} {key}"
            if kind is not None and field.default not in (None, ...) and not field.is_required():
                told = SCHEMA["$defs"][section.__name__]["properties"][key]
                assert told["default"] == kind.write(field.default)
                assert kind.read(told["default"]) == field.default


def test_a_number_is_bounded_by_the_same_numbers():
    def walk(schema, place):
        for key, told in schema.get("properties", {}).items():
            if told.get("type") == "integer":
                yield place, key, told["minimum"], told["maximum"]

    for place, section in SECTIONS.items():
        for where, key, least, most in walk(SCHEMA["$defs"].get(section.__name__, {}), place):
            assert not complains(where, key, least)
            assert not complains(where, key, most)
            assert complains(where, key, least - 1)
            assert complains(where, key, most + 1)


def test_every_key_stands_in_the_documentation():
    page = (ROOT / docs.PAGE).read_text()

    for section in SECTIONS.values():
        for key in keys_of(section):
            assert re.search(rf"[`.]{key}(\[\]|\.NAME)?`", page), key


def test_the_tables_in_the_documentation_are_current(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    assert main(["--docs", "--check"]) == 0
    assert main(["--docs"]) == 0
    assert capsys.readouterr().out.strip() in (ROOT / docs.PAGE).read_text()


def test_a_page_that_lags_behind_is_noticed_and_mended(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / docs.PAGE
    page.parent.mkdir()
    page.write_text(f"before\n{docs.BEGIN}\nold\n{docs.END}\nafter\n")

    assert main(["--docs", "--check"]) == 1
    assert "is out of date; run: python -m tidegate.config --docs --write" in capsys.readouterr().err
    assert main(["--docs", "--write"]) == 0
    assert main(["--docs", "--check"]) == 0
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")


def test_a_page_without_its_marks_is_an_error():
    with pytest.raises(ValueError, match="must hold the lines"):
        docs.page_with_tables("nothing")


def test_the_policies_in_the_documentation_load():
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / docs.PAGE).read_text(), re.DOTALL)

    assert blocks
    for block in blocks:
        parse(block)
