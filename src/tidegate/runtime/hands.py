"""Numbers that somebody set by hand, kept in a file: they hold across a restart of Tidegate for the rest of their time.

Moments are written in seconds of the calendar, since the brains' own clock begins anew with each process. A file that
cannot be read means that no number is set, and the log says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tidegate.core.events import ScaledByHand
from tidegate.core.fleet import HandNumber
from tidegate.core.types import ModelId
from tidegate.runtime.state_file import StateFile

log = logging.getLogger("tidegate.fleet")


class _Hand(msgspec.Struct, frozen=True):
    """As it is in the file."""

    replicas: int
    until: float
    at_least: bool = False
    asked: int | None = None


class HandFile:
    """Writes the numbers when they change and reads them at the start."""

    def __init__(self, folder: Path, calendar_s: Callable[[], float] = time.time) -> None:
        self._path = folder / "by_hand.json"
        self._file = StateFile(self._path, log, lost="no number is set by hand")
        self._calendar_s = calendar_s
        self._written: dict[str, _Hand] | None = None

    def read(self) -> list[ScaledByHand]:
        """What a former run was told and is not over, for the rest of its time."""
        kept = self._file.read(dict[str, _Hand]) or {}
        now_s = self._calendar_s()
        return [
            ScaledByHand(ModelId(model), hand.replicas, hand.until - now_s, hand.at_least, hand.asked)
            for model, hand in kept.items()
            if hand.until > now_s
        ]

    def keep(self, numbers: Mapping[ModelId, HandNumber], now_s: float) -> None:
        """Write the numbers if they are others than those written last. ``now_s`` is by the clock that they are by."""
        hands = {
            str(model): _Hand(
                hand.replicas, round(self._calendar_s() + hand.until_s - now_s), hand.at_least, hand.asked
            )
            for model, hand in numbers.items()
        }
        if hands == self._written or (not hands and self._written is None and not self._path.exists()):
            return
        if self._file.write(hands):
            self._written = hands
