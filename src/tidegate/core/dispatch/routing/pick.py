"""One replica out of those that may take the request. Candidates come in order of id, never empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.seats import Seat
from tidegate.core.events import UpstreamEnded
from tidegate.core.types import ReplicaId


class Picker(Protocol):
    """One policy, one verb."""

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """The replica to use."""


@runtime_checkable
class Watcher(Protocol):
    """A picker that learns what becomes of its choices. Every call names the attempt by entry and replica."""

    def sent(self, entry: Entry, seat: Seat, now_s: float) -> None:
        """The entry was given this seat."""

    def began(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """Its answer has begun."""

    def answered(self, entry: Entry, replica_id: ReplicaId, now_s: float, ended: UpstreamEnded) -> None:
        """Its answer is complete; ``left`` follows."""

    def left(self, entry: Entry, replica_id: ReplicaId) -> None:
        """It has given its seat back, whatever became of it. May be told twice."""

    def seats_are(self, seats: Sequence[Seat], now_s: float) -> None:
        """These are the replicas from now on."""


class LeastTokens:
    """The replica with the fewest tokens in flight; the lowest id among equals."""

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        best = candidates[0]
        for seat in candidates:
            if seat.tokens < best.tokens:
                best = seat
        return best


class RoundRobin:
    """Each in turn, by id; one that is full is passed over and loses its turn."""

    def __init__(self) -> None:
        self._last = -1

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        chosen = next((seat for seat in candidates if seat.number > self._last), candidates[0])
        self._last = chosen.number
        return chosen
