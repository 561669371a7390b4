"""AIBrix's ``prefix-cache`` [aibrix: pkg/plugins/gateway/algorithms].

If the most loaded has over 8 requests more than the least loaded: the least loaded. Else the longest match among
those with at most mean + 1 standard deviation of requests; without any match, the fewest requests. Its index holds
200,000 blocks of 4 characters for all replicas together: 200,000 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.routing.rivals.books import Watched
from tidegate.core.dispatch.routing.rivals.spread import least_loaded
from tidegate.core.dispatch.seats import Seat
from tidegate.core.types import Dice

IMBALANCE = 8
INDEX_TOKENS = 200_000
DEVIATIONS = 1.0


class AibrixPrefix(Watched):
    """Longest match among the not too loaded."""

    def __init__(self, dice: Dice) -> None:
        # One block names all its holders, so each replica may have as many as the whole index.
        super().__init__(dice, INDEX_TOKENS)

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """Choose."""
        loads = [len(seat.in_flight) for seat in candidates]
        if max(loads) - min(loads) > IMBALANCE:
            return least_loaded(candidates, self.dice)
        mean = sum(loads) / len(loads)
        most = mean + DEVIATIONS * sqrt(sum((load - mean) ** 2 for load in loads) / len(loads))
        fit = [seat for seat, load in zip(candidates, loads, strict=True) if load <= most]
        matched = self.books.matched(entry, fit)
        longest = max(matched)
        if not longest:
            return least_loaded(candidates, self.dice)
        holders = [seat for seat, tokens in zip(fit, matched, strict=True) if tokens == longest]
        return least_loaded(holders, self.dice)
