"""Which replica goes, and when its end may be ordered.

Three steps. First it is announced as leaving, if it goes only because fewer are wanted: for some seconds the gateways
have others take over what its cache holds. Then it drains: the table gives it no more slots, the gateways let its
requests end. Then it is stopped, when every gateway has said, having read that table, that nothing of its own is in flight
there; or when the deadline has passed, and the order says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.replicas import Replica
from tidegate.core.lifecycle import State

TOKEN_S = 0.5e-3
"""Of a replica's time, what a token of an answer takes beside some thirty others: a step of fifteen milliseconds for all."""
AWAY_S = 600.0
"""For how long a replica that is stopped is mostly not wanted again."""
STOP_AGAIN_S = 30.0
"""An end that was ordered and not seen is ordered again: the order may have been lost."""


def victims(live: Sequence[Replica], surplus: int, demand: DemandBook) -> list[Replica]:
    """The replicas with least to lose: those still coming up, newest first, then those that serve, the ones announced
    before any other, by the seconds that their end costs, newest first among equals.

    What an end costs: what others must do again (``ReplicaLoad.alone_s``), the time that what is in flight takes before it can
    end, and less when the replica is dear: it is away for a while, and that saves what it costs above the cheapest.
    """
    if surplus <= 0:  # nearly always, and there may be a thousand
        return []

    prices = [replica.size.price_per_h for replica in live]
    cheapest = min((price for price in prices if price > 0.0), default=1.0)

    def loss(replica: Replica) -> tuple[bool, float, float, int]:
        load = demand.load(replica.replica_id)
        serves = replica.state is State.SERVING
        leaves_s = inf if replica.leaves_at_s is None else replica.leaves_at_s
        lost_s = load.alone_s + TOKEN_S * load.tokens if serves and load else 0.0
        saved_s = AWAY_S * max(0.0, replica.size.price_per_h / cheapest - 1.0)
        return serves, leaves_s, lost_s - saved_s, -replica.number

    return sorted(live, key=loss)[:surplus]


def due(
    serving: Sequence[Replica], surplus: Sequence[Replica], handover_s: float, now_s: float
) -> list[Replica]:
    """Those of the surplus that have been announced for long enough; the others of it are announced from now on.

    Who is not, or no longer, among the surplus is called back. 0 s announces nobody, and neither does a surplus of all
    that serve: there is nobody to hand over to.
    """
    going = {replica.replica_id for replica in surplus}
    for replica in serving:
        if replica.replica_id not in going:
            replica.leaves_at_s = None
    if handover_s <= 0.0 or len(surplus) >= len(serving):
        return list(surplus)
    for replica in surplus:
        if replica.leaves_at_s is None:
            replica.leaves_at_s = now_s + handover_s
    return [
        replica for replica in surplus if replica.leaves_at_s is not None and now_s >= replica.leaves_at_s
    ]


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
