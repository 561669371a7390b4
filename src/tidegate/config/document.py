"""Reading YAML so that each value knows its line, and nothing is guessed or lost.

Only what people expect is recognised: ``true``/``false``, ``null``, decimal numbers; everything else is
text. (YAML 1.1 would make a boolean of ``no``, 8 of ``010`` and 5400 of ``1:30:00``.) A key written
twice is a problem, where most readers quietly keep the last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tidegate.config.problems import KeyPath, Problem, dotted

_MAX_VALUES = 20_000
"""A policy has hundreds; aliases of aliases can make billions out of a screenful."""

_HALF = "half a character in it, a surrogate on its own"
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """The safe loader with the few scalars of YAML 1.2."""


_Loader.yaml_implicit_resolvers = {}
_RESOLVERS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]{1,18}", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
)
_SHAPES = {_TAG + name: re.compile(rf"(?:{pattern})\Z") for name, pattern, _ in _RESOLVERS}

for _name, _, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(_TAG + _name, _SHAPES[_TAG + _name], _first)


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says: plain dictionaries, lists and scalars."""

    data: Any
    lines: Mapping[KeyPath, int]
    problems: tuple[Problem, ...] = ()
    unread: frozenset[KeyPath] = frozenset()
    """Places where a problem stands instead of a value."""

    def line(self, path: KeyPath) -> int | None:
        """Of this value, or of the nearest thing around it that is there."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


class _Unreadable(Exception):
    """Stops the reading at the first thing after which nothing can be trusted."""


def read(text: str) -> Document:
    """The document in ``text``. It never raises: what is wrong is in ``problems``."""
    builder = _Builder()
    try:
        node = _composed(text)
        data = None if node is None else builder.build(node, ())
    except yaml.MarkedYAMLError as error:
        return Document(None, {}, (_syntax_problem(error),))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return Document(None, {}, (Problem("", None, "this is not YAML: control character", line),))
    except RecursionError:
        return Document(None, {}, (Problem("", None, "values are nested too deeply"),))
    except _Unreadable as error:
        return Document(None, {}, (Problem("", None, str(error)),))
    return Document(data, builder.lines, tuple(builder.problems), frozenset(builder.unread))


def _composed(text: str) -> yaml.Node | None:
    """The one document in ``text``, as a tree.

    Raises:
        _Unreadable: an escape names no character, which the parser finds out by failing.
    """
    try:
        node: yaml.Node | None = _Loader(text).get_single_node()
    except (ValueError, OverflowError):
        raise _Unreadable("this is not YAML: an escape names a character that does not exist") from None
    return node


def _syntax_problem(error: yaml.MarkedYAMLError) -> Problem:
    # The parser's own text quotes the line it stumbled over, which may hold a key: only its reason is used,
    # and of that nothing between quotation marks that is longer than a character.
    reason = re.sub(r" '(?!\\.')[^'<]{2,}'", "", error.problem or "it cannot be parsed")
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem("", None, f"this is not YAML: {reason}")
    return Problem("", None, f"this is not YAML: {reason} (column {mark.column + 1})", mark.line + 1)


class _Builder:
    """Turns nodes into plain values, noting lines and problems on the way."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self.unread: set[KeyPath] = set()
        self._open: set[int] = set()
        self._values = 0

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        self._values += 1
        if self._values > _MAX_VALUES:
            message = f"the file holds more than {_MAX_VALUES} values"
            raise _Unreadable(message)
        self.lines.setdefault(path, node.start_mark.line + 1)
        if id(node) in self._open:
            self._problem(path, "refers to itself")
            return None
        self._open.add(id(node))
        try:
            return self._value(node, path)
        finally:
            self._open.discard(id(node))

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        match node:
            case yaml.ScalarNode() if not _is_whole(node.value):
                self._problem(path, f"has {_HALF}")
                return None
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self._mapping(node, path)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self.build(item, (*path, place)) for place, item in enumerate(node.value)]
            case yaml.ScalarNode() if _is_what_its_tag_says(node):
                return _scalar(node, path)
            case _:
                self._problem(path, "has a YAML tag; plain values only")
                return None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                message = "each key must be a word" if not path else "has a key that is not a word"
                self.problems.append(Problem(dotted(path), None, message, key.start_mark.line + 1))
                continue
            if not _is_whole(key.value):
                self.problems.append(
                    Problem(dotted(path), None, f"has a key with {_HALF}", key.start_mark.line + 1)
                )
                continue
            inner = (*path, key.value)
            if key.value in mapping:
                first, again = self.lines[inner], key.start_mark.line + 1
                message = f"is written twice, first on line {first}; keep one"
                self.problems.append(Problem(dotted(inner), None, message, again))
                continue
            self.lines[inner] = key.start_mark.line + 1
            mapping[key.value] = self.build(value, inner)
        return mapping

    def _problem(self, path: KeyPath, message: str) -> None:
        self.unread.add(path)
        self.problems.append(Problem(dotted(path), None, message, self.lines.get(path)))


def _is_whole(text: str) -> bool:
    """Escapes can write what is no text, and could not be printed, stored or given to an engine."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _is_what_its_tag_says(node: yaml.ScalarNode) -> bool:
    """A tag may also be written out, before anything: ``!!float x``."""
    shape = _SHAPES.get(node.tag)
    return node.tag == _TAG + "str" or (shape is not None and shape.match(node.value) is not None)


def _scalar(node: yaml.ScalarNode, path: KeyPath) -> object:
    text: str = node.value
    if _is_text(path):
        return text
    match node.tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text)
        case "float":
            return float(text)
        case _:
            return text


def _is_text(path: KeyPath) -> bool:
    """Where a number is as good as a word, and must reach the engine as it is written: ``1.0``, ``08``."""
    match path:
        case ("models", _, "args" | "command" | "env", _) | (
            "models",
            _,
            "variants",
            _,
            "args" | "command" | "env",
            _,
        ):
            return True
        case ("gateway", "keys", _, "sha256"):
            return True
        case _:
            return False
