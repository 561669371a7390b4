"""The one owner of the FleetController: what backends and gateways report goes in, orders go out."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.backends.base import Fleet, FleetEvent
from tidegate.core.effects import (
    Decision,
    Demote,
    Launch,
    LoadAdapter,
    Pooled,
    Prefetch,
    Promote,
    PublishRoutes,
    Shadowed,
    Sleep,
    Stop,
    UnloadAdapter,
    Wake,
)
from tidegate.core.events import AdapterSeen, DemandReported, ReplicaSeen
from tidegate.core.fleet import FleetController, FleetView, HandNumber
from tidegate.core.knowledge import FleetKnowledge
from tidegate.core.lifecycle import Seen
from tidegate.core.types import DemandReport, ModelId, ReplicaId, RouteTable
from tidegate.runtime.clock import Clock
from tidegate.runtime.turns import Journal, Turns

log = logging.getLogger("tidegate.fleet")

DECISIONS_KEPT = 200
"""For the dashboard; the journal has them all."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision and when it was made."""

    at_s: float
    decision: Decision


class ControlOwner:
    """Owns a FleetController and gives its orders to the backend that runs each model."""

    def __init__(
        self,
        controller: FleetController,
        clock: Clock,
        journal: Journal,
        *,
        fleets: Mapping[ModelId, Fleet],
        publish: Callable[[RouteTable], None],
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._fleets = fleets
        self._publish = publish
        self._told_to_stop: set[ReplicaId] = set()
        self._has_ceased = False
        self.decisions: deque[Decided] = deque(maxlen=DECISIONS_KEPT)
        self._turns = Turns(
            "fleet",
            controller,
            clock,
            journal,
            {
                Launch: self._launch,
                Promote: self._routed,
                Demote: self._routed,
                Sleep: self._sleep,
                Wake: self._wake,
                Stop: self._stop,
                LoadAdapter: self._load_adapter,
                UnloadAdapter: self._unload_adapter,
                Prefetch: lambda effect: self._fleets[effect.model].prefetch(effect),
                PublishRoutes: self._publish_routes,
                Decision: self._decided,
                Pooled: self._pooled,
                Shadowed: self._shadowed,
            },
        )
        self.handle = self._turns.handle
        """Report a fact; see ``Turns.handle``."""

    def demand(self, report: DemandReport) -> None:
        """A gateway's report."""
        self.handle(DemandReported(report))

    def seen(self, event: FleetEvent) -> None:
        """What a backend saw."""
        match event:
            case ReplicaSeen(replica_id, Seen.EXITED | Seen.GAVE_UP as what, _, detail):
                wanted = self._has_ceased or replica_id in self._told_to_stop
                level = logging.INFO if wanted else logging.WARNING
                log.log(level, "replica %s %s: %s", replica_id, what.value, detail or "no reason given")
                self._told_to_stop.discard(replica_id)
            case ReplicaSeen(replica_id, Seen.UNRESPONSIVE as what, _, detail):
                log.warning("replica %s is %s: %s", replica_id, what.value, detail)
            case ReplicaSeen(replica_id, what, _, _):
                log.info("replica %s: %s", replica_id, what.value)
            case AdapterSeen(replica_id, adapter, is_there, failed) if failed:
                log.warning("replica %s: adapter %s: %s", replica_id, adapter, failed)
            case AdapterSeen(replica_id, adapter, is_there, _):
                log.info("replica %s: adapter %s is %s", replica_id, adapter, "there" if is_there else "gone")
            case _:
                pass
        if not self._has_ceased:
            self.handle(event)

    def view(self) -> FleetView:
        """The fleet as the controller knows it."""
        return self._controller.state(self._clock.now_s())

    @property
    def hands(self) -> Mapping[ModelId, HandNumber]:
        """The numbers that are set by hand at present."""
        return self._controller.hands

    @property
    def lessons(self) -> int:
        """Starts measured so far."""
        return self._controller.lessons

    def remember(self) -> FleetKnowledge:
        """What the controller has learned."""
        return self._controller.remember(self._clock.now_s())

    def cease(self) -> None:
        """Nothing is decided any more: replicas end because all does, and none is started for them."""
        self._has_ceased = True
        self._turns.cease()

    def _launch(self, order: Launch) -> None:
        log.debug("launch %s: %s", order.replica_id, order.because)
        self._fleets[order.model].launch(order)

    def _routed(self, order: Promote | Demote) -> None:
        """The next table says it all."""
        log.info("%s %s: %s", type(order).__name__.lower(), order.replica_id, order.because)

    def _publish_routes(self, order: PublishRoutes) -> None:
        self._publish(order.table)
        for fleet in dict.fromkeys(self._fleets.values()):
            fleet.note_routes(order.table)

    def _sleep(self, order: Sleep) -> None:
        log.debug("sleep %s at level %d: %s", order.replica_id, order.level, order.because)
        for fleet in dict.fromkeys(self._fleets.values()):
            fleet.sleep(order)

    def _wake(self, order: Wake) -> None:
        log.debug("wake %s: %s", order.replica_id, order.because)
        for fleet in dict.fromkeys(self._fleets.values()):
            fleet.wake(order)

    def _load_adapter(self, order: LoadAdapter) -> None:
        for fleet in dict.fromkeys(self._fleets.values()):
            fleet.load_adapter(order)

    def _unload_adapter(self, order: UnloadAdapter) -> None:
        for fleet in dict.fromkeys(self._fleets.values()):
            fleet.unload_adapter(order)

    def _stop(self, order: Stop) -> None:
        log.debug("stop %s: %s", order.replica_id, order.because)
        self._told_to_stop.add(order.replica_id)
        for fleet in dict.fromkeys(self._fleets.values()):
            fleet.stop(order)

    def _pooled(self, said: Pooled) -> None:
        held = f"{said.warm} warm and {said.sleeping} asleep"
        log.info("%s: the pool is to hold %s: %s", said.model, held, said.because)

    def _shadowed(self, said: Shadowed) -> None:
        log.debug("%s: %s would have %d replicas: %s", said.model, said.policy, said.desired, said.because)

    def _decided(self, decision: Decision) -> None:
        self.decisions.append(Decided(self._clock.now_s(), decision))
        held = f"; held by {decision.held_by}" if decision.held_by else ""
        change = f"{decision.before} -> {decision.desired} replicas"
        log.info("%s: %s: %s%s", decision.model, change, decision.because, held)
