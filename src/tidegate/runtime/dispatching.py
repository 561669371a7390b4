"""The one owner of the Dispatcher, and what it asks of the gateway that carries out its orders."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from tidegate.core.dispatch import Dispatcher, DispatchEvent
from tidegate.core.dispatch.prefix import PrefixStats
from tidegate.core.dispatch.spillbook import SpillStats
from tidegate.core.effects import (
    CancelUpstream,
    Hedge,
    Record,
    Reject,
    Report,
    Resume,
    RolledBack,
    Send,
    Spill,
)
from tidegate.core.events import Failure, RequestArrived, RouteTableChanged, UpstreamFailed
from tidegate.core.knowledge import KnownCapacity
from tidegate.core.types import DemandReport, ModelId, ReplicaId, Route, RouteTable
from tidegate.runtime.clock import Clock
from tidegate.runtime.turns import Journal, Turns

log = logging.getLogger("tidegate.dispatch")


class Carrier(Protocol):
    """Who carries out orders about requests: the gateway."""

    def send(self, order: Send, route: Route) -> None:
        """Pass the request on to this replica."""

    def hedge(self, order: Hedge, route: Route) -> None:
        """Pass the request on to this replica too."""

    def resume(self, order: Resume, route: Route) -> None:
        """Let this replica take the answer up where it broke off."""

    def spill(self, order: Spill) -> None:
        """Pass the request on to its model's pay-per-token upstream."""

    def reject(self, order: Reject) -> None:
        """End the request with an error."""

    def cancel(self, order: CancelUpstream) -> None:
        """Close the connection to the replica that works on this request."""


class DispatchOwner:
    """Owns a Dispatcher: the gateway reports facts here and is given orders."""

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
        self._carrier: Carrier | None = None
        self._routes: dict[ReplicaId, Route] = {}
        self._turns = Turns(
            "dispatch",
            dispatcher,
            clock,
            journal,
            {
                Send: self._send,
                Hedge: self._hedge,
                Resume: self._resume,
                Spill: self._spill,
                RolledBack: _tell_rolled_back,
                Reject: self._reject,
                CancelUpstream: self._cancel,
                Report: lambda effect: on_report(effect.report),
                Record: on_record,
            },
            failed=self._not_sent,
        )
        self.handle: Callable[[DispatchEvent], None] = self._turns.handle
        """Report a fact; see ``Turns.handle``."""

    @property
    def open_requests(self) -> int:
        """Accepted and not ended."""
        return self._dispatcher.open_requests

    def prefix_stats(self) -> dict[ModelId, PrefixStats]:
        """How well prompts' beginnings are foreseen, by model."""
        return self._dispatcher.prefix_stats()

    def spill_stats(self) -> dict[ModelId, SpillStats]:
        """What has been spilt, by model."""
        return self._dispatcher.spill_stats(self._clock.now_s())

    def spilt_minutes(self) -> dict[ModelId, tuple[tuple[float, float], ...]]:
        """What each model has spilt in the last hour, as ``SpillsRestored`` takes it."""
        return self._dispatcher.spilt_minutes(self._clock.now_s())

    def remember(self) -> tuple[KnownCapacity, ...]:
        """What the dispatcher has learned of engines."""
        return self._dispatcher.remember()

    def foresees_refusal(self, arrived: RequestArrived) -> bool:
        """Whether this request would be turned away now. Changes nothing."""
        return self._dispatcher.foresees_refusal(arrived, self._clock.now_s())

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

    def publish(self, table: RouteTable) -> None:
        """A new table from the controller."""
        # The old routes stay known until the turn is over: orders of this very turn may name them.
        self._routes = self._routes | {route.replica_id: route for route in table.routes}
        self.handle(RouteTableChanged(table))
        self._routes = {route.replica_id: route for route in table.routes}

    def cease(self) -> None:
        """Stop the timer."""
        self._turns.cease()

    def _send(self, order: Send) -> None:
        assert self._carrier is not None
        self._carrier.send(order, self._routes[order.replica_id])

    def _hedge(self, order: Hedge) -> None:
        assert self._carrier is not None
        self._carrier.hedge(order, self._routes[order.replica_id])

    def _resume(self, order: Resume) -> None:
        assert self._carrier is not None
        self._carrier.resume(order, self._routes[order.replica_id])

    def _spill(self, order: Spill) -> None:
        assert self._carrier is not None
        log.debug("%s is spilt: %s", order.request_id, order.because)
        self._carrier.spill(order)

    def _not_sent(self, effect: object, _error: Exception) -> None:
        """A request that could not be sent has a slot and no answer to come: an attempt that failed."""
        if isinstance(effect, Send | Hedge | Resume | Spill):
            failed = UpstreamFailed(effect.request_id, Failure.ERROR, replica_id=effect.replica_id)
            self.handle(failed)

    def _reject(self, order: Reject) -> None:
        assert self._carrier is not None
        self._carrier.reject(order)

    def _cancel(self, order: CancelUpstream) -> None:
        assert self._carrier is not None
        self._carrier.cancel(order)


def _tell_rolled_back(order: RolledBack) -> None:
    log.warning("%s gets no more of the traffic to %s: %s", order.version, order.name, order.because)
