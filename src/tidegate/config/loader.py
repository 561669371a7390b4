"""Opening the door: a policy file becomes frozen settings, or every reason why it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tidegate.config import document, findings
from tidegate.config.build import built
from tidegate.config.problems import PolicyError, Problem
from tidegate.config.rules import broken_rules
from tidegate.config.settings import Settings
from tidegate.config.warnings import warnings_of

MAX_FILE_BYTES = 1024 * 1024


def load(path: str | Path) -> Settings:
    """The settings in a policy file. Relative paths in it start at its own folder.

    Raises:
        PolicyError: it cannot be read or used; all problems are in it.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise _refused(str(path), "the file is larger than 1MiB, which no policy is")
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise _refused(str(path), f"the file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _refused(str(path), f"the file is not UTF-8 text (byte {error.start})") from None
    return parse(text, str(path), base=path.absolute().parent)


def parse(text: str, source: str = "policy", *, base: Path | None = None) -> Settings:
    """The settings in a policy's text; ``source`` is what to call it, ``base`` where relative paths start.

    Raises:
        PolicyError: it cannot be used; all problems are in it.
    """
    base = Path.cwd() if base is None else base
    read = document.read(text)
    if read.data is None:
        nothing = Problem("", None, "the file is empty; it must hold at least models")
        raise PolicyError(source, read.problems or [nothing])
    policy, problems, left_out = findings.check(read)
    if policy is not None:
        problems += broken_rules(policy, base, read, left_out)
    if policy is None or problems:
        raise PolicyError(source, problems)
    settings = built(policy, base)
    return replace(settings, warnings=warnings_of(settings))


def _refused(source: str, message: str) -> PolicyError:
    return PolicyError(source, [Problem("", None, message)])
