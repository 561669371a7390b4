"""How many replicas were in which phase, when: steps for the chart, seconds for the bill."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import Enum

from tidegate.core.types import ReplicaId


class Phase(Enum):
    """Where a replica is, as the bill sees it."""

    WAITING = "waiting"
    """Launched, and no machine has its GPUs free."""
    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    WARM = "warm"
    SLEEPING = "sleeping"


ORDER = tuple(Phase)
PROVISIONED = (Phase.STARTING, Phase.SERVING, Phase.DRAINING, Phase.WARM)
"""Those that hold their GPUs."""
BILLED = (*PROVISIONED, Phase.SLEEPING)
"""At the price of their share in that phase."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one replica of a model takes and costs in a phase."""

    gpus: int
    price_per_h: float


class Provision:
    """Counts of all replicas by phase over time. A count changes only through ``move``."""

    def __init__(self) -> None:
        self.at_s = array("d")
        self.counts: dict[Phase, array[int]] = {phase: array("i") for phase in ORDER}
        """How many from each moment of ``at_s`` on."""
        self.seconds = dict.fromkeys(ORDER, 0.0)
        self.gpu_seconds = 0.0
        self.money = 0.0
        self.most = 0
        """The largest number of replicas that there were at once, whatever their phase."""
        self._now = dict.fromkeys(ORDER, 0)
        self._since: dict[ReplicaId, tuple[Phase, float, Share]] = {}

    def __repr__(self) -> str:
        return f"<Provision {' '.join(f'{phase.value}={count}' for phase, count in self._now.items())}>"

    def __len__(self) -> int:
        return len(self._since)

    def phase(self, replica_id: ReplicaId) -> Phase | None:
        """Where a replica is; None when it is not there."""
        found = self._since.get(replica_id)
        return found[0] if found else None

    def count(self, phase: Phase) -> int:
        """How many are in this phase now."""
        return self._now[phase]

    def move(self, replica_id: ReplicaId, phase: Phase | None, now_s: float, share: Share) -> None:
        """The replica is in this phase from now on; None when it is gone."""
        before = self._since.pop(replica_id, None)
        if before is not None:
            self._charge(*before, now_s)
            self._now[before[0]] -= 1
        if phase is not None:
            self._since[replica_id] = (phase, now_s, share)
            self._now[phase] += 1
        self.most = max(self.most, len(self._since))
        self._note(now_s)

    def close(self, now_s: float) -> None:
        """Charge those that are still there up to now; the run is over."""
        for phase, since_s, share in self._since.values():
            self._charge(phase, since_s, share, now_s)
        self._since.clear()

    def _charge(self, phase: Phase, since_s: float, share: Share, now_s: float) -> None:
        took_s = now_s - since_s
        self.seconds[phase] += took_s
        if phase in BILLED:
            self.gpu_seconds += took_s * share.gpus
            self.money += took_s / 3600.0 * share.price_per_h

    def _note(self, now_s: float) -> None:
        if self.at_s and self.at_s[-1] == now_s:
            for phase, column in self.counts.items():
                column[-1] = self._now[phase]
            return
        self.at_s.append(now_s)
        for phase, column in self.counts.items():
            column.append(self._now[phase])
