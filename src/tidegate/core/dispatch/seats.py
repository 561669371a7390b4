"""What the dispatcher knows of one replica: its slots, who sits there, and whether it rests."""

from __future__ import annotations

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.events import Failure
from tidegate.core.lifecycle import State
from tidegate.core.types import ReplicaId, RequestId, Route

REST_S = 1.0
"""How long a replica that refused or dropped a connection gets nothing new. Every such mark ends by
itself: a worker once marked busy and never unmarked is refused for ever."""

ERRORS_BEFORE_REST = 3
"""5xx answers in a row before a replica rests. One alone may be the request's own fault."""


class Seat:
    """One replica as the dispatcher sees it. Its load is the set of requests that sit there."""

    __slots__ = ("_errors_in_row", "in_flight", "number", "replica_id", "rests_until_s", "route", "tokens")

    def __init__(self, route: Route, number: int) -> None:
        self.number = number
        """Its place in the table."""
        self.replica_id: ReplicaId = route.replica_id
        self.route = route
        self.in_flight: dict[RequestId, Entry] = {}
        self.tokens = 0
        self.rests_until_s: float | None = None
        self._errors_in_row = 0

    def __repr__(self) -> str:
        return f"<Seat {self.replica_id} {len(self.in_flight)}/{self.route.slots} tokens={self.tokens}>"

    @property
    def serves(self) -> bool:
        """It takes requests, now or when a slot gets free."""
        return self.route.state is State.SERVING and self.route.slots > 0

    def take(self, entry: Entry) -> None:
        """Give the entry a slot. Choosing takes the slot: nothing lies between the two."""
        self.in_flight[entry.request_id] = entry
        self.tokens += entry.tokens

    def give_back(self, entry: Entry) -> None:
        """The entry's slot is free again."""
        if self.in_flight.pop(entry.request_id, None) is not None:
            self.tokens -= entry.tokens

    def answered(self) -> None:
        """It answered well: earlier errors are forgiven."""
        self._errors_in_row = 0
        self.rests_until_s = None

    def failed(self, failure: Failure, now_s: float) -> None:
        """It failed an attempt; after some kinds it rests for a moment."""
        self._errors_in_row += 1
        if failure in (Failure.ERROR, Failure.ABORTED) and self._errors_in_row < ERRORS_BEFORE_REST:
            return
        self.rests_until_s = now_s + REST_S
