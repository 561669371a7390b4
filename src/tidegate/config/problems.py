"""Mistakes in a policy file: what is wrong, where, and what would be right.

All of a file's mistakes are gathered before anything is said. Values that may be secrets are never
repeated, whatever is wrong with them.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass

KeyPath = tuple[str | int, ...]
"""Where a value stands in the file: keys, and numbers for places in a list."""

HIDDEN = "(hidden)"
_MAX_SHOWN = 60
_SECRET_KEYS = frozenset({"env", "args", "command"})
"""Under a model or a variant: engines are given tokens and keys by each of these."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. As text: ``line 4: gateway.port is 70000; it must be …``."""

    key: str
    """Path of the key, such as ``models.smol.scaling.min_replicas``; empty for the file as a whole."""
    value: str | None
    """The value as written; None when there is none, or when the key itself is the mistake."""
    message: str
    line: int | None = None

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}: "
        if self.value is not None:
            return f"{where}{self.key} is {self.value}; {self.message}"
        return where + f"{self.key} {self.message}".lstrip()


class PolicyError(ValueError):
    """A policy file that cannot be used, with every reason why."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        # In the order of the file; what has no line belongs to the file as a whole.
        ordered = sorted(problems, key=lambda problem: problem.line or 0)
        self.source = source
        self.problems = tuple(ordered)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        count = len(self.problems)
        head = f"{self.source}: {count} problem{'' if count == 1 else 's'}"
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])


def dotted(path: KeyPath) -> str:
    """``("gateway", "keys", 0, "name")`` as ``gateway.keys[0].name``, without secrets."""
    text = ""
    for depth, part in enumerate(path):
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = HIDDEN if _is_stray_key_material(path, depth) else _printable(part)
            text += f".{name}" if text else name
    return text


def shown(path: KeyPath, value: object) -> str:
    """A value as the file has it, short enough for a line; ``(hidden)`` where it may be a secret."""
    if _is_secret(path) or (isinstance(value, str) and "//" in value and ("@" in value or "?" in value)):
        return HIDDEN
    if value is None:
        return "empty"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return _printable(value) if value else "empty"
    return json.dumps(value, default=str)[:_MAX_SHOWN]


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known word that this one was probably meant to be."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def _printable(text: str) -> str:
    """On one line, without control characters, cut where it gets long."""
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return clean if len(clean) <= _MAX_SHOWN else clean[: _MAX_SHOWN - 1] + "…"


def _is_secret(path: KeyPath) -> bool:
    if path[:2] == ("gateway", "keys") or path[-1:] == ("key_env",):
        return True  # Whoever writes something else than a name there has probably written the key.
    key = path[4:5] if path[2:3] == ("variants",) else path[2:3]
    return path[:1] == ("models",) and bool(key) and key[0] in _SECRET_KEYS


def _is_stray_key_material(path: KeyPath, depth: int) -> bool:
    """A key written where the name of a setting belongs, as in ``keys: [{sk-1234: team-a}]``."""
    name = path[depth]
    if path[:2] != ("gateway", "keys") or depth < 2 or isinstance(name, int):
        return False
    return did_you_mean(name, ("sha256", "name", "priority", "weight", "may_spill")) is None
