"""A file of what outlives the process: written whole or not at all, and checked when it is read.

One that is not there, is damaged, too large or of another version means that nothing is known of before. The log says so,
and nothing fails for it.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


class StateFile:
    """One such file. ``lost`` ends the sentence that says that it cannot be read."""

    def __init__(self, path: Path, log: logging.Logger, *, lost: str, max_bytes: int = 64 << 20) -> None:
        self._path = path
        self._log = log
        self._lost = lost
        self._max_bytes = max_bytes

    def __repr__(self) -> str:
        return f"<StateFile {self._path}>"

    def read(self, kind: type[T]) -> T | None:
        """What was written last; None when there is nothing that can be read as that."""
        try:
            with self._path.open("rb") as file:
                content = file.read(self._max_bytes + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.reject(error)
            return None
        if len(content) > self._max_bytes:
            self.reject(f"it is larger than {self._max_bytes} bytes")
            return None
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            self.reject(error)
            return None

    def reject(self, why: object) -> None:
        """Say that what it has is of no use."""
        self._log.warning("%s cannot be read (%s): %s", self._path, why, self._lost)

    def write(self, content: object, *, is_flushed: bool = False) -> bool:
        """Put it in place of what was there; False, and a line in the log, when that fails. ``is_flushed``: it has reached
        the disk when this returns, however long that takes."""
        fresh = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with fresh.open("wb") as file:
                file.write(msgspec.json.encode(content))
                if is_flushed:
                    file.flush()
                    os.fsync(file.fileno())
            fresh.replace(self._path)
        except OSError as error:
            self._log.warning("%s cannot be written: %s", self._path, error)
            return False
        return True
