"""Two maxima over the recent past, with moments instead of counts of ticks.

``PeakWindow`` is over samples taken at moments. ``Hold`` is over numbers that each stood for a while.
Both keep a falling sequence only: what is older *and* smaller than a later value can never be the
answer again, so each value is put in and taken out once.
"""

from __future__ import annotations

from collections import deque


class PeakWindow:
    """The largest sample of the last ``window_s``: one of age ``window_s`` is just outside."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()

    def __repr__(self) -> str:
        return f"<PeakWindow of {len(self._samples)}>"

    def add(self, value: float, now_s: float) -> None:
        """Take a sample."""
        while self._samples and self._samples[-1][1] <= value:
            self._samples.pop()
        self._samples.append((now_s, value))

    def peak(self, window_s: float, now_s: float) -> tuple[float, float] | None:
        """The largest sample and the moment at which it leaves; None without one."""
        while self._samples and self._samples[0][0] + window_s <= now_s:
            self._samples.popleft()
        if not self._samples:
            return None
        taken_s, value = self._samples[0]
        return value, taken_s + window_s


class Hold:
    """The largest number asked for within the last ``delay_s``.

    A number counts for ``delay_s`` after a lower one has taken its place. With two numbers, high and
    low, that is "down once the low one has stood for the delay"; with more, the way down goes through
    each number that was really needed.
    """

    __slots__ = ("_current", "_delay_s", "_left")

    def __init__(self, delay_s: float, standing: int) -> None:
        self._delay_s = delay_s
        self._current = standing
        self._left: deque[tuple[int, float]] = deque()
        """Numbers above the current one, falling, with the moment at which each stops to count."""

    def __repr__(self) -> str:
        return f"<Hold current={self._current} above={list(self._left)}>"

    @property
    def due_s(self) -> float | None:
        """When the answer falls next if nothing else is asked for; None when nothing is held."""
        return self._left[0][1] if self._left else None

    def ask(self, number: int, now_s: float) -> int:
        """Take in what is asked for now; the answer is never below it."""
        if number < self._current:
            self._left.append((self._current, now_s + self._delay_s))
        while self._left and self._left[-1][0] <= number:
            self._left.pop()
        self._current = number
        while self._left and self._left[0][1] <= now_s:
            self._left.popleft()
        return self._left[0][0] if self._left else number
