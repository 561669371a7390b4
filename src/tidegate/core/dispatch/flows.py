"""One tenant inside one priority class: who of it waits, and what it has been served.

``served`` counts tokens divided by the tenant's weight. Only differences between tenants mean anything;
``bands`` says how it is raised and who goes next.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.types import FlowId, RequestId

Place = tuple[float, int, RequestId]

LEARNS = 0.1
"""How much one answer's length moves what the next one is expected to be."""
GUESS = 1.5
"""Tokens of answer to a token of prompt, before any answer has been seen."""


def place(entry: Entry) -> Place:
    """Smaller goes first: the earlier deadline, then the earlier arrival."""
    return entry.arrived.deadline_s, entry.number, entry.request_id


class Flow:
    """A tenant's own line. Leaving from the middle only takes the entry out of ``waiting``; its place in
    the heap is passed over when it comes up, and swept out before the heap is twice as long as the line."""

    __slots__ = (
        "_heap",
        "answer_tokens",
        "bytes",
        "flow_id",
        "listed",
        "served",
        "tokens",
        "waiting",
        "weight",
        "work",
    )

    def __init__(self, flow_id: FlowId, weight: float) -> None:
        self.flow_id = flow_id
        self.weight = weight
        self.served = 0.0
        self.listed: float | None = None
        """The value of ``served`` under which the band has it listed; None: not listed."""
        self.waiting: OrderedDict[RequestId, Entry] = OrderedDict()
        self.tokens = 0
        """As they count for the queue's bounds."""
        self.bytes = 0
        self.work = 0.0
        """Tokens that those who wait are expected to be served."""
        self.answer_tokens: float | None = None
        """What its answers were long of late; None before the first."""
        self._heap: list[Place] = []

    def __repr__(self) -> str:
        return f"<Flow {self.flow_id} waiting={len(self.waiting)} served={self.served:.0f}>"

    def join(self, entry: Entry) -> None:
        """The entry waits."""
        self.waiting[entry.request_id] = entry
        self.tokens += entry.tokens
        self.bytes += entry.arrived.body_bytes
        self.work += entry.cost
        heapq.heappush(self._heap, place(entry))

    def leave(self, entry: Entry) -> bool:
        """Take the entry out, wherever it stands; False when it is not here."""
        if self.waiting.pop(entry.request_id, None) is None:
            return False
        self.tokens -= entry.tokens
        self.bytes -= entry.arrived.body_bytes
        self.work = self.work - entry.cost if self.waiting else 0.0
        if len(self._heap) > 2 * len(self.waiting) + 64:
            self._heap = [place(waiting) for waiting in self.waiting.values()]
            heapq.heapify(self._heap)
        return True

    def first(self) -> Entry | None:
        """Who is next, without taking it out."""
        while self._heap:
            entry = self.waiting.get(self._heap[0][2])
            if entry is not None:
                return entry
            heapq.heappop(self._heap)
        return None

    def last(self) -> Entry:
        """Who came last."""
        return next(reversed(self.waiting.values()))

    def cost(self, entry: Entry, usual_tokens: float | None) -> float:
        """Tokens that the entry is expected to be served, prompt and answer."""
        arrived = entry.arrived
        prompt = arrived.prompt_tokens + entry.resumed_tokens
        expected = self.answer_tokens if self.answer_tokens is not None else usual_tokens
        if expected is None:
            expected = GUESS * arrived.prompt_tokens
        limit = arrived.max_output_tokens
        return prompt + (expected if limit is None or expected < limit else limit)

    def charge(self, tokens: float) -> None:
        """Count tokens as served; below zero gives back what was charged too much."""
        self.served += tokens / self.weight

    def learn(self, answer_tokens: int) -> None:
        """An answer of this tenant was so long."""
        known = self.answer_tokens
        self.answer_tokens = answer_tokens if known is None else known + LEARNS * (answer_tokens - known)
