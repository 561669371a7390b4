"""Preble's E2 [arXiv 2407.00023]: exploit or explore.

More tokens matched than missed: the holder of the longest match with the least load. Else the least sum of load
(work given within the last 3 minutes), eviction cost and prefill cost, all in seconds of one GPU; the eviction
cost is the prompt's missed tokens where the cache is full, times the share of tokens that hit. Rebalancing of
prompts between holders after the fact is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.routing.rivals.books import Watched
from tidegate.core.dispatch.seats import Seat
from tidegate.core.types import Dice, ReplicaId

WINDOW_S = 180.0
PREFILL_S_PER_TOKEN = 1.0 / 15_928.0
"""Preble fits this for each model beforehand; the same rate is used as for llm-d."""


class Preble(Watched):
    """Where most of the prompt is, or where the sum of costs is least."""

    def __init__(self, dice: Dice, kv_tokens: int) -> None:
        super().__init__(dice, kv_tokens)
        self._given: dict[ReplicaId, deque[tuple[float, float]]] = {}
        self._sums: dict[ReplicaId, float] = {}
        self._matched = self._seen = 1.0

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """Choose."""
        prompt = entry.arrived.prompt_tokens
        matched = self.books.matched(entry, candidates)
        longest = max(matched)
        self._seen += prompt
        self._matched += longest
        if longest > prompt - longest:
            scored = [
                (-self._load_s(seat, now_s), seat)
                for seat, tokens in zip(candidates, matched, strict=True)
                if tokens == longest
            ]
        else:
            hit = self._matched / self._seen
            scored = []
            for seat, tokens in zip(candidates, matched, strict=True):
                missed_s = (prompt - tokens) * PREFILL_S_PER_TOKEN
                evicted_s = missed_s * hit if self.books.of(seat).prefixes.is_full else 0.0
                scored.append((-(self._load_s(seat, now_s) + evicted_s + missed_s), seat))
        return self.best(scored)

    def sent(self, entry: Entry, seat: Seat, now_s: float) -> None:
        """Its work counts for three minutes."""
        missed = entry.arrived.prompt_tokens - self.books.matched(entry, [seat])[0]
        work_s = missed * PREFILL_S_PER_TOKEN
        self._given.setdefault(seat.replica_id, deque()).append((now_s, work_s))
        self._sums[seat.replica_id] = self._sums.get(seat.replica_id, 0.0) + work_s
        super().sent(entry, seat, now_s)

    def _load_s(self, seat: Seat, now_s: float) -> float:
        given = self._given.get(seat.replica_id)
        while given and given[0][0] < now_s - WINDOW_S:
            self._sums[seat.replica_id] -= given.popleft()[1]
        return self._sums.get(seat.replica_id, 0.0)
