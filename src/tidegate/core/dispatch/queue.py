"""The bounded line of requests that wait for a slot on some replica of one model.

``place`` is the one place that says who goes first. Everything else here only keeps the bounds.
"""

from __future__ import annotations

import heapq

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.settings import QueueLimits
from tidegate.core.types import RequestId

Place = tuple[int, int]


def place(entry: Entry) -> Place:
    """Smaller goes first: the higher priority, then the earlier arrival."""
    return -entry.arrived.priority, entry.number


class Queue:
    """Requests in the order of ``place``, bounded in requests, tokens and bytes.

    Leaving from the middle (a client that gave up) only takes the entry out of ``_waiting``; its
    place in the heap is passed over when it comes up, and swept out before the heap is twice as
    long as the line.
    """

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self._heap: list[tuple[Place, RequestId]] = []
        self._waiting: dict[RequestId, Entry] = {}
        self.tokens = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __repr__(self) -> str:
        return f"<Queue {len(self._waiting)} requests, {self.tokens} tokens, {self._bytes} bytes>"

    def fits(self, entry: Entry) -> str | None:
        """None when the entry may join, else which bound it would break, with the numbers."""
        limits = self.limits
        if len(self._waiting) >= limits.max_requests:
            return f"{len(self._waiting)} requests are queued and max_requests is {limits.max_requests}"
        if self.tokens + entry.tokens > limits.max_tokens:
            return f"{self.tokens} tokens are queued and max_tokens is {limits.max_tokens}"
        if self._bytes + entry.arrived.body_bytes > limits.max_bytes:
            return f"{self._bytes} bytes are queued and max_bytes is {limits.max_bytes}"
        return None

    def join(self, entry: Entry) -> None:
        """Queue the entry. Whether it fits is the caller's to ask; a retry joins in any case."""
        self._waiting[entry.request_id] = entry
        self.tokens += entry.tokens
        self._bytes += entry.arrived.body_bytes
        heapq.heappush(self._heap, (place(entry), entry.request_id))

    def first(self) -> Entry | None:
        """Who is next, without taking it out."""
        while self._heap:
            entry = self._waiting.get(self._heap[0][1])
            if entry is not None:
                return entry
            heapq.heappop(self._heap)
        return None

    def leave(self, entry: Entry) -> None:
        """Take the entry out, wherever it stands."""
        if self._waiting.pop(entry.request_id, None) is None:
            return
        self.tokens -= entry.tokens
        self._bytes -= entry.arrived.body_bytes
        if len(self._heap) > 2 * len(self._waiting) + 64:
            self._heap = [(place(waiting), request_id) for request_id, waiting in self._waiting.items()]
            heapq.heapify(self._heap)

    def oldest_arrival_s(self) -> float | None:
        """When the one that has waited longest arrived; None when nobody waits."""
        return min((entry.arrived_s for entry in self._waiting.values()), default=None)

    def earliest_deadline_s(self) -> float | None:
        """When the first of those who wait runs out of time; None when nobody waits."""
        return min((entry.arrived.deadline_s for entry in self._waiting.values()), default=None)

    def in_order(self) -> list[Entry]:
        """Everyone who waits, first to last."""
        return sorted(self._waiting.values(), key=place)
