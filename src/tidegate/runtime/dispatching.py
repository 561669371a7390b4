"""The one owner of the Dispatcher: events in, effects carried out, every turn in the journal.

All of it happens on the event loop's thread. An order that fails at once (a connection that cannot
be made) reports its failure as an event while the orders before it are still being carried out; such
events wait until the turn is over, so the brain is never entered twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tidegate.core.dispatch import Dispatcher, DispatchEvent
from tidegate.core.effects import CancelUpstream, Record, Reject, Report, Send, WakeAt
from tidegate.core.events import RouteTableChanged, Tick
from tidegate.core.types import DemandReport, ReplicaId, Route
from tidegate.runtime.clock import Clock


class Carrier(Protocol):
    """Who carries out orders about requests: the gateway."""

    def send(self, order: Send, route: Route) -> None:
        """Pass the request on to this replica."""

    def reject(self, order: Reject) -> None:
        """End the request with an error."""

    def cancel(self, order: CancelUpstream) -> None:
        """Close the connection to the replica that works on this request."""


class Journal(Protocol):
    """Where turns are written."""

    def turn(self, brain: str, now_s: float, event: object, effects: Sequence[object]) -> None:
        """Keep one turn. Never blocks and never raises."""


class DispatchOwner:
    """Owns a Dispatcher and its timer."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        clock: Clock,
        journal: Journal,
        *,
        on_report: Callable[[DemandReport], None],
        on_record: Callable[[Record], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._journal = journal
        self._on_report = on_report
        self._on_record = on_record
        self._carrier: Carrier | None = None
        self._routes: dict[ReplicaId, Route] = {}
        self._later: deque[DispatchEvent] = deque()
        self._in_turn = False
        self._timer: asyncio.TimerHandle | None = None
        self._carry: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Reject: self._reject,
            CancelUpstream: self._cancel,
            Report: self._report,
            Record: on_record,
            WakeAt: self._wake_at,
        }

    @property
    def open_requests(self) -> int:
        """Accepted and not ended."""
        return self._dispatcher.open_requests

    @property
    def routes(self) -> dict[ReplicaId, Route]:
        """The table in force, by replica."""
        return self._routes

    def now_s(self) -> float:
        """The clock that the brain is given."""
        return self._clock.now_s()

    def attach(self, carrier: Carrier) -> None:
        """Say who carries out the orders; once, before the first event."""
        self._carrier = carrier

    def handle(self, event: DispatchEvent) -> None:
        """Report a fact. Its effects have been carried out when this returns, unless a turn is under
        way already; then they will have been when that one returns."""
        if self._in_turn:
            self._later.append(event)
            return
        self._in_turn = True
        try:
            self._turn(event)
            while self._later:
                self._turn(self._later.popleft())
        finally:
            self._in_turn = False

    def _turn(self, event: DispatchEvent) -> None:
        if type(event) is RouteTableChanged:
            self._routes = {route.replica_id: route for route in event.table.routes}
        now_s = self._clock.now_s()
        effects = self._dispatcher.on(event, now_s)
        self._journal.turn("dispatch", now_s, event, effects)
        for effect in effects:
            self._carry[type(effect)](effect)

    def _send(self, order: Send) -> None:
        assert self._carrier is not None
        self._carrier.send(order, self._routes[order.replica_id])

    def _reject(self, order: Reject) -> None:
        assert self._carrier is not None
        self._carrier.reject(order)

    def _cancel(self, order: CancelUpstream) -> None:
        assert self._carrier is not None
        self._carrier.cancel(order)

    def _report(self, effect: Report) -> None:
        self._on_report(effect.report)

    def _wake_at(self, effect: WakeAt) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0.0, effect.at_s - self._clock.now_s())
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.handle(Tick())
