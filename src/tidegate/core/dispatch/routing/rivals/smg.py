"""SMG's ``cache_aware`` with the constants of its command line [smg: model_gateway/src/main.rs, src/policies].

More than 0.3 of the prompt matched: the least loaded of those with the longest match; else the least loaded of
all. If the chosen one's load is above 1.5 x mean and above mean + 64, the least loaded of all is taken instead, and
holds the prompt from then on. Its tree of 67,108,864 characters never fills here.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.routing.rivals.books import Watched
from tidegate.core.dispatch.routing.rivals.spread import least_loaded
from tidegate.core.dispatch.seats import Seat
from tidegate.core.types import Dice

CACHE_THRESHOLD = 0.3
BALANCE_ABSOLUTE = 64
BALANCE_RELATIVE = 1.5


class SmgCacheAware(Watched):
    """Stay with the holders until one is far above the mean."""

    def __init__(self, dice: Dice) -> None:
        super().__init__(dice, None)

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """Choose."""
        matched = self.books.matched(entry, candidates)
        longest = max(matched)
        chosen = least_loaded(candidates, self.dice)
        if longest > CACHE_THRESHOLD * entry.arrived.prompt_tokens:
            holders = [seat for seat, tokens in zip(candidates, matched, strict=True) if tokens == longest]
            chosen = least_loaded(holders, self.dice)
        load = len(chosen.in_flight)
        mean = sum(len(seat.in_flight) for seat in candidates) / len(candidates)
        if load > BALANCE_RELATIVE * mean and load > mean + BALANCE_ABSOLUTE:
            return least_loaded(candidates, self.dice)
        return chosen
