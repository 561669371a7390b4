"""Somebody who only sees orders and ends, and keeps the books on the caps.

The onlooker shares nothing with the controller: from each launch until the process is seen to have ended a replica
counts, with its GPUs unless it has been seen to sleep and nobody has ordered it to wake. In half of the worlds the GPUs are
those of nodes, and each one of them has its own line in the books.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tidegate.core.effects import Launch
from tidegate.core.nodes import Node, Place
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.tiers import Tier
from tidegate.core.types import ReplicaId

DAY_S = 86_400.0


@dataclass
class Onlooker:
    """The books."""

    limits: FleetLimits
    nodes: tuple[Node, ...] = ()
    places: dict[ReplicaId, Place] = field(default_factory=dict)
    """Where each replica was told to go."""
    specs: dict[ReplicaId, FleetModel] = field(default_factory=dict)
    """Of each replica that exists: how it was launched."""
    asleep: set[ReplicaId] = field(default_factory=set)
    warm: set[ReplicaId] = field(default_factory=set)
    starts: deque[float] = field(default_factory=deque)
    spans: deque[tuple[float, float, float]] = field(default_factory=deque)
    """From, until and rate of what was spent in the last day."""
    at_s: float = 0.0
    rate: float = 0.0
    spent: float = 0.0
    peak: dict[str, float] = field(default_factory=dict)
    """The largest share of each cap that was ever in use."""
    broken: list[str] = field(default_factory=list)

    def pass_time(self, now_s: float) -> None:
        """Everything has cost what it does until now."""
        if now_s > self.at_s and self.rate > 0:
            self.spans.append((self.at_s, now_s, self.rate))
            self.spent += (now_s - self.at_s) / 3600 * self.rate
        self.at_s = now_s
        while self.spans and self.spans[0][1] <= now_s - DAY_S:
            began_s, ended_s, rate = self.spans.popleft()
            self.spent -= (ended_s - began_s) / 3600 * rate
        while self.starts and self.starts[0] <= now_s - 3600:
            self.starts.popleft()
        # The oldest span may lie partly within the day; what lies before it does not count.
        over = 0.0
        if self.spans and self.spans[0][0] < now_s - DAY_S:
            over = (now_s - DAY_S - self.spans[0][0]) / 3600 * self.spans[0][2]
        self._hold("money per day", self.limits.max_cost_per_day, self.spent - over)

    def look(self) -> None:
        """The caps, as of now."""
        count, gpus, rate = 0, 0, 0.0
        for replica_id, spec in self.specs.items():
            count += 1
            if replica_id in self.asleep:
                rate += spec.pool.sleeping_price_per_h
                continue
            gpus += spec.gpus
            warm_price = self.warm_price(replica_id)
            rate += spec.price_per_h if warm_price is None else warm_price
        self.rate = rate
        self._hold("replicas", self.limits.max_replicas, count)
        self._hold("GPUs", self.limits.max_gpus, gpus)
        self._hold("money per hour", self.limits.max_cost_per_h, rate)
        self._hold("starts per hour", self.limits.max_starts_per_hour, len(self.starts))
        self._look_at_gpus()

    def tier(self, replica_id: ReplicaId) -> Tier:
        """Where one that is awake, or sleeps, was seen last."""
        if replica_id in self.asleep:
            return Tier.SLEEPING
        return Tier.WARM if replica_id in self.warm else Tier.SERVING

    def warm_price(self, replica_id: ReplicaId) -> float | None:
        """What it costs an hour while it is warm; None: it is not, or costs what one that serves does."""
        return self.specs[replica_id].pool.warm_price_per_h if replica_id in self.warm else None

    def _look_at_gpus(self) -> None:
        carried: dict[tuple[str, int], list[int | None]] = {}
        for replica_id in self.specs:
            place = self.places.get(replica_id)
            if place is not None and replica_id not in self.asleep:
                for index in place.gpus:
                    carried.setdefault((place.node, index), []).append(place.memory_bytes)
        for node in self.nodes:
            for gpu in node.gpus:
                taken = carried.get((node.name, gpu.index), [])
                if gpu.memory_bytes is None or None in taken:
                    self._hold("replicas on a GPU", 1, len(taken))
                elif taken:
                    self._hold("memory of a GPU", gpu.memory_bytes, sum(each or 0 for each in taken))

    def told(self, order: Launch, spec: FleetModel) -> None:
        """Somebody is to be started, on GPUs that exist, and on as many as it needs."""
        self.specs[order.replica_id], place = spec, order.place
        if not self.nodes:
            return
        known = {(node.name, gpu.index): gpu.kind for node in self.nodes for gpu in node.gpus}
        kinds = [known.get((place.node, index)) for index in place.gpus] if place else []
        if place is None or len(set(place.gpus)) != spec.gpus or not set(kinds) <= {spec.kind or kinds[0]}:
            self.broken.append(f"at {self.at_s:.1f} s: {order.replica_id} was told {place}")
            return
        self.places[order.replica_id] = place

    def _hold(self, what: str, cap: float | None, used: float) -> None:
        if cap is None:
            return
        self.peak[what] = max(self.peak.get(what, 0.0), used / cap)
        if used > cap * (1 + 1e-9) + 1e-9:
            self.broken.append(f"at {self.at_s:.1f} s: {used:g} {what} of {cap:g}")
