"""What both brains have learned, kept in a file: a restart, or a crash, begins with what was known.

Moments in it are on the wall clock, which is the calendar's: what is learned ages while nobody runs. It is written every
few minutes, at the end, and at once when a start has been measured, since nothing is dearer to learn anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import msgspec

from tidegate.core.knowledge import FleetKnowledge, KnownCapacity
from tidegate.runtime.state_file import StateFile

log = logging.getLogger("tidegate.fleet")

EVERY_S = 300.0
VERSION = 1
"""Of the file. Fields with defaults may be added to it; anything else makes another version."""
LOST = "what was learned before is not known"


class Kept(msgspec.Struct, frozen=True):
    """As it is in the file."""

    fleet: FleetKnowledge
    capacities: tuple[KnownCapacity, ...]
    version: int = VERSION


class KnowledgeFile:
    """Writes what is known and reads it at the start. Owns the task that writes."""

    def __init__(self, folder: Path) -> None:
        self._file = StateFile(folder / "knowledge.json", log, lost=LOST)
        self._written_s: float | None = None
        self._lessons = 0
        self._writing: asyncio.Task[bool] | None = None

    def __repr__(self) -> str:
        return f"<KnowledgeFile {self._file!r}>"

    def read(self) -> Kept | None:
        """What a former run left; None when there is nothing."""
        kept = self._file.read(Kept)
        if kept is not None and kept.version != VERSION:
            self._file.reject(f"it is of version {kept.version}, and {VERSION} is known")
            return None
        return kept

    def keep(self, look: Callable[[], Kept], lessons: int, now_s: float) -> None:
        """Have it written when it is time. ``lessons`` counts the starts that were measured."""
        if self._written_s is None:
            self._written_s = now_s
        if lessons == self._lessons and now_s < self._written_s + EVERY_S:
            return
        if self._writing is None or self._writing.done():
            self._written_s, self._lessons = now_s, lessons
            # In a thread: a disk may take its time, and streams would wait for it.
            self._writing = asyncio.create_task(asyncio.to_thread(self._write, look()), name="knowledge")

    async def close(self, look: Callable[[], Kept]) -> None:
        """Write it for the last time."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
        await asyncio.to_thread(self._write, look())

    def _write(self, kept: Kept) -> bool:
        # Piece by piece: a whole fleet's in one go would keep the interpreter to itself for a tenth of a second.
        pieces = [msgspec.Raw(msgspec.json.encode(model)) for model in kept.fleet.models]
        fleet = {field.name: getattr(kept.fleet, field.name) for field in fields(kept.fleet)}
        written = msgspec.structs.asdict(kept) | {"fleet": fleet | {"models": pieces}}
        return self._file.write(written, is_flushed=True)
