"""What every backend promises.

Orders are accepted at once and carried out in the background; what happens comes back as events
through ``report``. A backend decides nothing: it does not restart, count or choose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidegate.adapters.base import EngineSpec
from tidegate.core.effects import Launch, LoadAdapter, Prefetch, Sleep, Stop, UnloadAdapter, Wake
from tidegate.core.events import AdapterSeen, EngineReported, ReplicaAdopted, ReplicaSeen, WeightsSeen
from tidegate.core.types import ReplicaId, RouteTable

FleetEvent = ReplicaSeen | ReplicaAdopted | AdapterSeen | EngineReported | WeightsSeen
Report = Callable[[FleetEvent], None]


class Fleet(Protocol):
    """A way to start and stop replicas of some models."""

    async def open(self, report: Report) -> None:
        """Begin. Replicas that a former run left are adopted (``ReplicaAdopted``) or ended first.

        Raises:
            FleetInUse: another controller holds this fleet.
        """

    def launch(self, order: Launch) -> None:
        """Start a replica. ``ReplicaSeen`` with STARTING, then READY and its address, or EXITED with
        the reason, follows. Launching an id that runs already does nothing.

        One that is ready and gives no answer any more is reported as UNRESPONSIVE, again and again while
        that lasts; it goes on until it is stopped."""

    def note_routes(self, table: RouteTable) -> None:
        """The gateways are told this. Whoever takes over is told (``ReplicaAdopted.tier``) what waits warm in the last one."""

    def sleep(self, order: Sleep) -> None:
        """Have a ready replica's engine give its GPUs back and keep its process. SLEPT follows once the engine itself
        says that it sleeps, or UNRESPONSIVE with the reason."""

    def wake(self, order: Wake) -> None:
        """Have a sleeping engine come back. WOKEN follows after its first token, or UNRESPONSIVE with the reason, or
        SLEPT when it sleeps on because somebody else has its GPUs."""

    def load_adapter(self, order: LoadAdapter) -> None:
        """Have a ready replica's engine load a LoRA adapter, from the source that its model has for it now.
        ``AdapterSeen`` follows, with the reason where it failed. An unknown replica is left alone."""

    def unload_adapter(self, order: UnloadAdapter) -> None:
        """Have it unloaded; ``AdapterSeen`` follows. Requests that use it go on."""

    def stop(self, order: Stop) -> None:
        """End a replica's whole process group. EXITED follows once it is empty. Idempotent."""

    def prefetch(self, order: Prefetch) -> None:
        """Have a model's weights on the node before a replica needs them, out of the way of everything else.
        ``WeightsSeen`` follows. A backend that keeps no weights does nothing."""

    def spec_of(self, replica_id: ReplicaId) -> EngineSpec | None:
        """What this replica's engine was started with, whatever is configured by now; None when there is
        no such replica."""

    def last_words(self, replica_id: ReplicaId) -> str:
        """What its engine wrote last, also after its end; empty when nothing is known.

        Engines print tokens, keys and prompts. This is for the admin page, and for nobody else: not for
        clients, not for the journal, not for our own log. No ``ReplicaSeen.detail`` has a word of it."""

    async def close(self, *, leave_running: bool = False) -> None:
        """Stop every replica (or leave them to be adopted) and let go of the fleet."""


class FleetInUse(RuntimeError):
    """Another controller holds this fleet; two would undo each other's work."""
