"""One log file per replica, bounded in size, and its last lines for whoever asks why.

Engines write to the file themselves, not through a pipe: their output must not stop, nor they, when
Tidegate is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path
from urllib.parse import quote

from tidegate.core.types import ReplicaId

_TAIL_BYTES = 16 * 1024
_START_BYTES = 512 * 1024
"""Progress bars of a start make some tens of kilobytes."""


class Logs:
    """The log files of one fleet. At most ``2 x max_bytes`` each, at most ``keep`` of ended replicas."""

    def __init__(self, folder: Path, *, max_bytes: int = 8 * 1024 * 1024, keep: int = 50) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._keep = keep
        self._held: set[ReplicaId] = set()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, replica_id: ReplicaId) -> Path:
        """Where this replica's output goes."""
        return self._folder / f"{quote(replica_id, safe='')}.log"

    def hold(self, replica_id: ReplicaId) -> None:
        """A replica runs: its log is not forgotten, however long it has had nothing to say."""
        self._held.add(replica_id)

    def let_go(self, replica_id: ReplicaId) -> None:
        """It has ended; its log is kept as one of the newest ``keep``."""
        self._held.discard(replica_id)

    def create(self, replica_id: ReplicaId) -> int:
        """A descriptor to give the engine as its output."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._forget_oldest()
        # Appending, so that after a truncation writing goes on at the start of the file.
        return os.open(
            self.path(replica_id), os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    async def trim(self, replica_id: ReplicaId) -> None:
        """Move what is there aside when it is too long. A line written in between may be lost."""
        path = self.path(replica_id)
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size > self._max_bytes:
                # In a thread: the engine holds the file open, so that it has to be copied, and streams
                # would wait for a slow disk.
                await asyncio.to_thread(_move_aside, path)

    def note(self, replica_id: ReplicaId, line: str) -> None:
        """A line of ours among the engine's."""
        with contextlib.suppress(OSError), self.path(replica_id).open("a", encoding="utf-8") as file:
            file.write(f"tidegate: {line}\n")

    def tail(self, replica_id: ReplicaId, lines: int = 10) -> str:
        """The last lines; empty when there are none."""
        try:
            with self.path(replica_id).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-lines:])

    def about_start(self, replica_id: ReplicaId) -> str:
        """What it wrote so far, the last of it where that is much; empty when nothing can be read."""
        try:
            with self.path(replica_id).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _START_BYTES))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _forget_oldest(self) -> None:
        held = {self.path(replica_id) for replica_id in self._held}
        ended = (path for path in self._folder.glob("*.log") if path not in held)
        logs = sorted(ended, key=lambda path: path.stat().st_mtime)
        for path in logs[: max(0, len(logs) - self._keep)]:
            path.with_suffix(".log.1").unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def _move_aside(path: Path) -> None:
    shutil.copyfile(path, path.with_suffix(".log.1"))
    os.truncate(path, 0)
