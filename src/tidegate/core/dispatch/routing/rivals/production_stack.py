"""vLLM production-stack's ``loadaware`` [production-stack#1035, 2026-08].

``matched / prompt - beta * (load - mean) / max(1, mean)`` with beta = 1 and load in requests; the highest wins. Its trie
forgets nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.routing.rivals.books import Watched
from tidegate.core.dispatch.seats import Seat
from tidegate.core.types import Dice

BETA = 1.0


class ProductionStackLoadAware(Watched):
    """Share of the prompt against share of the load."""

    def __init__(self, dice: Dice) -> None:
        super().__init__(dice, None)

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """Choose."""
        prompt = max(1, entry.arrived.prompt_tokens)
        mean = sum(len(seat.in_flight) for seat in candidates) / len(candidates)
        matched = self.books.matched(entry, candidates)
        return self.best(
            [
                (tokens / prompt - BETA * (len(seat.in_flight) - mean) / max(1.0, mean), seat)
                for seat, tokens in zip(candidates, matched, strict=True)
            ]
        )
