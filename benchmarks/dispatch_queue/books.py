"""What a dispatcher still has in its books: nothing, once every request has ended."""

from __future__ import annotations

from tidegate.core.dispatch import Dispatcher
from tidegate.core.dispatch.routing.cost import LeastSeconds


def left_in(dispatcher: Dispatcher) -> int:
    """Open requests, queued amounts, slots taken, prompts without a token, visits of the router, second attempts
    watched: all of them added up."""
    floor = dispatcher._floor
    held = floor.waiting
    left = len(floor.ledger) + held.requests + held.tokens + held.bytes
    for line in floor.lines.values():
        queue = line.queue
        for amount in (queue.held, queue._back):
            left += amount.requests + amount.tokens + amount.bytes
        left += int(queue.work) + line.waits.turnover._held + line.in_flight
        left += len(line.tenants._in_flight)
        left += sum(seat.tokens + seat.opening + len(seat.unbegun) + len(seat.silent) for seat in line.seats)
        left += sum(seat.guest is not None for seat in line.seats)
        if isinstance(line.router._law, LeastSeconds):
            left += sum(len(load.visits) for load in line.router._law.insight.loads.values())
    return left
