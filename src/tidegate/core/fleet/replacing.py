"""Which serving replica is to be replaced because requests fail there, from what all gateways count.

A replica that fails every request looks idle, and so gets more of them than any other: it must go. But
one at a time, so that a mistaken reason costs one replica; never while starts of its model fail, since
nothing would take its place; and never when the model's other replicas fail alike in the same moment,
because then the fault is likely not theirs: in the requests, say, or in a disk they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.core.fleet.heard import GONE_AFTER_S, SILENT_AFTER_S
from tidegate.core.fleet.replicas import Replica
from tidegate.core.types import DemandReport, ReplicaId

SAME_MOMENT_S = 10.0
"""Last failures no further apart than this may have one cause. Gateways report about once a second."""


@dataclass(frozen=True, slots=True)
class Run:
    """Failures in a row at one replica, as one gateway counts them."""

    failures: int
    grew_s: float
    """When a report last said more than the one before."""


@dataclass(slots=True)
class _Gateway:
    heard_s: float
    runs: dict[ReplicaId, Run] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from the failures at one model's replicas."""

    replica: Replica | None
    """To be replaced now; None when somebody fails and stays."""
    because: str


class FailureBook:
    """The failures in a row that each gateway reported last. Replicas without any are not in it."""

    def __init__(self) -> None:
        self._gateways: dict[str, _Gateway] = {}

    def __repr__(self) -> str:
        return f"<FailureBook {sum(len(gateway.runs) for gateway in self._gateways.values())} runs>"

    def __bool__(self) -> bool:
        """Some gateway said last that something fails somewhere."""
        return bool(self._gateways)

    def hear(self, report: DemandReport, now_s: float) -> None:
        """Take in a gateway's report; the one before is replaced whole."""
        before = self._gateways.get(report.gateway)
        failing = [load for load in report.replicas if load.failures_in_row > 0]
        if not failing:
            if before is not None:
                del self._gateways[report.gateway]
            return
        now = _Gateway(now_s)
        for load in failing:
            run = before.runs.get(load.replica_id) if before else None
            if run is None or run.failures != load.failures_in_row:
                run = Run(load.failures_in_row, now_s)
            now.runs[load.replica_id] = run
        self._gateways[report.gateway] = now

    def forget_gone(self, now_s: float) -> None:
        """Drop gateways that are gone."""
        self._gateways = {
            name: gateway
            for name, gateway in self._gateways.items()
            if now_s <= gateway.heard_s + GONE_AFTER_S
        }

    def verdict(self, serving: Sequence[Replica], limit: int, now_s: float) -> Verdict | None:
        """Who of a model's serving replicas is to go, or why nobody is; None when nobody fails so often.

        A gateway that is not heard any more accuses nobody.
        """
        runs = {replica.replica_id: self._worst(replica.replica_id, now_s) for replica in serving}
        worst = max(serving, key=lambda r: (runs[r.replica_id].failures, -r.number), default=None)
        if worst is None or runs[worst.replica_id].failures < limit:
            return None
        run = runs[worst.replica_id]
        others = [runs[replica.replica_id] for replica in serving if replica is not worst]
        if others and all(_is_alike(run, other) for other in others):
            because = f"all {len(serving)} replicas fail their requests alike: the fault is likely not theirs, and none is replaced"
            return Verdict(None, because)
        return Verdict(worst, f"{run.failures} requests in a row failed there")

    def _worst(self, replica_id: ReplicaId, now_s: float) -> Run:
        found = [
            gateway.runs[replica_id]
            for gateway in self._gateways.values()
            if replica_id in gateway.runs and now_s <= gateway.heard_s + SILENT_AFTER_S
        ]
        return max(found, key=lambda run: (run.failures, run.grew_s), default=_NONE)


_NONE = Run(0, 0.0)


def _is_alike(run: Run, other: Run) -> bool:
    return other.failures > 0 and abs(run.grew_s - other.grew_s) <= SAME_MOMENT_S
