"""From pydantic's errors to problems a person can act on, and what is left of a file without them."""

from __future__ import annotations

import copy
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidegate.config.document import Document
from tidegate.config.engines import EMULATED
from tidegate.config.problems import KeyPath, Problem, did_you_mean, dotted, shown
from tidegate.config.schema import SECTIONS, Keys, Policy, keys_of, kind_of

_EXPECTED = {
    "model_type": "it must be a mapping of settings",
    "dict_type": "it must be a mapping",
    "list_type": "it must be a list, such as [a, b]",
}
_FILLERS: dict[str | int, Any] = {
    "engine": EMULATED,
    "sha256": "0" * 64,
    "name": "?",
    "gpus": 1,
    "versions": {},
    "replicas": 1,
    "address": "http://127.0.0.1:1",
    "model": "?",
    "key_env": "_",
    "prompt_price": "0/M",
    "output_price": "0/M",
}


def check(document: Document) -> tuple[Policy | None, list[Problem], set[KeyPath]]:
    """The policy made of what is right in the document, each mistake, and the places that were left out.

    Rules that look at several keys can still be applied to the rest, so that all mistakes are found in
    one go. The policy is None when nothing usable is left.
    """
    problems = list(document.problems)
    left_out: set[KeyPath] = set(document.unread)
    data = copy.deepcopy(document.data)
    for attempt in range(len(SECTIONS)):
        try:
            return Policy.model_validate(data), problems, left_out
        except ValidationError as error:
            errors = error.errors(include_url=False)
        if attempt == 0:
            unsaid = (details for details in errors if _path(details) not in document.unread)
            problems += [_problem(details, document) for details in unsaid]
        broken = {_path(details) for details in errors}
        if () in broken:
            break
        left_out |= broken
        # From the end, so that places in lists stay what they are.
        for path in sorted(broken, key=_sort_key, reverse=True):
            _mend(data, path)
    return None, problems, left_out


def _path(error: ErrorDetails) -> KeyPath:
    return tuple(part for part in error["loc"] if part != "[key]")


def _sort_key(path: KeyPath) -> list[tuple[int, str]]:
    return [(part, "") if isinstance(part, int) else (-1, part) for part in path]


def _mend(data: Any, path: KeyPath) -> None:
    """Take out what is wrong. A key that must be there gets a value that breaks nothing else."""
    for part in path[:-1]:
        data = data[part]
    section = _section_at(path[:-1])
    field = keys_of(section).get(str(path[-1])) if section else None
    if field is not None and field.is_required():
        data[path[-1]] = _FILLERS[path[-1]]
    else:
        del data[path[-1]]


def _problem(error: ErrorDetails, document: Document) -> Problem:
    path = _path(error)
    key, line = dotted(path), document.line(path)
    match error["type"]:
        case "missing":
            return Problem(key, None, f"is missing; {_needed(path)}", line)
        case "extra_forbidden":
            return Problem(key, None, f"is not a known key; {_nearest(path)}", line)
        case "value_error":
            message = str(error["ctx"]["error"])
            if error["loc"][-1] == "[key]":
                return Problem(key, None, f"has a name that cannot be used; {message}", line)
            return Problem(key, shown(path, error["input"]), message, line)
        case expected:
            message = _EXPECTED.get(expected, error["msg"])
            if not path:
                return Problem("", None, f"the file is {shown((), error['input'])}; {message}", line)
            return Problem(key, shown(path, error["input"]), message, line)


def _needed(path: KeyPath) -> str:
    section = _section_at(path[:-1])
    kind = kind_of(keys_of(section)[str(path[-1])]) if section else None
    return f"it must be {kind.allowed}" if kind else "it is needed"


def _nearest(path: KeyPath) -> str:
    """What may have been meant: the place where this key would be right, or a similar word."""
    section, word = _section_at(path[:-1]), str(path[-1])
    if section is None:
        return "leave it out"
    elsewhere = [place for place, other in SECTIONS.items() if word in keys_of(other)]
    if elsewhere:
        best = max(elsewhere, key=lambda place: _steps_together(place, path))
        named = [
            here if want == "*" and _steps_together(best, path) > depth else want
            for depth, (want, here) in enumerate(zip(best, (*path, *best), strict=False))
        ]
        return f"it belongs at {dotted((*named, word)).replace('*', 'NAME')}"
    meant = did_you_mean(word, keys_of(section))
    return f"did you mean {meant}?" if meant else f"known are {', '.join(keys_of(section))}"


def _steps_together(place: tuple[str, ...], path: KeyPath) -> int:
    """How far into the file two places go the same way."""
    steps = 0
    for want, got in zip(place, path, strict=False):
        if want not in ("*", got):
            break
        steps += 1
    return steps


def _section_at(path: KeyPath) -> Keys | None:
    for place, section in SECTIONS.items():
        if len(place) == len(path) and all(want in ("*", got) for want, got in zip(place, path, strict=True)):
            return section
    return None
