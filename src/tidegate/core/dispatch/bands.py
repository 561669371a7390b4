"""One priority class of a queue, fair between the tenants in it.

The tenant that has been served least goes next (the virtual token counter of S-LoRA's authors, 2024). A
request is charged what it is expected to need when it is sent and settled when its length is known. A
tenant that comes back from idleness starts where the one stands that was served least of those who wait, or where
the last one served stood when nobody does (``floor``): it can neither save up service nor be punished for what it
got while nobody else wanted it, nor for what others get back when their answers are shorter than expected.

Requests that were sent once and came back go before everybody: they had their turn, and it was paid for.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

from tidegate.core.dispatch.flows import Flow
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.types import FlowId, RequestId

FLOWS_KEPT = 1_024
"""Idle tenants remembered before those are forgotten that lose nothing by it."""


class Band:
    """The waiting requests of one priority."""

    __slots__ = (
        "_arrivals",
        "_back",
        "_floor",
        "_flows",
        "_numbers",
        "_order",
        "_waiting",
        "back",
        "bytes",
        "count",
        "priority",
        "tokens",
        "work",
    )

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.count = 0
        self.tokens = 0
        self.bytes = 0
        self.work = 0.0
        """Tokens that those who wait are expected to be served."""
        self.back: dict[RequestId, Entry] = {}
        """Sent once and waiting again."""
        self._back: list[tuple[int, RequestId]] = []
        self._flows: dict[FlowId, Flow] = {}
        self._waiting: dict[FlowId, Flow] = {}
        """Of these, those of which someone waits for its first turn: far fewer, where tenants are many."""
        self._order: list[tuple[float, int, Flow]] = []
        self._numbers = 0
        self._floor = 0.0
        self._arrivals: deque[Entry] = deque()
        """In order of arrival; those that have left are passed over."""

    def __repr__(self) -> str:
        return f"<Band {self.priority} waiting={self.count} flows={len(self._flows)}>"

    @property
    def tenants(self) -> int:
        """How many are remembered."""
        return len(self._flows)

    def flow(self, entry: Entry) -> Flow:
        """The entry's tenant here, made when it is new."""
        flow_id = entry.arrived.flow
        flow = self._flows.get(flow_id)
        if flow is None:
            if len(self._flows) >= FLOWS_KEPT:
                self._forget_idle()
            flow = self._flows[flow_id] = Flow(flow_id, entry.arrived.weight)
        flow.weight = entry.arrived.weight
        return flow

    def seen(self, entry: Entry) -> Flow:
        """The entry's tenant, only to look at: one that is not known here stays so."""
        flow_id = entry.arrived.flow
        return self._flows.get(flow_id) or Flow(flow_id, entry.arrived.weight)

    def join(self, entry: Entry, usual_tokens: float | None) -> None:
        """The entry waits; one that was sent before goes to the front."""
        flow = self.flow(entry)
        if entry.flow is None:
            entry.cost = flow.cost(entry, usual_tokens)
        self.count += 1
        self.tokens += entry.tokens
        self.bytes += entry.arrived.body_bytes
        self.work += entry.cost
        self._arrivals.append(entry)
        if len(self._arrivals) > 2 * self.count + 64:
            self._arrivals = deque(waiting for waiting in self._arrivals if self._holds(waiting))
        if entry.attempts:
            self.back[entry.request_id] = entry
            heapq.heappush(self._back, (entry.number, entry.request_id))
            return
        if not flow.waiting:
            next_one = self._next_flow()
            flow.served = max(flow.served, self._floor if next_one is None else next_one.served)
            self._waiting[flow.flow_id] = flow
        flow.join(entry)
        self._list(flow)

    def leave(self, entry: Entry) -> bool:
        """Take the entry out; False when it is not here."""
        if self.back.pop(entry.request_id, None) is None:
            flow = self._flows.get(entry.arrived.flow)
            if flow is None or not flow.leave(entry):
                return False
            if not flow.waiting:
                del self._waiting[flow.flow_id]
        self.count -= 1
        self.tokens -= entry.tokens
        self.bytes -= entry.arrived.body_bytes
        self.work = self.work - entry.cost if self.count else 0.0
        return True

    def first(self) -> Entry | None:
        """Who is next."""
        while self._back:
            entry = self.back.get(self._back[0][1])
            if entry is not None:
                return entry
            heapq.heappop(self._back)
        flow = self._next_flow()
        return None if flow is None else flow.first()

    def _next_flow(self) -> Flow | None:
        """Of the tenants with someone waiting for a first turn, the one that was served least."""
        order = self._order
        while order:
            served, _, flow = order[0]
            if served == flow.listed and flow.waiting:
                if served >= flow.served:
                    return flow
                heapq.heapreplace(order, self._place(flow))
                continue
            heapq.heappop(order)
            if served == flow.listed:
                flow.listed = None
        return None

    def charge(self, entry: Entry, usual_tokens: float | None) -> None:
        """The entry is sent: its tenant pays what it is expected to need, once. More may be known by now than
        when it joined; whoever was charged too much would stand before the others when it gets that back."""
        if entry.flow is not None:
            return
        flow = entry.flow = self.flow(entry)
        entry.cost = flow.cost(entry, usual_tokens)
        self._floor = max(self._floor, flow.served)
        flow.charge(entry.cost)

    def settle(self, entry: Entry, tokens: float) -> None:
        """What the entry really took: its tenant pays the rest, or gets back what was too much."""
        flow = entry.flow
        assert flow is not None
        flow.charge(tokens - entry.cost)
        entry.cost = tokens
        self._list(flow)

    def ahead(self, entry: Entry, usual_tokens: float | None) -> float:
        """Tokens that will be taken before this newcomer, when all tenants here share alike.

        Before its turn comes, each other tenant gets as much as its own does, or as much as it wants.
        """
        flow = self.seen(entry)
        own = (flow.work + flow.cost(entry, usual_tokens)) / flow.weight
        ahead = flow.work + sum(waiting.cost for waiting in self.back.values())
        for other in self._waiting.values():
            if other is not flow:
                ahead += min(other.work, own * other.weight)
        return ahead

    def shared_by(self, entry: Entry) -> float:
        """How many like this tenant share the band, itself included, by weight."""
        flow = self.seen(entry)
        others = (other.weight for other in self._waiting.values() if other is not flow)
        return 1.0 + sum(others) / flow.weight

    def flows(self) -> Iterator[Flow]:
        """Tenants of which someone waits for its first turn."""
        return iter(self._waiting.values())

    def in_turn(self) -> Iterator[Flow]:
        """The same, who was served least first. Only a look, and one that costs nothing for those who are not asked
        for: it goes down the heap from its top."""
        order = self._order
        front = [(*order[0][:2], 0)] if order else []
        while front:
            served, number, at = heapq.heappop(front)
            flow = order[at if at >= 0 else ~at][2]
            if at >= 0:
                for child in range(2 * at + 1, min(2 * at + 3, len(order))):
                    heapq.heappush(front, (*order[child][:2], child))
                if served != flow.listed or not flow.waiting:
                    continue
                if served < flow.served:  # It has been served since it was listed.
                    heapq.heappush(front, (flow.served, number, ~at))
                    continue
            yield flow

    def oldest(self) -> Entry | None:
        """Who has waited longest."""
        arrivals = self._arrivals
        while arrivals:
            if self._holds(arrivals[0]):
                return arrivals[0]
            arrivals.popleft()
        return None

    def __iter__(self) -> Iterator[Entry]:
        yield from self.back.values()
        for flow in self._waiting.values():
            yield from flow.waiting.values()

    def _holds(self, entry: Entry) -> bool:
        if entry.request_id in self.back:
            return True
        flow = self._flows.get(entry.arrived.flow)
        return flow is not None and entry.request_id in flow.waiting

    def _list(self, flow: Flow) -> None:
        """See to it that a tenant with someone waiting is listed no later than where it stands."""
        if flow.waiting and (flow.listed is None or flow.served < flow.listed):
            heapq.heappush(self._order, self._place(flow))

    def _place(self, flow: Flow) -> tuple[float, int, Flow]:
        self._numbers += 1
        flow.listed = flow.served
        return flow.served, self._numbers, flow

    def _forget_idle(self) -> None:
        """Those that stand at or below the floor would be lifted to it anyway when they come back."""
        kept = {name: flow for name, flow in self._flows.items() if flow.waiting or flow.served > self._floor}
        self._flows = kept
