"""A journal in one file, written as it comes: for simulations, where nobody waits for the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from tidegate import __version__
from tidegate.runtime.journal import line

BATCH_TURNS = 1_000


class PlainJournal:
    """Keeps every turn. Use it in a ``with`` block."""

    def __init__(self, path: Path, run: str) -> None:
        self._file = path.open("wb")
        self._encode = msgspec.json.Encoder().encode
        self._lines = [self._encode({"journal": 1, "tidegate": __version__, "run": run})]

    def __enter__(self) -> PlainJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write()
        self._file.close()

    def turn(self, brain: str, now_s: float, event: object, effects: Sequence[object]) -> None:
        """Keep one turn."""
        self._lines.append(self._encode(line(brain, now_s, event, effects)))
        if len(self._lines) >= BATCH_TURNS:
            self._write()

    def _write(self) -> None:
        self._file.write(b"".join(text + b"\n" for text in self._lines))
        self._lines.clear()
