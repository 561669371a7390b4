"""Which bytes of a file are here, and who fetches which of the rest. Pure.

Ranges are half open. Work is handed out from the front, so that the file can be read behind it while it
arrives; when nothing is left to hand out, half of the rest that would take longest is taken from whoever has it.
A slow connection so ends with little, where parts of fixed size would make everybody wait for it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

Range = tuple[int, int]

SHARED_ABOVE_S = 1.0
"""A rest that is over sooner is left to whoever has it."""


class Ranges:
    """A set of bytes."""

    def __init__(self, ranges: list[Range] | None = None) -> None:
        self._ranges: list[Range] = []
        for start, end in ranges or []:
            self.add(start, end)

    def __repr__(self) -> str:
        return f"<Ranges {self.bytes} bytes in {len(self._ranges)}>"

    def __iter__(self) -> Iterator[Range]:
        return iter(self._ranges)

    @property
    def bytes(self) -> int:
        """How many are in it."""
        return sum(end - start for start, end in self._ranges)

    @property
    def frontier(self) -> int:
        """All bytes before this one are in it."""
        return self._ranges[0][1] if self._ranges and self._ranges[0][0] == 0 else 0

    def add(self, start: int, end: int) -> None:
        """Put these into it too; ranges that touch become one."""
        if end <= start:
            return
        first = bisect_left(self._ranges, start, key=lambda each: each[1])
        last = bisect_right(self._ranges, end, key=lambda each: each[0])
        if first < last:
            start = min(start, self._ranges[first][0])
            end = max(end, self._ranges[last - 1][1])
        self._ranges[first:last] = [(start, end)]

    def missing(self, size: int) -> list[Range]:
        """What is not in it, of the first ``size`` bytes."""
        gaps, at = [], 0
        for start, end in self._ranges:
            if start > at:
                gaps.append((at, min(start, size)))
            at = end
            if at >= size:
                return [gap for gap in gaps if gap[0] < gap[1]]
        return [*gaps, (at, size)] if at < size else gaps


@dataclass(slots=True, eq=False)
class Part:
    """Somebody's work: the bytes from ``at`` up to ``end``, which may come nearer while it is done."""

    start: int
    end: int
    began_s: float
    at: int = field(init=False)

    def __post_init__(self) -> None:
        self.at = self.start

    @property
    def left(self) -> int:
        """Bytes still to come."""
        return self.end - self.at

    def left_s(self, now_s: float) -> float:
        """How long they take if they come as those before did; without any, for ever after the first second."""
        spent_s, done = now_s - self.began_s, self.at - self.start
        if done == 0:
            return inf if spent_s > SHARED_ABOVE_S else 0.0
        return self.left * spent_s / done


class Parts:
    """The work that is left, and who does it."""

    def __init__(self, missing: list[Range], part_bytes: int, least_bytes: int) -> None:
        """``part_bytes`` are handed out at once; a rest below twice ``least_bytes`` is not shared."""
        self._waiting = sorted(missing, reverse=True)
        self._part_bytes = part_bytes
        self._least_bytes = least_bytes
        self._taken: list[Part] = []

    def __repr__(self) -> str:
        return f"<Parts {len(self._waiting)} waiting, {len(self._taken)} taken>"

    @property
    def is_done(self) -> bool:
        """Nothing is left, and nobody is at work."""
        return not self._waiting and not self._taken

    def take(self, now_s: float) -> Part | None:
        """The next piece of work; None when there is none for now that is worth a request of its own."""
        part = self._next(now_s) or self._half_of_the_slowest(now_s)
        if part is not None:
            self._taken.append(part)
        return part

    def done(self, part: Part) -> None:
        """It is no longer worked on; what is left of it waits for somebody else."""
        self._taken.remove(part)
        if part.left > 0:
            self._waiting.append((part.at, part.end))
            self._waiting.sort(reverse=True)

    def _next(self, now_s: float) -> Part | None:
        if not self._waiting:
            return None
        start, end = self._waiting.pop()
        cut = start + self._part_bytes
        if cut < end:
            self._waiting.append((cut, end))
        return Part(start, min(cut, end), now_s)

    def _half_of_the_slowest(self, now_s: float) -> Part | None:
        shared = [part for part in self._taken if part.left >= 2 * self._least_bytes]
        slowest = max(shared, key=lambda part: (part.left_s(now_s), part.left), default=None)
        # What the source has already sent of the half that is taken away is lost, a few megabytes at most.
        if slowest is None or slowest.left_s(now_s) <= SHARED_ABOVE_S:
            return None
        middle = slowest.end - slowest.left // 2
        stolen = Part(middle, slowest.end, now_s)
        slowest.end = middle
        return stolen
