"""Laws that only spread: by count, by chance, by hash."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.seats import Seat
from tidegate.core.types import Dice

VIRTUAL_NODES = 150
HASHED_TOKENS = 256
LOAD_FACTOR = 1.25
LOAD_SLACK = 10


class LeastRequest:
    """The fewest requests in flight; among equals by chance."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """Choose."""
        return least_loaded(candidates, self._dice)


class PowerOfTwo:
    """Two by chance, and of them the one with fewer requests in flight (Envoy's least request, equal weights)."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """Choose."""
        if len(candidates) == 1:
            return candidates[0]
        first = self._dice.below(len(candidates))
        second = self._dice.below(len(candidates) - 1)
        one, other = candidates[first], candidates[second + (second >= first)]
        return other if len(other.in_flight) < len(one.in_flight) else one


class ConsistentHash:
    """SMG's ``prefix_hash``: a ring of 150 virtual nodes each, by the prompt's first 256 tokens, with bounded load.

    The next on the ring whose load is at most max(1.25 x mean, mean + 10). [smg: src/policies/prefix_hash]
    """

    def __init__(self) -> None:
        self._ring: list[tuple[int, str]] = []
        self._members: tuple[str, ...] = ()

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """Choose."""
        by_id = {str(seat.replica_id): seat for seat in candidates}
        if tuple(by_id) != self._members:
            self._members = tuple(by_id)
            self._ring = sorted(
                (_place(f"{name}#{node}"), name) for name in by_id for node in range(VIRTUAL_NODES)
            )
        mean = sum(len(seat.in_flight) for seat in candidates) / len(candidates)
        most = max(LOAD_FACTOR * mean, mean + LOAD_SLACK)
        at = _place(_key(entry))
        start = next((i for i, (place, _) in enumerate(self._ring) if place >= at), 0)
        for step in range(len(self._ring)):
            seat = by_id[self._ring[(start + step) % len(self._ring)][1]]
            if len(seat.in_flight) <= most:
                return seat
        return candidates[0]


def least_loaded(seats: Sequence[Seat], dice: Dice) -> Seat:
    """The fewest requests in flight; among equals by chance."""
    least = min(len(seat.in_flight) for seat in seats)
    equal = [seat for seat in seats if len(seat.in_flight) == least]
    return equal[dice.below(len(equal))] if len(equal) > 1 else equal[0]


def _key(entry: Entry) -> str:
    arrived = entry.arrived
    if not arrived.prefix:
        return str(arrived.request_id)
    blocks = max(1, -(-HASHED_TOKENS // max(1, arrived.block_tokens)))
    return str(arrived.prefix[min(blocks, len(arrived.prefix)) - 1])


def _place(text: str) -> int:
    return crc32(text.encode())
