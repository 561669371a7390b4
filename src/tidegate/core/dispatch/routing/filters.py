"""Which replicas may take a request at all."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.seats import Seat
from tidegate.core.lifecycle import State


def open_seats(seats: Iterable[Seat], now_s: float, ahead: float = 1.0) -> list[Seat]:
    """Replicas that serve and have room, in the order given. One that nothing holds back is asked no more
    than whether it has a free slot; for one that rests, ramps up or was busy see ``Seat.room``. ``ahead``: how
    many times the usual limit of prompts may be there already."""
    found = []
    for seat in seats:
        route = seat.route
        if len(seat.in_flight) >= route.slots or route.state is not State.SERVING:
            continue
        if seat.opening >= ahead * seat.opening_limit:
            continue
        if seat.is_held and seat.room(now_s) <= 0:
            continue
        found.append(seat)
    return found


def needed_seats(seats: Iterable[Seat], now_s: float, wait_s: float | None) -> list[Seat]:
    """New replicas that have room beyond their ramp, for when nobody else has any. One that lags is worth
    it only when the wait that it saves, if that is known, is longer than what it loses."""
    return [
        seat
        for seat in seats
        if (ramp := seat.ramp) is not None
        and not (ramp.lags and wait_s is not None and wait_s < ramp.lag_s)
        and seat.opening < seat.opening_limit
        and seat.room(now_s, is_needed=True) > 0
    ]


def untried(entry: Entry, seats: list[Seat]) -> list[Seat]:
    """Without those that failed this request before, as long as any other is left."""
    if not entry.tried:
        return seats
    return [seat for seat in seats if seat.replica_id not in entry.tried] or seats
