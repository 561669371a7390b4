"""Which replicas may take a request at all."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.seats import Seat
from tidegate.core.lifecycle import State


def open_seats(seats: Iterable[Seat], now_s: float) -> list[Seat]:
    """Replicas that serve, have a free slot and do not rest, in the order given."""
    found = []
    for seat in seats:
        route = seat.route
        if len(seat.in_flight) >= route.slots or route.state is not State.SERVING:
            continue
        if seat.rests_until_s is not None:
            if now_s < seat.rests_until_s:
                continue
            seat.rests_until_s = None
        found.append(seat)
    return found


def untried(entry: Entry, seats: list[Seat]) -> list[Seat]:
    """Without those that failed this request before, as long as any other is left."""
    if not entry.tried:
        return seats
    return [seat for seat in seats if seat.replica_id not in entry.tried] or seats
