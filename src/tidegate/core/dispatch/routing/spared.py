"""What a replica's cache alone has lately spared: the prefill that others would do again if it went.

A request that finds the beginning of its prompt here, and nowhere else so much of it, is spared the seconds in which another
replica would compute the rest. The seconds fade by halves: a conversation that nobody goes on with is no loss.
"""

from __future__ import annotations

HALF_S = 120.0
LEAST_S = 0.05
"""Less than this is nothing."""


class Spared:
    """Of one replica."""

    __slots__ = ("_at_s", "_spared_s")

    def __init__(self, now_s: float) -> None:
        self._spared_s, self._at_s = 0.0, now_s

    def __repr__(self) -> str:
        return f"<Spared {self._spared_s:.2f} s at {self._at_s:.0f} s>"

    def add(self, prefill_s: float, now_s: float) -> None:
        """A request was spared so much."""
        self._spared_s, self._at_s = self.seconds(now_s) + prefill_s, now_s

    def seconds(self, now_s: float) -> float:
        """All of it, faded."""
        if self._spared_s == 0.0:
            return 0.0
        faded_s = float(self._spared_s * 0.5 ** (max(0.0, now_s - self._at_s) / HALF_S))
        return faded_s if faded_s >= LEAST_S else 0.0
