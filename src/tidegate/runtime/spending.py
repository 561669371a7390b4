"""What was spent and started, kept in a file: caps on a day and on an hour hold across a restart of Tidegate.

Moments are written in seconds of the calendar, since the brains' own clock begins anew with each process. A file that is
not there or cannot be read means that nothing is known of before, and the log says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from tidegate.core.events import SpendingRestored, SpillsRestored
from tidegate.core.fleet import FleetView
from tidegate.core.types import ModelId
from tidegate.runtime.state_file import StateFile

log = logging.getLogger("tidegate.fleet")

EVERY_S = 60.0

Spilt = Mapping[ModelId, tuple[tuple[float, float], ...]]
"""How long ago each minute began in which something was spilt, and the money."""


class _Kept(msgspec.Struct):
    """As it is in the file."""

    at: float
    minutes: list[tuple[float, float]]
    """Age in s as of ``at``, and money."""
    starts: list[float]
    """Ages in s."""
    spilt: dict[str, list[tuple[float, float]]] = {}
    """By model: as ``minutes``, at its pay-per-token upstream."""


class SpendingFile:
    """Writes the books once a minute and reads them at the start."""

    def __init__(self, folder: Path, calendar_s: Callable[[], float] = time.time) -> None:
        self._file = StateFile(folder / "spending.json", log, lost="what was spent before is not known")
        self._calendar_s = calendar_s
        self._written_s: float | None = None

    def read(self) -> tuple[SpendingRestored | None, SpillsRestored | None]:
        """What a former run has spent and started, and what of that at pay-per-token upstreams, with the time since then;
        None where there is nothing."""
        kept = self._file.read(_Kept)
        if kept is None:
            return None, None
        # A clock that was set back makes nothing younger than it was.
        passed_s = max(0.0, self._calendar_s() - kept.at)
        starts = tuple(age_s + passed_s for age_s in kept.starts)
        spilt = {ModelId(model): _older(minutes, passed_s) for model, minutes in kept.spilt.items()}
        return SpendingRestored(_older(kept.minutes, passed_s), starts), SpillsRestored(
            spilt
        ) if spilt else None

    def keep(self, look: Callable[[], FleetView], spilt: Callable[[], Spilt], now_s: float) -> None:
        """Write the books when it is time."""
        if self._written_s is None or now_s >= self._written_s + EVERY_S:
            self._written_s = now_s
            self.write(look(), spilt())

    def write(self, view: FleetView, spilt: Spilt) -> None:
        """Write the books as they are."""
        spending = view.spending
        by_model = {str(model): list(minutes) for model, minutes in spilt.items()}
        kept = _Kept(self._calendar_s(), list(spending.minutes), list(spending.starts), by_model)
        self._file.write(kept)


def _older(minutes: Sequence[tuple[float, float]], by_s: float) -> tuple[tuple[float, float], ...]:
    return tuple((age_s + by_s, money) for age_s, money in minutes)
