"""The replica that gives the first token soonest: one sum of seconds for each, the smallest wins.

    waiting        until the prompts sent there before are computed, and until there is memory for this one
    prefill        of what its cache does not have of this prompt, at the rate learned for its kind
    slowness       what this very replica needs beyond its kind: it is new and cold, or lame
    interference   steps that the prompt shares with sequences that are being decoded there
    adapter        loading the LoRA adapter, and loading again the one that must make room
    others         the same prefill once more for each request that comes while it is waited for or computed
    eviction       prompts that will have to be computed again because this one takes their room

The last two are what the choice costs other requests. Without them every request would take its own advantage, and
at high load caches would be given up for a short wait. Equal sums go to the lowest id. A replica that has a prompt's beginning is cheaper by the prefill that it saves, until
it has more than that waiting; then another computes the beginning and has it too. So a hot prefix comes to live on as
many replicas as its load needs, by the same sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidegate.core.capacity import CapacityBook
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.prefix import Found, PrefixIndex
from tidegate.core.dispatch.routing.insight import Insight
from tidegate.core.dispatch.seats import Seat
from tidegate.core.events import UpstreamEnded
from tidegate.core.types import ModelId, ReplicaId

REFRESH_S = 1.0
"""How often what was learned is taken over."""


class Terms(NamedTuple):
    """Why a replica would be chosen, or not."""

    replica_id: ReplicaId
    total_s: float
    waiting_s: float
    prefill_s: float
    slowness_s: float
    interference_s: float
    adapter_s: float
    others_s: float
    eviction_s: float
    cached_tokens: float


class LeastSeconds:
    """The router of one model: it chooses, and learns from what becomes of its choices."""

    def __init__(
        self, model: ModelId, capacities: CapacityBook, index: PrefixIndex, adapter_slots: int
    ) -> None:
        self.insight = Insight(model, capacities, index, adapter_slots)
        self._refresh_s = 0.0

    def __repr__(self) -> str:
        return f"<LeastSeconds {self.insight!r}>"

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """The seat with the smallest sum."""
        insight = self.insight
        if now_s >= self._refresh_s:
            self._refresh_s = now_s + REFRESH_S
            insight.refresh(now_s)
        arrived, recall = entry.arrived, insight.recall
        tokens = arrived.prompt_tokens * recall.token_scale
        found: Found = recall.walk(entry) if arrived.prefix else []
        loads, adapter = insight.loads, arrived.adapter
        evicts, crowd_per_s = insight.eviction(arrived), insight.crowd.per_s
        best, best_s = candidates[0], float("inf")
        for seat in candidates:
            load = loads[seat.replica_id]
            new, cached = tokens, 0.0
            if found and (cached := recall.cached(entry, found, load)):
                new -= cached
            wait_s = load.free_at_s - now_s
            if wait_s < load.tail_s or wait_s < 0.0:
                wait_s = load.wait_s(now_s)
            prefill_s = load.k0 + new * (load.k1 + load.chunk_drag_s + load.k2 * (cached + 0.5 * new))
            limit = load.capacity.kv_tokens
            if limit is not None and load.kv_tokens + tokens > limit:
                wait_s += load.room_s(tokens)
            sum_s = wait_s + load.drag_s
            sum_s += prefill_s * (1.0 + crowd_per_s * (wait_s + 0.5 * prefill_s) + evicts * load.recent)
            if adapter is not None:
                sum_s += insight.adapters.seconds(seat.replica_id, adapter)
            if sum_s < best_s:
                best, best_s = seat, sum_s
        return best

    def explain(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Iterator[Terms]:
        """The sum of each candidate, term by term, as it is now."""
        insight, arrived, recall = self.insight, entry.arrived, self.insight.recall
        tokens = arrived.prompt_tokens * recall.token_scale
        found = recall.walk(entry) if arrived.prefix else []
        for seat in candidates:
            load = insight.loads[seat.replica_id]
            cached = recall.cached(entry, found, load)
            new = tokens - cached
            own_s = load.k0 + new * (load.k1 + load.k2 * (cached + 0.5 * new))
            prefill_s = own_s + load.chunk_drag_s * new
            wait_s = load.wait_s(now_s) + load.room_s(tokens)
            adapter_s = insight.adapters.seconds(seat.replica_id, arrived.adapter) if arrived.adapter else 0.0
            terms = (
                wait_s,
                own_s / load.pace,
                own_s - own_s / load.pace,
                load.drag_s + load.chunk_drag_s * new,
                adapter_s,
                prefill_s * insight.crowd.per_s * (wait_s + 0.5 * prefill_s),
                prefill_s * insight.eviction(arrived) * load.recent,
            )
            yield Terms(seat.replica_id, sum(terms), *terms, cached)

    # ---- what becomes of its choices ----

    def sent(self, entry: Entry, seat: Seat, now_s: float) -> None:
        """The entry was given this seat."""
        self.insight.sent(entry, seat.replica_id, now_s)

    def began(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """The first token came."""
        self.insight.began(entry, replica_id, now_s)

    def answered(self, entry: Entry, replica_id: ReplicaId, now_s: float, ended: UpstreamEnded) -> None:
        """Its answer is complete, and the engine may have said what it counted."""
        self.insight.answered(entry, replica_id, now_s, ended)

    def left(self, entry: Entry, replica_id: ReplicaId) -> None:
        """The entry gave its seat back."""
        self.insight.left(entry, replica_id)

    def seats_are(self, seats: Sequence[Seat], now_s: float) -> None:
        """These are the replicas from now on."""
        self.insight.seats_are(seats, now_s)
