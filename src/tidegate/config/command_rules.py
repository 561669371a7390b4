"""What must hold for the words that start an engine."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping

from tidegate.config.finding import Finding
from tidegate.config.model_keys import ModelKeys
from tidegate.config.problems import KeyPath

PLACEHOLDERS = ("host", "port", "model", "weights", "slots", "gpus")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_OUR_FLAGS = frozenset({"--host", "--port"})


def command_findings(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    """Of ``args`` and ``command``."""
    for place, word in enumerate(model.extra_args):
        flag = word.partition("=")[0]
        if flag in _OUR_FLAGS:
            yield Finding(
                (*path, "args", place), None, f"must not be {flag}; Tidegate chooses where engines listen"
            )
    if model.command is None:
        return
    where = (*path, "command")
    if not model.command:
        yield Finding(where, None, "is an empty list; it must begin with a program")
        return
    used = {name for word in model.command for name in _PLACEHOLDER.findall(word)}
    for unknown in sorted(used.difference(PLACEHOLDERS)):
        names = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        yield Finding(where, None, f"has the unknown placeholder {{{unknown}}}; it must be one of {names}")
    if "port" not in used:
        yield Finding(where, None, "must contain {port}, or the engine cannot be told where to listen")
    if "weights" in used and model.weights is None:
        message = "contains {weights}, but the model has none"
        yield Finding(where, None, message, (where, (*path, "weights")))
    elif used.issubset(PLACEHOLDERS) and "port" in used and not _is_program(model.command[0], model.env):
        message = "begins with a program that is not there; it must be a path, or a name on the engine's PATH"
        yield Finding(where, None, message, (where, (*path, "env")))


def _is_program(written: str, env: Mapping[str, str]) -> bool:
    """Whether it could be started; what is filled in later is believed."""
    if _PLACEHOLDER.search(written):
        return True
    return shutil.which(written, path=env.get("PATH") or os.environ.get("PATH")) is not None
