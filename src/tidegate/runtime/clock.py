"""The one place that reads the clock for the brains."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where ``now_s`` comes from."""

    def now_s(self) -> float:
        """Seconds, never going back."""


class WallClock:
    """Seconds since 1970 as of the start, moved on by the monotonic clock.

    A step of the machine's clock moves no deadline and ends no window; the journal can still be read
    against a calendar.
    """

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now_s(self) -> float:
        return time.monotonic() + self._offset_s
