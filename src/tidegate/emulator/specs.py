"""``KIND:key=value,...`` as faults and cold starts are written on the command line.

Every mistake names the key, the value and what is allowed. Durations are read here and not by
``tidegate.config``, which would bring YAML and pydantic along: 13 MB in each of a dozen processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

Read = Callable[[str], Any]
"""Turns a text into a value, or raises ``ValueError`` with what is allowed."""


def duration(text: str) -> float:
    """Seconds of ``500ms``, ``30s``, ``1.5m``."""
    found = _DURATION.fullmatch(text)
    if not found:
        raise ValueError("a duration such as 30s or 500ms")
    return float(found[1]) * _SECONDS[found[2]]


def count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a whole number from 1")
    return int(text)


def count_or_duration(text: str) -> int | float:
    """A number of requests (``3``) or a span (``3s``)."""
    try:
        return count(text) if text.isdecimal() else duration(text)
    except ValueError:
        raise ValueError("a number of requests such as 3, or a duration such as 3s") from None


def status(text: str) -> int:
    """An HTTP status that means failure."""
    if not text.isdecimal() or not 400 <= int(text) <= 599:
        raise ValueError("an HTTP status from 400 to 599")
    return int(text)


def factor(text: str) -> float:
    """How many times as slow."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1e6:
        raise ValueError("a number above 0")
    return value


def spread(text: str) -> float:
    """How far a time may be from its median: the standard deviation of its logarithm."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 2.0:
        raise ValueError("a number from 0 to 2")
    return value


def fields(what: str, text: str, readers: Mapping[str, Read]) -> dict[str, Any]:
    """The values of ``key=value,...`` by key; ``what`` begins the message when one is wrong.

    Raises:
        ValueError: a key is unknown, given twice or has no value, or a value is not allowed.
    """
    found: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in readers:
            message = f"{what}: {key!r} is not known; allowed are {', '.join(readers) or 'no keys'}"
            raise ValueError(message)
        if key in found:
            message = f"{what}: {key} is given twice"
            raise ValueError(message)
        try:
            found[key] = readers[key](value if equals else "")
        except ValueError as error:
            message = f"{what}: {key} is {value!r}; it must be {error}"
            raise ValueError(message) from None
    return found
