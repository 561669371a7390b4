"""Static and dynamic batching: the engine takes a whole group, and the next when that one has ended.

Static batching waits until ``size`` sequences are there. Dynamic batching (NVIDIA Triton's dynamic
batcher, ``max_queue_delay_microseconds``, 2019) starts with fewer once the first has waited
``timeout_s``. Continuous batching needs none of this.
"""

from __future__ import annotations

from collections import deque

from tidegate.engine.sequence import Sequence


class Grouping:
    """When the next group starts, and how much of it has still to enter the batch."""

    def __init__(self, size: int, timeout_s: float | None = None) -> None:
        if size < 1:
            message = f"a group of {size}; it must be at least 1"
            raise ValueError(message)
        self._size = size
        self._timeout_s = timeout_s
        self._left = 0

    def opens_s(self, waiting: deque[Sequence]) -> float | None:
        """When an idle engine takes the next group; None while only an arrival can tell."""
        moments = [] if self._timeout_s is None or not waiting else [_queued(waiting[0]) + self._timeout_s]
        if len(waiting) >= self._size:
            moments.append(_queued(waiting[self._size - 1]))
        return min(moments, default=None)

    def room(self, waiting: deque[Sequence], running: int, now_s: float) -> int:
        """How many sequences may enter the batch now."""
        if running == 0:
            opens_s = self.opens_s(waiting)
            is_open = opens_s is not None and opens_s <= now_s
            self._left = min(self._size, len(waiting)) if is_open else 0
        return self._left

    def admitted(self) -> None:
        """One of the group has entered."""
        self._left -= 1


def _queued(sequence: Sequence) -> float:
    assert sequence.queued_s is not None
    return sequence.queued_s
