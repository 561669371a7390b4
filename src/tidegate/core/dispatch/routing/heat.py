"""How hot a shared beginning is, and on how many replicas it should live: as many as its share of the traffic needs.

The last block of a prompt that any replica knows is where it parts from what came before. A system prompt that a
thousand requests begin with is one such place for all of them; a conversation has a new one with each turn. So the
share of late requests that part at a block is the share of the traffic that its beginning draws, and that share of
the replicas should have it: on fewer they would carry more than the others, on more it would push out what others
need. Counted over the last few hundred requests, in two halves of which the older one goes.
"""

from __future__ import annotations

from math import ceil

HALF_REQUESTS = 256
SEEN_LEAST = 32
"""Requests before which nothing is called hot."""


class Heat:
    """Of one model's prompts."""

    __slots__ = ("_before", "_now", "_seen", "_seen_before")

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._seen = self._seen_before = 0

    def __repr__(self) -> str:
        return (
            f"<Heat places={len(self._now.keys() | self._before.keys())} of {self._seen + self._seen_before}>"
        )

    def part(self, block: int | None) -> None:
        """One more request, whose prompt parts from all others behind this block; None: nobody knew any of it."""
        if block is not None:
            self._now[block] = self._now.get(block, 0) + 1
        self._seen += 1
        if self._seen >= HALF_REQUESTS:
            self._before, self._seen_before = self._now, self._seen
            self._now, self._seen = {}, 0

    def share(self, block: int) -> float:
        """Of late requests, those that part there."""
        seen = self._seen + self._seen_before
        return (self._now.get(block, 0) + self._before.get(block, 0)) / seen if seen >= SEEN_LEAST else 0.0

    def homes(self, block: int, replicas: int) -> int:
        """How many of so many replicas should have the beginning that ends there; at least one."""
        return max(1, ceil(self.share(block) * replicas))
