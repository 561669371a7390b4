"""What every backend promises.

Orders are accepted at once and carried out in the background; what happens comes back as events
through ``report``. A backend decides nothing: it does not restart, count or choose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidegate.core.effects import Launch, Stop
from tidegate.core.events import EngineReported, ReplicaAdopted, ReplicaSeen

FleetEvent = ReplicaSeen | ReplicaAdopted | EngineReported
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
        the engine's last words, follows. Launching an id that runs already does nothing."""

    def stop(self, order: Stop) -> None:
        """End a replica's whole process group. EXITED follows once it is empty. Idempotent."""

    async def close(self, *, leave_running: bool = False) -> None:
        """Stop every replica (or leave them to be adopted) and let go of the fleet."""


class FleetInUse(RuntimeError):
    """Another controller holds this fleet; two would undo each other's work."""
