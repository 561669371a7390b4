"""NVIDIA Dynamo's KV router, temperature 0.

``cost = max(active prefill + prompt - overlap, 0) + active decode + new``, in blocks; overlap on the device counts
1.0; the least cost wins, among equals by chance [docs.nvidia.com/dynamo, kv-router]. What its KV events would tell
of each cache is kept here as that cache would be: its size, least recently used out first.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.routing.rivals.books import Watched
from tidegate.core.dispatch.seats import Seat
from tidegate.core.types import Dice

OVERLAP_WEIGHT = 1.0


class DynamoKv(Watched):
    """Prefill and decode blocks in one sum."""

    def __init__(self, dice: Dice, kv_tokens: int) -> None:
        super().__init__(dice, kv_tokens)

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """The least cost."""
        prompt = entry.arrived.prompt_tokens
        scored = []
        for seat, matched in zip(candidates, self.books.matched(entry, candidates), strict=True):
            book = self.books.of(seat)
            prefill = max(0.0, book.uncached_tokens + prompt - OVERLAP_WEIGHT * matched)
            # Blocks that the request shares with others are held already.
            scored.append((-(prefill + book.decode_tokens + prompt - matched), seat))
        return self.best(scored)
