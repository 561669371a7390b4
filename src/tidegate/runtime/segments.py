"""The journal's files: ``RUN-000001.jsonl`` and so on, written by a thread within the space that is given.

A line is whole or not there: what a full disk cut off is taken back. Every loss is counted, here and
in the file, where ``{"missing": n}`` stands in the place of the turns that are not there.
"""

from __future__ import annotations

import io
import logging
import os
import queue
import threading
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger("tidegate.journal")

BACKLOG_BATCHES = 2_000
"""About 40 MB of lines in memory at most."""
SEGMENTS = 8
"""The space is given away in so many pieces, the oldest first."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some whole lines."""

    data: bytes
    turns: int
    lost_before: int
    """Turns that were lost between the batch before and this one."""


class SegmentWriter:
    """A thread that takes batches from a bounded queue and appends them to files."""

    def __init__(self, folder: Path, run: str, max_bytes: int) -> None:
        self.batches: queue.Queue[Batch | None] = queue.Queue(BACKLOG_BATCHES)
        self._folder = folder
        self._run = run
        self._max_bytes = max_bytes
        self._thread = threading.Thread(target=self._write_segments, name="journal", daemon=True)
        self._segment = 0
        self._missing = 0
        """Turns lost since the last batch that is in a file."""
        self.lost_total = 0
        """Turns lost on this side of the queue."""
        self.segments_dropped_total = 0

    def start(self) -> None:
        """Begin.

        Raises:
            OSError: the folder cannot be made.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """Write what is queued and end, or give up when it takes longer: the disk may hang."""
        if not self._thread.is_alive():
            return
        try:
            self.batches.put(None, timeout=within_s)
        except queue.Full:
            return
        self._thread.join(within_s)

    # ---- on the thread ----

    def _write_segments(self) -> None:
        more = True
        while more:
            self._segment += 1
            self._keep_within_bounds()
            path = self._folder / f"{self._run}-{self._segment:06d}.jsonl"
            try:
                with io.FileIO(path, "wb", opener=_private) as file:
                    more = self._fill(file)
            except OSError as error:
                log.warning("journal segment %s: %s", path.name, error)
                self._segment -= 1
                more = self._lose_one()

    def _fill(self, file: io.FileIO) -> bool:
        """Append batches until the segment is full; False at the end."""
        segment_bytes = max(1, self._max_bytes // SEGMENTS)
        while file.tell() < segment_bytes:
            batch = self.batches.get()
            if batch is None:
                return False
            missing = self._missing + batch.lost_before
            data = b'{"missing":%d}\n' % missing + batch.data if missing else batch.data
            if append(file, data) or (self._drop_oldest() and append(file, data)):
                self._missing = 0
            else:
                if not self._missing:
                    log.warning("the journal's disk is full: turns are lost until there is room")
                self._missing = missing + batch.turns
                self.lost_total += batch.turns
        return True

    def _lose_one(self) -> bool:
        """There is no file to write to: the next batch is lost, and then there may be one."""
        batch = self.batches.get()
        if batch is None:
            return False
        self._missing += batch.lost_before + batch.turns
        self.lost_total += batch.turns
        return True

    def _keep_within_bounds(self) -> None:
        room_bytes = self._max_bytes * (SEGMENTS - 1) // SEGMENTS
        while sum(path.stat().st_size for path in segments(self._folder)) > room_bytes:
            if not self._drop_oldest():
                return

    def _drop_oldest(self) -> bool:
        """Remove the oldest segment, but never the one that is being written."""
        current = f"{self._run}-{self._segment:06d}.jsonl"
        kept = [path for path in segments(self._folder) if path.name != current]
        if not kept:
            return False
        kept[0].unlink(missing_ok=True)
        self.segments_dropped_total += 1
        return True


def segments(folder: Path) -> list[Path]:
    """All segments in a folder, oldest first: a run is named after when it began."""
    return sorted(folder.glob("*-[0-9][0-9][0-9][0-9][0-9][0-9].jsonl"))


def append(file: io.FileIO, data: bytes) -> bool:
    """Append all of it or, when the disk does not take it, nothing."""
    begin = file.tell()
    left = memoryview(data)
    try:
        while left:
            left = left[file.write(left) or 0 :]
    except OSError:
        file.seek(begin)
        file.truncate()
        return False
    return True


def _private(path: str, flags: int) -> int:
    """Open for this user alone: who asks for how much, and when, is nobody else's business."""
    return os.open(path, flags, 0o600)
