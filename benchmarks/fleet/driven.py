"""A fleet driven by chance, with a backend made of dice and an onlooker.

People meddle: numbers by hand, replicas ended, other settings, models taken out, a controller that is killed.
"""

from __future__ import annotations

import math
import random

from benchmarks.fleet.drawn import NAMES, a_model, limits, models, nodes
from benchmarks.fleet.onlooker import Onlooker
from tidegate.core.effects import Launch, Promote, PublishRoutes, Sleep, Stop, Wake
from tidegate.core.events import (
    DemandReported,
    EngineReported,
    FleetConfigured,
    ReplicaAdopted,
    ReplicaSeen,
    ScaledByHand,
    SignalsReported,
    SpendingRestored,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen, State
from tidegate.core.settings import FleetModel
from tidegate.core.types import (
    Address,
    DemandReport,
    LatencySummary,
    ModelDemand,
    ModelId,
    ReplicaId,
    ReplicaLoad,
)

ADDRESS = Address("h", 1)


class World:
    """One controller, its backend made of dice, and the onlooker."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.specs = models(self.dice)
        limit = limits(self.dice)
        self.books = Onlooker(limit, nodes(self.dice))
        self.limits = limit
        self.brain = FleetController()
        self.now_s = 0.0
        self.table = None
        self.doing: dict[ReplicaId, tuple[float, Seen]] = {}
        """What the backend will say of a replica next, and when."""
        self.lives: dict[ReplicaId, tuple[ModelId, str]] = {}
        """Model and variant of each that exists."""
        self.known: list[ReplicaId] = []
        self.loads = dict.fromkeys(self.specs, 0)
        self.launches = self.steps = 0
        self.adopted_cheaper = 0
        """Warm ones at less than the whole price, adopted as such at a restart."""
        self.configure()

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
                self.lives[effect.replica_id] = effect.model, effect.variant
                books.told(effect, self.as_launched(effect.model, effect.variant))
                books.starts.append(self.now_s)
                self.known = [*self.known[-40:], effect.replica_id]
                seen = Seen.READY if dice.random() < 0.9 else Seen.EXITED
                self.doing[effect.replica_id] = (self.now_s + dice.choice([1, 20, 200]), seen)
            case Stop():
                if effect.replica_id in books.specs:
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
                self.lives[effect.replica_id] = effect.model, self.lives[effect.replica_id][1]
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
        elif what < 0.97 and self.books.specs:
            self.end(self.dice.choice(sorted(self.books.specs)), by_hand=self.dice.random() < 0.5)
        elif what < 0.98:
            self.meddle()
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
        if replica_id not in books.specs:
            return
        if seen is Seen.EXITED:
            self.end(replica_id)
            return
        if seen is Seen.SLEPT:
            books.asleep.add(replica_id)
        if seen is Seen.READY and books.specs[replica_id].pool.is_used:
            # Until a table gives it traffic. It may be ended before any table shows it.
            books.warm.add(replica_id)
        self.on(ReplicaSeen(replica_id, seen, ADDRESS))

    def end(self, replica_id: ReplicaId, *, by_hand: bool = False) -> None:
        """Its process is gone."""
        self.books.specs.pop(replica_id, None)
        self.books.asleep.discard(replica_id)
        self.books.places.pop(replica_id, None)
        self.doing.pop(replica_id, None)
        self.on(ReplicaSeen(replica_id, Seen.EXITED, by_hand=by_hand))

    # ---- what people do ----

    def meddle(self) -> None:
        """A number by hand, other settings, a model less or more, a controller that is killed and begins anew."""
        dice, name = self.dice, self.dice.choice(NAMES)
        match dice.choice(["hand", "hand", "settings", "settings", "less", "restart"]):
            case "hand":
                number, for_s = dice.choice([None, 0, 1, 3, 99]), dice.choice([30.0, 3_600.0])
                self.on(ScaledByHand(name, number, for_s, dice.random() < 0.5))
            case "settings":
                self.specs = {**self.specs, name: a_model(dice)}
                self.configure()
            case "less":
                self.specs = {model: spec for model, spec in self.specs.items() if model != name}
                self.configure()
            case _:
                self.restart()

    def configure(self) -> None:
        """The policy is read."""
        self.on(FleetConfigured(dict(self.specs), self.limits, self.books.nodes))

    def restart(self) -> None:
        """Another controller goes on; it adopts what is started as it was, and ends the rest."""
        spending = self.brain.state(self.now_s).spending
        self.brain, self.table = FleetController(), None
        self.on(SpendingRestored(spending.minutes, spending.starts))
        for replica_id, (model, variant) in sorted(self.lives.items()):
            spec = self.books.specs.get(replica_id)
            if spec is None:
                continue
            is_same = model in self.specs and self.has(model, variant)
            is_same = is_same and self.as_launched(model, variant) == spec
            if is_same:
                self.doing.pop(replica_id, None)
                self.adopted_cheaper += self.books.warm_price(replica_id) is not None
                place = self.books.places.get(replica_id)
                self.on(
                    ReplicaAdopted(replica_id, model, ADDRESS, self.books.tier(replica_id), variant, place)
                )
            else:
                self.end(replica_id)
        self.configure()

    def has(self, model: ModelId, variant: str) -> bool:
        """It has such a variant."""
        return not variant or any(each.name == variant for each in self.specs[model].variants)

    def as_launched(self, model: ModelId, variant: str) -> FleetModel:
        """The settings of one that is started now."""
        spec = self.specs[model]
        ways = [each for each in spec.variants if each.name == variant]
        return spec.as_variant(ways[0]) if ways else spec

    # ---- what gateways and engines say ----

    def report(self) -> DemandReported:
        """The gateway's figures: right, missing, or no figures at all."""
        dice = self.dice
        demands = []
        for model, load in self.loads.items():
            if model not in self.specs:
                continue
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
