"""Numbers that somebody set by hand, kept in a file: they hold across a restart of Tidegate for the rest of their time.

Moments are written in seconds of the calendar, since the brains' own clock begins anew with each process. A file that
cannot be read means that no number is set, and the log says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tidegate.core.events import ScaledByHand
from tidegate.core.fleet import FleetView
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

    def keep(self, view: FleetView) -> None:
        """Write the numbers if they are others than those written last."""
        hands = {
            str(model.model): _Hand(
                model.hand.replicas,
                round(self._calendar_s() + model.hand.until_s - view.at_s),
                model.hand.at_least,
                model.hand.asked,
            )
            for model in view.models
            if model.hand is not None
        }
        if hands == self._written or (not hands and self._written is None and not self._path.exists()):
            return
        if self._file.write(hands):
            self._written = hands
