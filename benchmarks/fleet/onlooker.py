"""A fleet driven by chance, and somebody who only sees orders and ends, and keeps the books on the caps.

The onlooker shares nothing with the controller: from each launch until the process is seen to have ended a replica
counts, with its GPUs unless it has been seen to sleep and nobody has ordered it to wake. In half of the worlds the GPUs are
those of nodes, and each one of them has its own line in the books.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field

from tidegate.core.effects import Launch, Promote, PublishRoutes, Sleep, Stop, Wake
from tidegate.core.events import (
    DemandReported,
    EngineReported,
    FleetConfigured,
    ReplicaSeen,
    SignalsReported,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen, State
from tidegate.core.nodes import Gpu, Node, Place
from tidegate.core.settings import FleetLimits, FleetModel, Pool, Restarts, Scaling, ScalingPolicy
from tidegate.core.types import (
    Address,
    DemandReport,
    LatencySummary,
    ModelDemand,
    ModelId,
    ReplicaId,
    ReplicaLoad,
)

DAY_S = 86_400.0
ADDRESS = Address("h", 1)


def models(dice: random.Random) -> dict[ModelId, FleetModel]:
    """Three models of random sizes, prices and pools."""
    found = {}
    for name in ("a", "b", "c"):
        most = dice.randint(0, 2)
        found[ModelId(name)] = FleetModel(
            "vllm",
            scaling=Scaling(
                ScalingPolicy.CONCURRENCY,
                min_replicas=dice.randint(0, 1),
                max_replicas=dice.randint(1, 6),
                window_s=dice.choice([1.0, 10.0]),
                scale_down_delay_s=dice.choice([0.0, 5.0, 60.0]),
                concurrency_target=4,
            ),
            restarts=Restarts(backoff_max_s=4, retry_failed_s=30),
            gpus=dice.choice([1, 1, 2, 4]),
            kind=dice.choice(["", "", "h100"]),
            memory_bytes=dice.choice([None, None, 20, 40]),
            price_per_h=dice.choice([1.0, 2.5, 4.0]),
            start_deadline_s=120,
            drain_deadline_s=dice.choice([10.0, 60.0]),
            pool=Pool(
                min_warm=dice.randint(0, most),
                max_warm=most,
                max_sleeping=dice.randint(0, 2),
                warm_ttl_s=dice.choice([30.0, 600.0]),
                sleep_after_s=dice.choice([0.0, 30.0]),
                warm_price_per_h=dice.choice([None, 0.5]),
                sleeping_price_per_h=dice.choice([0.0, 0.1]),
                group=dice.choice(["", "g"]),
            ),
        )
    return found


def limits(dice: random.Random) -> FleetLimits:
    """Each cap in most worlds, none in some."""
    return FleetLimits(
        max_replicas=dice.choice([None, 4, 8]),
        max_gpus=dice.choice([None, 4, 8]),
        max_starts_per_hour=dice.choice([10, 60, 1000]),
        max_cost_per_h=dice.choice([None, 8.0, 15.0]),
        max_cost_per_day=dice.choice([None, 20.0, 60.0]),
    )


def nodes(dice: random.Random) -> tuple[Node, ...]:
    """A few, of two kinds, or none: then GPUs are only counted."""
    if dice.random() < 0.5:
        return ()
    found = []
    for name in ("n1", "n2", "n3")[: dice.randint(1, 3)]:
        kind, memory = dice.choice(["h100", "l40s"]), dice.choice([None, 80])
        found.append(Node(name, tuple(Gpu(index, memory, kind) for index in range(dice.choice([1, 4, 8])))))
    return tuple(found)


@dataclass
class Onlooker:
    """The books."""

    limits: FleetLimits
    specs: dict[ModelId, FleetModel]
    nodes: tuple[Node, ...] = ()
    places: dict[ReplicaId, Place] = field(default_factory=dict)
    """Where each replica was told to go."""
    owners: dict[ReplicaId, ModelId] = field(default_factory=dict)
    """Of each replica that exists: the model it was launched for."""
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
        for replica_id, model in self.owners.items():
            spec = self.specs[model]
            count += 1
            if replica_id in self.asleep:
                rate += spec.pool.sleeping_price_per_h
                continue
            gpus += spec.gpus
            is_cheap = replica_id in self.warm and spec.pool.warm_price_per_h is not None
            rate += spec.pool.warm_price_per_h if is_cheap else spec.price_per_h  # type: ignore[operator]
        self.rate = rate
        self._hold("replicas", self.limits.max_replicas, count)
        self._hold("GPUs", self.limits.max_gpus, gpus)
        self._hold("money per hour", self.limits.max_cost_per_h, rate)
        self._hold("starts per hour", self.limits.max_starts_per_hour, len(self.starts))
        self._look_at_gpus()

    def _look_at_gpus(self) -> None:
        carried: dict[tuple[str, int], list[int | None]] = {}
        for replica_id in self.owners:
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

    def told(self, order: Launch) -> None:
        """Somebody is to be started, on GPUs that exist, and on as many as it needs."""
        self.owners[order.replica_id] = order.model
        spec, place = self.specs[order.model], order.place
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


class World:
    """One controller, its backend made of dice, and the onlooker."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.specs = models(self.dice)
        limit = limits(self.dice)
        self.books = Onlooker(limit, self.specs, nodes(self.dice))
        self.brain = FleetController()
        self.now_s = 0.0
        self.table = None
        self.doing: dict[ReplicaId, tuple[float, Seen]] = {}
        """What the backend will say of a replica next, and when."""
        self.known: list[ReplicaId] = []
        self.loads = dict.fromkeys(self.specs, 0)
        self.launches = self.steps = 0
        self.on(FleetConfigured(self.specs, limit, self.books.nodes))

    def on(self, event: object) -> None:
        """One turn; its orders go to the backend, and to the books."""
        self.steps += 1
        for effect in self.brain.on(event, self.now_s):  # type: ignore[arg-type]
            self._order(effect)
        self.books.look()

    def _order(self, effect: object) -> None:
        dice, books = self.dice, self.books
        match effect:
            case Launch():
                self.launches += 1
                books.told(effect)
                books.starts.append(self.now_s)
                self.known = [*self.known[-40:], effect.replica_id]
                seen = Seen.READY if dice.random() < 0.9 else Seen.EXITED
                self.doing[effect.replica_id] = (self.now_s + dice.choice([1, 20, 200]), seen)
            case Stop():
                if effect.replica_id in books.owners:
                    self.doing[effect.replica_id] = (self.now_s + dice.choice([0, 2, 20]), Seen.EXITED)
            case Sleep():
                self.doing[effect.replica_id] = (self.now_s + dice.choice([0.5, 3, 90]), Seen.SLEPT)
            case Wake():
                books.asleep.discard(effect.replica_id)
                self.doing[effect.replica_id] = (self.now_s + dice.choice([0.5, 4, 200]), Seen.WOKEN)
            case PublishRoutes():
                self.table = effect.table
                for route in effect.table.routes:
                    if route.state is State.WARM:
                        books.warm.add(route.replica_id)
                    elif route.state is not State.DRAINING:  # on its way out it costs what it cost before
                        books.warm.discard(route.replica_id)
            case Promote():
                books.warm.discard(effect.replica_id)
            case _:
                pass

    def step(self) -> None:
        """Something happens."""
        what = self.dice.random()
        if what < 0.45:
            self.wait(self.dice.choice([0.1, 1.0, 1.0, 5.0, 30.0, 300.0]))
            self.on(Tick())
        elif what < 0.85:
            self.on(self.report())
        elif what < 0.95:
            self.on(self.noise())
        elif what < 0.97 and self.books.owners:
            self.end(self.dice.choice(sorted(self.books.owners)))
        else:
            for model in self.loads:
                self.loads[model] = self.dice.choice([0, 0, 3, 10, 50])

    def wait(self, span_s: float) -> None:
        """Time passes, and the backend says what has come to pass, each at its moment."""
        until_s = self.now_s + span_s
        while self.doing:
            replica_id, (at_s, seen) = min(self.doing.items(), key=lambda item: (item[1][0], item[0]))
            if at_s > until_s:
                break
            self.now_s = max(self.now_s, at_s)
            self.books.pass_time(self.now_s)
            del self.doing[replica_id]
            self.tell(replica_id, seen)
        self.now_s = until_s
        self.books.pass_time(until_s)

    def tell(self, replica_id: ReplicaId, seen: Seen) -> None:
        """The backend speaks, if the replica is still there."""
        books = self.books
        if replica_id not in books.owners:
            return
        if seen is Seen.EXITED:
            self.end(replica_id)
            return
        if seen is Seen.SLEPT:
            books.asleep.add(replica_id)
        self.on(ReplicaSeen(replica_id, seen, ADDRESS))

    def end(self, replica_id: ReplicaId) -> None:
        """Its process is gone."""
        self.books.owners.pop(replica_id, None)
        self.books.asleep.discard(replica_id)
        self.books.places.pop(replica_id, None)
        self.doing.pop(replica_id, None)
        self.on(ReplicaSeen(replica_id, Seen.EXITED))

    def report(self) -> DemandReported:
        """The gateway's figures: right, missing, or no figures at all."""
        dice = self.dice
        demands = []
        for model, load in self.loads.items():
            kind = dice.random()
            if kind < 0.05:
                continue
            number = math.nan if kind < 0.08 else -3 if kind < 0.1 else load
            demands.append(
                ModelDemand(model, 0, number, number, 0, 0, 0, 0, 0, 0.0, self.now_s if load else None)
            )
        table = self.table
        routes = table.routes if table else ()
        loads = tuple(ReplicaLoad(r.replica_id, dice.choice([0, 0, 1]), 10) for r in routes)
        version = table.version if table else 0
        return DemandReported(DemandReport("g", version, tuple(demands), loads))

    def noise(self) -> object:
        """What should not matter."""
        dice = self.dice
        known = dice.choice(self.known) if self.known else ReplicaId("a-1")
        return dice.choice(
            [
                EngineReported(known, 1, 0, math.nan),
                SignalsReported(ModelId("a"), math.nan, LatencySummary()),
                ReplicaSeen(ReplicaId("strange-7"), Seen.STARTING),
            ]
        )
