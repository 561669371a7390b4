"""llm-d's two schedulers.

*Sticky until saturated*, its default since v0.10 [llm-d-router: filter/prefixcacheaffinity, scorer/tokenload]: keep
to the replicas with at least 0.80 of the prompt, unless the best of them is expected to be 18,000 ms later than the best
of the others, where a replica's time is its uncached prompt tokens in flight at 15,928 tokens/s; then the least
of in-flight and own uncached tokens over 4,194,304.

*Blend*, its older default [llm-d-router: scorers prefix, queue, kv-cache-utilization, no-hit-lru]: weights 3, 2, 2, 2.

The index of each replica holds 31,250 blocks of 64 tokens, and looks at 131,072 tokens of a prompt at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.routing.rivals.books import Watched
from tidegate.core.dispatch.seats import Seat
from tidegate.core.types import Dice, ReplicaId

INDEX_TOKENS = 31_250 * 64
INDEXED_PROMPT_TOKENS = 131_072
AFFINITY = 0.80
PEAK_TOKENS_PER_S = 15_928.0
LATER_BY_MOST_S = 18.0
TOKENS_FULL = 4_194_304
WEIGHT_PREFIX, WEIGHT_QUEUE, WEIGHT_KV, WEIGHT_NO_HIT = 3.0, 2.0, 2.0, 2.0


class LlmDSticky(Watched):
    """Sticky until saturated."""

    def __init__(self, dice: Dice) -> None:
        super().__init__(dice, INDEX_TOKENS)

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """Filter by affinity, then the least uncached tokens."""
        prompt = entry.arrived.prompt_tokens
        matched = [min(INDEXED_PROMPT_TOKENS, tokens) for tokens in self.books.matched(entry, candidates)]
        work = [self.books.of(seat).uncached_tokens for seat in candidates]
        sticky = {n for n, tokens in enumerate(matched) if prompt and tokens >= AFFINITY * prompt}
        chosen = range(len(candidates))
        if sticky and len(sticky) < len(candidates):
            best_s = min(work[n] for n in sticky) / PEAK_TOKENS_PER_S
            other_s = min(work[n] for n in chosen if n not in sticky) / PEAK_TOKENS_PER_S
            if best_s - other_s > LATER_BY_MOST_S:
                sticky.clear()
        scored = [
            (1.0 - min(1.0, (work[n] + prompt - matched[n]) / TOKENS_FULL), candidates[n])
            for n in sorted(sticky) or chosen
        ]
        return self.best(scored)


class LlmDBlend(Watched):
    """The weighted sum of four scores."""

    def __init__(self, dice: Dice, kv_tokens: int) -> None:
        super().__init__(dice, INDEX_TOKENS)
        self._kv_tokens = kv_tokens
        self._cold_at: dict[ReplicaId, int] = {}
        """When each replica last got a request without a hit, in such requests."""
        self._cold = 0

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """Score and choose."""
        prompt = max(1, entry.arrived.prompt_tokens)
        matched = [min(INDEXED_PROMPT_TOKENS, tokens) for tokens in self.books.matched(entry, candidates)]
        books = [self.books.of(seat) for seat in candidates]
        waiting = [book.waiting for book in books]
        spread = max(waiting) - min(waiting)
        order = sorted(range(len(candidates)), key=lambda n: self._cold_at.get(candidates[n].replica_id, 0))
        rank = {n: place for place, n in enumerate(order)}
        scored = []
        for n, seat in enumerate(candidates):
            score = WEIGHT_PREFIX * matched[n] / prompt
            score += WEIGHT_QUEUE * ((max(waiting) - waiting[n]) / spread if spread else 1.0)
            score += WEIGHT_KV * max(0.0, 1.0 - books[n].decode_tokens / self._kv_tokens)
            if any(matched) or len(candidates) == 1:
                score += WEIGHT_NO_HIT * 0.5
            else:
                score += WEIGHT_NO_HIT * (1.0 - rank[n] / (len(candidates) - 1))
            scored.append((score, seat))
        best = self.best(scored)
        if not any(matched):
            self._cold += 1
            self._cold_at[best.replica_id] = self._cold
        return best
