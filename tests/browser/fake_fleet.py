"""A fleet to look at: pages and decisions that a test changes by hand, or that follow a made-up day."""

import math
import time

from tidegate.core.effects import Prediction
from tidegate.core.lifecycle import State
from tidegate.core.types import LatencySummary
from tidegate.dashboard.page import (
    DecisionPage,
    FailurePage,
    FleetPage,
    ModelPage,
    QueuePage,
    ReplicaPage,
)

SLOTS = 8


class FakeFleet:
    """Shows what it was given last; ``fleet`` and ``recent`` are what an AdminServer asks."""

    def __init__(self, *models):
        self.models = list(models)
        self.decisions = []
        self.outcomes = {}
        self.warnings = ()

    def fleet(self):
        return FleetPage(
            at_s=time.time(),
            gateway="http://127.0.0.1:8400",
            models=tuple(self.models),
            outcomes=dict(self.outcomes),
            warnings=self.warnings,
        )

    def recent(self):
        return tuple(self.decisions)


def replica(
    replica_id, state=State.SERVING, in_flight=0, *, since_s=None, detail="", leaves_at_s=None, variant=""
):
    listens = state in (State.SERVING, State.WARM, State.DRAINING)
    return ReplicaPage(
        id=replica_id,
        state=state,
        address="127.0.0.1:9001" if listens else None,
        in_flight=in_flight if listens else None,
        tokens=in_flight * 340 if listens else None,
        slots=SLOTS,
        since_s=time.time() - 7 if since_s is None else since_s,
        detail=detail,
        leaves_at_s=leaves_at_s,
        variant=variant,
    )


def model(name, *replicas, queued=0, desired=None, at_s=0.0, because="12 requests at 8 a replica", **fields):
    told = {
        "id": name,
        "desired": len(replicas) if desired is None else desired,
        "because": because,
        "held_by": None,
        "min_replicas": 0,
        "max_replicas": 4,
        "in_flight": sum(one.in_flight or 0 for one in replicas),
        "queue": QueuePage(queued, queued * 410, 0.12 * queued),
        "latency": LatencySummary(20, 0.18, 0.64, 2.1, 6.4) if replicas else LatencySummary(),
        "arrivals_total": int(14 * at_s),
        "output_tokens_total": int(1900 * at_s),
        "replicas": replicas,
    }
    return ModelPage(**{**told, **fields})


def decision(name, before, desired, *, at_s=None, because="26 requests at 8 a replica", held_by=None):
    def meant(count):
        return Prediction(
            replicas=count, slots=SLOTS * count, queued=max(0, 26 - SLOTS * count), cost_per_h=2.5 * count
        )

    return DecisionPage(
        at_s=time.time() if at_s is None else at_s,
        model=name,
        before=before,
        desired=desired,
        because=because,
        held_by=held_by,
        inputs={"queued": 6.0, "in_flight": 20.0},
        fewer=meant(desired - 1),
        chosen=meant(desired),
        more=meant(desired + 1),
    )


def failure(replica_id, detail):
    return FailurePage(time.time() - 40, replica_id, detail)


def past_pages(fleet, span_s=300):
    """A page for each of the last seconds: two tides of demand, replicas that follow, a queue in between."""
    now_s = time.time()
    for ago_s in range(span_s, 0, -1):
        tide = max(0.0, math.sin((span_s - ago_s) / 48)) ** 1.4 + 0.15 * math.sin(ago_s / 5.3) ** 2
        demand = round(30 * tide)
        serving = min(4, math.ceil(30 * max(0.0, math.sin((span_s - ago_s - 9) / 48)) / 8))
        running = [replica(f"r{number}", in_flight=min(8, demand // 4)) for number in range(serving)]
        queued = max(0, demand - 8 * serving)
        ttft = LatencySummary(9, 0.12 + 0.004 * demand, 0.3 + 0.09 * queued) if demand else LatencySummary()
        desired = min(4, math.ceil(demand / 8))
        shape = {"desired": desired, "latency": ttft, "queued": queued, "at_s": now_s - ago_s}
        moment = [model(one.id, *running, **shape) for one in fleet.models]
        yield FleetPage(at_s=now_s - ago_s, gateway="", models=tuple(moment))
