"""The journal: every turn of both brains as one JSON line.

``{"t": 12.5, "brain": "dispatch", "event": {"RequestArrived": {...}}, "effects": [{"Send": {...}}]}``

The same lines are a golden test case and the input of ``tidegate replay``. Prompts and keys are never
in an event, so they are never here.

Writing never delays a request: a turn costs an append; lines are encoded in batches on the loop and
written by a thread. What the thread cannot keep up with is dropped and counted, and the file says how
many lines are missing. When the space given is used up, or the disk is full, the oldest segment goes.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import queue
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidegate import __version__

log = logging.getLogger("tidegate.journal")

BATCH_TURNS = 64
"""Encoding 64 turns takes about 0.15 ms: short enough not to be seen in a stream's gaps."""
FLUSH_EVERY_S = 0.2
BACKLOG_BATCHES = 2_000
"""About 40 MB of lines in memory at most."""
SEGMENTS = 8


class NoJournal:
    """Keeps nothing."""

    def turn(self, brain: str, now_s: float, event: object, effects: Sequence[object]) -> None:
        """Forget the turn."""


class FileJournal:
    """Writes segments ``RUN-000001.jsonl`` into a folder."""

    def __init__(self, folder: Path, run: str, max_bytes: int) -> None:
        self._folder = folder
        self._run = run
        self._max_bytes = max_bytes
        self._turns: list[tuple[str, float, object, Sequence[object]]] = []
        self._encoder = msgspec.json.Encoder()
        self._batches: queue.Queue[bytes | None] = queue.Queue(BACKLOG_BATCHES)
        self._timer: asyncio.TimerHandle | None = None
        self._writer = threading.Thread(target=self._write_batches, name="journal", daemon=True)
        self._segment = 0
        self._unwritten = 0
        self.turns_total = 0
        self.dropped_total = 0
        self.segments_dropped_total = 0

    def start(self) -> None:
        """Begin to write; called on the event loop."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._writer.start()
        self._put(self._encoder.encode({"journal": 1, "tidegate": __version__, "run": self._run}) + b"\n")
        self._flush_later()

    def turn(self, brain: str, now_s: float, event: object, effects: Sequence[object]) -> None:
        """Keep one turn."""
        self._turns.append((brain, now_s, event, effects))
        if len(self._turns) >= BATCH_TURNS:
            self._flush()

    def close(self) -> None:
        """Write what is left and wait for it, 5 s at most."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush()
        if self._writer.is_alive():
            self._batches.put(None)
            self._writer.join(timeout=5.0)

    def _flush_later(self) -> None:
        self._flush()
        self._timer = asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self._flush_later)

    def _flush(self) -> None:
        if not self._turns:
            return
        turns, self._turns = self._turns, []
        self.turns_total += len(turns)
        encode = self._encoder.encode
        lines = [encode(line(brain, now_s, event, effects)) for brain, now_s, event, effects in turns]
        if self._unwritten:
            lines.insert(0, encode({"missing": self._unwritten}))
        lines.append(b"")
        if self._put(b"\n".join(lines)):
            self._unwritten = 0
        else:
            self._unwritten += len(turns)
            self.dropped_total += len(turns)

    def _put(self, batch: bytes) -> bool:
        try:
            self._batches.put_nowait(batch)
        except queue.Full:
            return False
        return True

    # ---- on the writer's thread ----

    def _write_batches(self) -> None:
        segment_bytes = max(1, self._max_bytes // SEGMENTS)
        while True:
            self._segment += 1
            path = self._folder / f"{self._run}-{self._segment:06d}.jsonl"
            try:
                with io.FileIO(path, "wb", opener=_private) as file:
                    while file.tell() < segment_bytes:
                        batch = self._batches.get()
                        if batch is None:
                            return
                        self._write(file, batch)
            except OSError as error:
                log.warning("journal segment %s: %s", path.name, error)
                if self._batches.get() is None:
                    return
            self._keep_within_bounds()

    def _write(self, file: io.FileIO, batch: bytes) -> None:
        try:
            file.write(batch)
        except OSError:
            # The disk is full: room for a batch is made by the oldest segment, or the batch is lost.
            self._drop_oldest()
            try:
                file.write(batch)
            except OSError:
                self.dropped_total += batch.count(b"\n")

    def _keep_within_bounds(self) -> None:
        room_bytes = self._max_bytes * (SEGMENTS - 1) // SEGMENTS
        while sum(path.stat().st_size for path in segments(self._folder)) > room_bytes:
            if not self._drop_oldest():
                return

    def _drop_oldest(self) -> bool:
        kept = segments(self._folder)
        if len(kept) < 2:
            return False
        kept[0].unlink(missing_ok=True)
        self.segments_dropped_total += 1
        return True


def segments(folder: Path) -> list[Path]:
    """All segments in a folder, oldest first: a run is named after when it began."""
    return sorted(folder.glob("*-[0-9][0-9][0-9][0-9][0-9][0-9].jsonl"))


def line(brain: str, now_s: float, event: object, effects: Sequence[object]) -> dict[str, object]:
    """One turn as it is written."""
    return {
        "t": now_s,
        "brain": brain,
        "event": {type(event).__name__: event},
        "effects": [{type(effect).__name__: effect} for effect in effects],
    }


def _private(path: str, flags: int) -> int:
    """Open for this user alone: who asks for how much, and when, is nobody else's business."""
    return os.open(path, flags, 0o600)
