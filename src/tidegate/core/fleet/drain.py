"""Which replica goes, and when its end may be ordered.

Two steps. First it drains: the table gives it no more slots, the gateways let its requests end. Then it
is stopped, when every gateway has said, having read that table, that nothing of its own is in flight
there; or when the deadline has passed, and the order says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.replicas import Replica
from tidegate.core.lifecycle import State

STOP_AGAIN_S = 30.0
"""An end that was ordered and not seen is ordered again: the order may have been lost."""


def victims(live: Sequence[Replica], surplus: int, demand: DemandBook) -> list[Replica]:
    """The replicas with least to lose: those still coming up, newest first, then those that serve, by
    tokens in flight, newest first among equals."""
    if surplus <= 0:  # nearly always, and there may be a thousand
        return []

    def loss(replica: Replica) -> tuple[bool, int, int]:
        load = demand.load(replica.replica_id)
        serves = replica.state is State.SERVING
        return serves, load.tokens if serves and load else 0, -replica.number

    return sorted(live, key=loss)[:surplus]


def kept_first(draining: Sequence[Replica]) -> list[Replica]:
    """Which of the draining ones to keep when demand returns: the longest-lived, as the best proven."""
    return sorted((r for r in draining if r.can_be_kept), key=lambda replica: replica.number)


def stop_because(replica: Replica, demand: DemandBook, now_s: float) -> str | None:
    """Why the end of a draining replica may be ordered now; None when it may not."""
    if replica.stopped_s is not None:
        if now_s < replica.stopped_s + STOP_AGAIN_S:
            return None
        return f"{replica.stop_because}; asked again, its end was not seen in {STOP_AGAIN_S:g} s"
    if replica.drain_version is not None and demand.is_empty(replica.replica_id, replica.drain_version):
        return f"{replica.stop_because}; drained, nothing is in flight"
    if replica.drain_due_s is not None and now_s >= replica.drain_due_s:
        load = demand.load(replica.replica_id)
        left = "an unknown number of requests" if load is None else f"{load.in_flight} requests"
        return f"{replica.stop_because}; the drain deadline has passed with {left} left"
    return None
