"""Which bytes of a file are here, and who fetches which of the rest. Pure.

Ranges are half open. Work is handed out from the front, so that the file can be read behind it while it
arrives; when nothing is left to hand out, half of the longest rest is taken from whoever has it. A slow
connection so ends with little, where parts of fixed size would make everybody wait for it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

Range = tuple[int, int]


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

    at: int
    end: int

    @property
    def left(self) -> int:
        """Bytes still to come."""
        return self.end - self.at


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

    def take(self) -> Part | None:
        """The next piece of work; None when there is none that is worth a request of its own."""
        part = self._next() or self._half_of_the_longest()
        if part is not None:
            self._taken.append(part)
        return part

    def done(self, part: Part) -> None:
        """It is no longer worked on; what is left of it waits for somebody else."""
        self._taken.remove(part)
        if part.left > 0:
            self._waiting.append((part.at, part.end))
            self._waiting.sort(reverse=True)

    def _next(self) -> Part | None:
        if not self._waiting:
            return None
        start, end = self._waiting.pop()
        cut = start + self._part_bytes
        if cut < end:
            self._waiting.append((cut, end))
        return Part(start, min(cut, end))

    def _half_of_the_longest(self) -> Part | None:
        longest = max(self._taken, key=lambda part: part.left, default=None)
        if longest is None or longest.left < 2 * self._least_bytes:
            return None
        middle = longest.end - longest.left // 2
        stolen = Part(middle, longest.end)
        longest.end = middle
        return stolen
