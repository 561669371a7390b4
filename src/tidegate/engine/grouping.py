"""Static and dynamic batching: the engine takes a whole group, and the next when that one has ended.

Static batching waits until ``size`` sequences are there. Dynamic batching (NVIDIA Triton's dynamic
batcher, ``max_queue_delay_microseconds``, 2019) starts with fewer once the first has waited
``timeout_s``. Continuous batching needs none of this.

A group is a rectangle: every prompt is padded to the longest and computed in the first step, every sequence is
decoded until the longest answer is out, and all end together (Yu et al., Orca, OSDI 2022, section 3, on the engines
before it). It takes no more of the queue than has room in the cache at its full size, so nobody is preempted;
nothing is left in the prefix cache.
"""

from __future__ import annotations

from collections import deque

from tidegate.engine.sequence import Sequence


class Grouping:
    """When the next group starts, and with how many."""

    def __init__(self, size: int, timeout_s: float | None = None) -> None:
        if size < 1:
            message = f"a group of {size}; it must be at least 1"
            raise ValueError(message)
        self._size = size
        self._timeout_s = timeout_s

    def opens_s(self, waiting: deque[Sequence]) -> float | None:
        """When an idle engine takes the next group; None while only an arrival can tell."""
        moments = [] if self._timeout_s is None or not waiting else [_queued(waiting[0]) + self._timeout_s]
        if len(waiting) >= self._size:
            moments.append(_queued(waiting[self._size - 1]))
        return min(moments, default=None)

    def room(self, waiting: deque[Sequence], running: int, now_s: float) -> int:
        """How many sequences the next group may have; 0 while one runs or the next does not start yet."""
        if running:
            return 0
        opens_s = self.opens_s(waiting)
        return min(self._size, len(waiting)) if opens_s is not None and opens_s <= now_s else 0


def _queued(sequence: Sequence) -> float:
    assert sequence.queued_s is not None
    return sequence.queued_s
