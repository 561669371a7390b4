"""One replica out of those that may take the request. Candidates come in order of id, never empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate.core.dispatch.seats import Seat
from tidegate.core.settings import Routing


class Picker(Protocol):
    """One policy, one verb."""

    def pick(self, candidates: Sequence[Seat]) -> Seat:
        """The replica to use."""


class LeastTokens:
    """The replica with the fewest tokens in flight; the lowest id among equals."""

    def pick(self, candidates: Sequence[Seat]) -> Seat:
        best = candidates[0]
        for seat in candidates:
            if seat.tokens < best.tokens:
                best = seat
        return best


class RoundRobin:
    """Each in turn, by id; one that is full is passed over and loses its turn."""

    def __init__(self) -> None:
        self._last = -1

    def pick(self, candidates: Sequence[Seat]) -> Seat:
        chosen = next((seat for seat in candidates if seat.number > self._last), candidates[0])
        self._last = chosen.number
        return chosen


def picker_for(routing: Routing) -> Picker:
    """A fresh picker of this kind."""
    match routing:
        case Routing.LEAST_TOKENS:
            return LeastTokens()
        case Routing.ROUND_ROBIN:
            return RoundRobin()
