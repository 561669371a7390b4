"""The replica that gives the first token soonest: one sum of seconds for each, the smallest wins.

    waiting        until the prompts sent there before are computed, and until there is memory for this one
    prefill        of what its cache does not have of this prompt, at the rate learned for its kind
    slowness       what this very replica needs beyond its kind: it is new and cold, or lame
    interference   steps that the prompt and its answer's first words share with sequences that are decoded there
    adapter        loading the LoRA adapter, and loading again the one that must make room
    others         the same prefill once more for each request that comes while it is waited for or computed
    eviction       prompts that will have to be computed again because this one takes their room

The last two are what the choice costs other requests. Without them every request would take its own advantage, and
at high load caches would be given up for a short wait. Sums within a microsecond are equal, and go to the lowest id.

A replica that has a prompt's beginning is cheaper by the prefill that it saves, until it has more than that waiting;
then another computes the beginning and has it too. While a beginning lives on fewer replicas than its share of the
traffic needs (``Heat``), a copy counts as if it were there: what it costs is paid once, and gained with each later hit.
Of replicas that are about to leave, others take over what they alone have (``Handover``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

from tidegate.core.capacity import CapacityBook
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.prefix import Found, PrefixIndex
from tidegate.core.dispatch.routing.insight import Insight
from tidegate.core.dispatch.seats import Seat
from tidegate.core.spreading import READ_STEPS
from tidegate.core.types import ModelId, ReplicaId

REFRESH_S = 1.0
"""How often what was learned is taken over."""
TIE_S = 1e-6
"""Sums that are no further apart are equal: clocks differ by nanoseconds between the simulator and the live loop, and
what is decided must not."""
_NOT_FOUND: Found = []


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


class Choice(NamedTuple):
    """A replica that a request was given, and what each with room would have cost it then."""

    at_s: float
    replica_id: ReplicaId
    terms: tuple[Terms, ...]
    """Empty where the router adds up no seconds."""


class LeastSeconds:
    """The router of one model: it chooses, and learns from what becomes of its choices."""

    def __init__(
        self, model: ModelId, capacities: CapacityBook, index: PrefixIndex, adapter_slots: int
    ) -> None:
        insight = self.insight = Insight(model, capacities, index, adapter_slots)
        self._refresh_s = 0.0
        # What becomes of its choices is told to who knows the replicas, without a step in between.
        self.sent, self.began, self.answered = insight.sent, insight.began, insight.answered
        self.left, self.seats_are = insight.left, insight.seats_are

    def __repr__(self) -> str:
        return f"<LeastSeconds {self.insight!r}>"

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """The seat with the smallest sum."""
        insight = self.insight
        if now_s >= self._refresh_s:
            self._refresh_s = now_s + REFRESH_S
            insight.refresh(now_s)
        arrived, recall, loads = entry.arrived, insight.recall, insight.loads
        adapter, crowd_per_s = arrived.adapter, insight.crowd.per_s
        tokens = arrived.prompt_tokens * recall.token_scale
        found, holders, evicts, has, wanted, most = _NOT_FOUND, 0, insight.spread, 0.0, 0, 0.0
        if arrived.prefix:
            found, evicts = recall.walk(arrived), insight.eviction
            for _, bits in found:
                holders |= bits
            if found:
                wanted, most = insight.copies_wanted(arrived, found)
        if insight.handover.leaving:
            candidates = insight.handover.among(arrived, found, candidates, loads, now_s)
        best, below_s = candidates[0], inf
        for seat in candidates:
            load = loads[seat.replica_id]
            wait_s = load.free_at_s - now_s
            if wait_s < load.tail_s or wait_s < 0.0:
                wait_s = load.wait_s(now_s) if load.waiting else 0.0
            if wait_s >= below_s:
                continue
            if load.kv_tokens + tokens > load.room_tokens:
                wait_s += load.room_s(tokens)
            cached = recall.cached(arrived, found, load) if load.bit & holders else 0.0
            free = most if load.bit & wanted and most > cached else cached
            new = tokens - free
            prefill_s = load.k0 + new * (load.token_s + load.k2 * (free + 0.5 * new))
            sum_s = wait_s + (1 + READ_STEPS) * load.drag_s
            sum_s += prefill_s * (1.0 + crowd_per_s * (wait_s + 0.5 * prefill_s) + evicts * load.recent)
            if adapter is not None:
                sum_s += insight.adapters.seconds(seat.replica_id, adapter)
            if sum_s < below_s:
                best, below_s, has = seat, sum_s - TIE_S, cached
        if arrived.prefix:
            insight.chosen = (entry, found, has)
        return best

    def explain(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Iterator[Terms]:
        """The sum of each candidate, term by term, as it is now; without those that it may not go to because some are
        about to leave (``Handover``)."""
        insight, arrived = self.insight, entry.arrived
        recall = insight.recall
        tokens = arrived.prompt_tokens * recall.token_scale
        found = recall.walk(arrived) if arrived.prefix else _NOT_FOUND
        evicts = insight.eviction if arrived.prefix else insight.spread
        wanted, most = insight.copies_wanted(arrived, found) if found else (0, 0.0)
        if insight.handover.leaving:
            candidates = insight.handover.among(arrived, found, candidates, insight.loads, now_s)
        for seat in candidates:
            load = insight.loads[seat.replica_id]
            cached = recall.cached(arrived, found, load)
            free = max(cached, most) if load.bit & wanted else cached
            new = tokens - free
            prefill_s = load.k0 + new * (load.token_s + load.k2 * (free + 0.5 * new))
            beside_s = new * (load.token_s - load.k1)
            wait_s = load.wait_s(now_s) + load.room_s(tokens)
            adapter_s = insight.adapters.seconds(seat.replica_id, arrived.adapter) if arrived.adapter else 0.0
            terms = (
                wait_s,
                (prefill_s - beside_s) / load.pace,
                (prefill_s - beside_s) * (1.0 - 1.0 / load.pace),
                (1 + READ_STEPS) * load.drag_s + beside_s,
                adapter_s,
                prefill_s * insight.crowd.per_s * (wait_s + 0.5 * prefill_s),
                prefill_s * evicts * load.recent,
            )
            yield Terms(seat.replica_id, sum(terms), *terms, cached)
