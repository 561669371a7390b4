"""One log file per replica, bounded in size, and its last lines for whoever asks why.

Engines write to the file themselves, not through a pipe: their output must not stop, nor they, when
Tidegate is killed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from urllib.parse import quote

from tidegate.core.types import ReplicaId

_TAIL_BYTES = 16 * 1024


class Logs:
    """The log files of one fleet. At most ``2 x max_bytes`` each, at most ``keep`` of ended replicas."""

    def __init__(self, folder: Path, *, max_bytes: int = 8 * 1024 * 1024, keep: int = 50) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._keep = keep
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, replica_id: ReplicaId) -> Path:
        """Where this replica's output goes."""
        return self._folder / f"{quote(replica_id, safe='')}.log"

    def create(self, replica_id: ReplicaId) -> int:
        """A descriptor to give the engine as its output."""
        self._forget_oldest()
        # Appending, so that after a truncation writing goes on at the start of the file.
        return os.open(
            self.path(replica_id), os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    def trim(self, replica_id: ReplicaId) -> None:
        """Move what is there aside when it is too long. A line written in between may be lost."""
        path = self.path(replica_id)
        try:
            if path.stat().st_size > self._max_bytes:
                shutil.copyfile(path, path.with_suffix(".log.1"))
                os.truncate(path, 0)
        except FileNotFoundError:
            return

    def tail(self, replica_id: ReplicaId, lines: int = 10) -> str:
        """The last lines; empty when there are none."""
        try:
            with self.path(replica_id).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-lines:])

    def _forget_oldest(self) -> None:
        logs = sorted(self._folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
        for path in logs[: max(0, len(logs) - self._keep)]:
            path.with_suffix(".log.1").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
