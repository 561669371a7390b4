"""Which of a model's seats an entry may have, and which of these it gets: filter, then pick."""

from __future__ import annotations

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.line import Line
from tidegate.core.dispatch.routing.cost import Terms
from tidegate.core.dispatch.routing.filters import needed_seats, open_seats, untried
from tidegate.core.dispatch.seats import Seat
from tidegate.core.types import ReplicaId

LIGHT_AHEAD = 2.0
"""Times the usual limit of prompts ahead, for tenants that have little in flight."""


def choose(line: Line, entry: Entry, now_s: float) -> Seat | None:
    """The seat to send this entry to, or None when all are taken."""
    if line.tenants.is_contested:
        for seat in line.seats:
            seat.hear(now_s)
    seats = line.seats_for(entry)
    candidates = open_seats(seats, now_s)
    if line.tenants.is_contested:
        candidates = _contested(line, entry, candidates, now_s)
    if not candidates:
        if not line.is_ramping:
            return None
        candidates = needed_seats(seats, now_s, _wait_to_save_s(line, now_s))
        if not candidates:
            return None
    return line.router.pick(entry, untried(entry, candidates) if entry.tried else candidates, now_s)


def choose_other(line: Line, entry: Entry, but: ReplicaId, now_s: float) -> Seat | None:
    """A settled seat that is well, beside the one that works on this entry; None when none is free."""
    found = [
        seat
        for seat in open_seats(line.seats_for(entry), now_s)
        if seat.replica_id != but and seat.ramp is None and seat.breaker.is_closed
    ]
    return line.router.pick(entry, found, now_s) if found else None


def explain(line: Line, entry: Entry, now_s: float) -> list[Terms]:
    """What each replica with room would cost this entry, in the router's terms; empty for routers without any."""
    return line.router.explain(entry, open_seats(line.seats_for(entry), now_s), now_s)


def _contested(line: Line, entry: Entry, candidates: list[Seat], now_s: float) -> list[Seat]:
    """Whoever has much leaves the last slots alone; whoever has little may come before prompts that wait.
    Who gave way goes back to where a part of its prompt is computed, and not before it is let."""
    is_light, priority = line.is_light(entry), entry.arrived.priority
    candidates = [s for s in candidates if s.guest is None or not _keeps_off(s.guest, priority, is_light)]
    if entry.gave_way_id is not None:
        candidates = [s for s in candidates if s.replica_id == entry.gave_way_id] or candidates
    share = line.config.reserve_share
    if line.tenants.count < 2 or not share:
        return candidates
    if not is_light:
        return [seat for seat in candidates if seat.free > int(share * seat.route.slots)]
    return candidates or open_seats(line.seats_for(entry), now_s, LIGHT_AHEAD)


def _keeps_off(guest: Entry, priority: int, is_light: bool) -> bool:
    """Whether an entry of this class, of a tenant with little or much, stays away while the guest has no token."""
    return guest.arrived.priority > priority or (guest.arrived.priority == priority and not is_light)


def _wait_to_save_s(line: Line, now_s: float) -> float | None:
    """What a newcomer to the end of the line would wait for a slot; None when that is not known. A slot
    that is used spares each of those who wait a part of it."""
    held_s = line.waits.hold_s(now_s)
    if held_s is None or not line.slots:
        return None
    return (1 + line.queue.held.requests) * held_s / line.slots
