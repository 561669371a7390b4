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
import queue
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidegate import __version__
from tidegate.runtime.segments import Batch, SegmentWriter

BATCH_TURNS = 64
"""Encoding 64 turns takes about 0.15 ms: short enough not to be seen in a stream's gaps."""
FLUSH_EVERY_S = 0.2
CLOSE_WITHIN_S = 5.0


class NoJournal:
    """Keeps nothing."""

    def turn(self, brain: str, now_s: float, event: object, effects: Sequence[object]) -> None:
        """Forget the turn."""


class FileJournal:
    """Writes the run's segments into a folder."""

    def __init__(self, folder: Path, run: str, max_bytes: int) -> None:
        self._turns: list[tuple[str, float, object, Sequence[object]]] = []
        self._encode = msgspec.json.Encoder().encode
        self._writer = SegmentWriter(folder, run, max_bytes)
        self._batches = self._writer.batches
        self._timer: asyncio.TimerHandle | None = None
        self._lost = 0
        """Turns lost here since the last batch that was handed over."""
        self._lost_total = 0
        self.turns_total = 0
        # First in the line, whatever turns come before the file is begun.
        self._hand_over(self._encode({"journal": 1, "tidegate": __version__, "run": run}) + b"\n", 0)

    @property
    def dropped_total(self) -> int:
        """Turns that could not be written."""
        return self._lost_total + self._writer.lost_total

    @property
    def segments_dropped_total(self) -> int:
        """Old segments that were removed to make room."""
        return self._writer.segments_dropped_total

    def start(self) -> None:
        """Begin to write, with what has been kept so far; called on the event loop. One that was not begun leaves no file.

        Raises:
            OSError: the folder cannot be made.
        """
        self._writer.start()
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
        self._writer.stop(CLOSE_WITHIN_S)

    def _flush_later(self) -> None:
        self._flush()
        self._timer = asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self._flush_later)

    def _flush(self) -> None:
        if not self._turns:
            return
        turns, self._turns = self._turns, []
        self.turns_total += len(turns)
        lines = [self._encode(line(*turn)) for turn in turns]
        lines.append(b"")
        self._hand_over(b"\n".join(lines), len(turns))

    def _hand_over(self, data: bytes, turns: int) -> None:
        try:
            self._batches.put_nowait(Batch(data, turns, self._lost))
        except queue.Full:
            self._lost += turns
            self._lost_total += turns
        else:
            self._lost = 0


def line(brain: str, now_s: float, event: object, effects: Sequence[object]) -> dict[str, object]:
    """One turn as it is written."""
    return {
        "t": now_s,
        "brain": brain,
        "event": {type(event).__name__: event},
        "effects": [{type(effect).__name__: effect} for effect in effects],
    }
