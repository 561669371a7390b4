"""One fleet's replicas in the fluid world: a cold start is a moment, a drain is a share that decays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import exp

from tidegate.core.effects import Launch, Sleep, Stop, Wake
from tidegate.core.events import ReplicaAdopted, ReplicaSeen
from tidegate.core.fleet.replicas import size_in, slug
from tidegate.core.lifecycle import Seen, State
from tidegate.core.types import Address, Dice, ModelId, ReplicaId, RouteTable
from tidegate.sim.fluid.floor import Floor, Hands
from tidegate.sim.fluid.pool import Pool
from tidegate.sim.machines import first_ground, first_place
from tidegate.sim.provision import Phase, Provision, Share
from tidegate.sim.scenario import ModelSetup, Scenario

HALF = 0.5
"""Of a request: fewer than this are most likely none."""

ANYWHERE = Address("sim", 1)


_IDLE = {State.DRAINING: Phase.DRAINING, State.WARM: Phase.WARM}
"""States in which a loaded replica takes nothing new."""
_SIZED = {Phase.WARM: State.WARM, Phase.SLEEPING: State.SLEEPING}


@dataclass(slots=True)
class Emptying:
    """A replica that takes nothing new: it drains, or stands warm in the pool."""

    model: ModelId
    variant: str
    requests: float
    """What it had when that began; it shrinks as answers end."""


@dataclass(slots=True)
class Changing:
    """A replica on its way from one state to another."""

    model: ModelId
    begun_s: float
    seen: Seen
    """What will be seen when it is there."""


class FluidFleet:
    """Owns every replica between its launch and its end."""

    def __init__(
        self,
        scenario: Scenario,
        floors: Mapping[ModelId, Floor],
        dice: Dice,
        tell: Callable[[object], None],
    ) -> None:
        """``tell`` takes what a backend would see."""
        setups = self._setups = scenario.models
        self._ground = first_ground(scenario)
        self._floors = floors
        self._made: dict[ReplicaId, ModelSetup] = {}
        """As what each was launched."""
        self._variant: dict[ReplicaId, str] = {}
        self._dice = dice
        self._tell = tell
        self._due: list[tuple[float, ReplicaId]] = []
        self._changing: dict[ReplicaId, Changing] = {}
        self._sleeping: dict[ReplicaId, ModelId] = {}
        self.serving: dict[ModelId, dict[ReplicaId, str]] = {model: {} for model in setups}
        """Each with its variant."""
        self.emptying: dict[ReplicaId, Emptying] = {}
        self.provision = Provision()
        self.launches = 0
        self.cold_starts_s: list[float] = []
        self.now_s = 0.0

    def __repr__(self) -> str:
        count = sum(map(len, self.serving.values()))
        return f"<FluidFleet serving={count} changing={len(self._changing)} emptying={len(self.emptying)}>"

    def adopt(self, model: ModelId) -> None:
        """Those that serve already when the run begins, or as many as find a place."""
        for number, (variant, setup) in enumerate(self._setups[model].at_first, 1):
            replica_id = ReplicaId(f"{slug(model)}-{number}")
            place = first_place(self._ground, setup)
            if place is None:
                return
            self._made[replica_id], self._variant[replica_id] = setup, variant
            self._serve(replica_id, model)
            where = place if place.gpus else None
            self._tell(ReplicaAdopted(replica_id, model, ANYWHERE, variant=variant, place=where))

    def launch(self, order: Launch) -> None:
        """Begin a cold start; it ends at the first slot after its time is over."""
        self.launches += 1
        made = self._setups[order.model].ways[order.variant]
        self._made[order.replica_id], self._variant[order.replica_id] = made, order.variant
        stages = made.cold_start.stages()
        took_s = sum(stage.draw_s(self._dice) for stage in stages)
        self._change(order.replica_id, order.model, Seen.READY, took_s, Phase.STARTING)

    def sleep(self, order: Sleep) -> None:
        """Let a warm replica sleep."""
        emptied = self.emptying.pop(order.replica_id, None)
        if emptied is not None:
            self._pool(emptied).lose(emptied.requests)
            took_s = self._made[order.replica_id].cold_start.sleep_s
            self._change(order.replica_id, emptied.model, Seen.SLEPT, took_s, Phase.WARM)

    def wake(self, order: Wake) -> None:
        """Begin to wake a sleeper; its GPUs are free."""
        model = self._sleeping.pop(order.replica_id, None)
        if model is not None:
            setup = self._made[order.replica_id]
            stages = setup.cold_start.waking(setup.fleet.pool.sleep_level)
            took_s = sum(stage.draw_s(self._dice) for stage in stages)
            self._change(order.replica_id, model, Seen.WOKEN, took_s, Phase.STARTING)

    def stop(self, order: Stop) -> None:
        """End a replica; what it still had is cut off."""
        replica_id = order.replica_id
        changing = self._changing.pop(replica_id, None)
        emptied = self.emptying.pop(replica_id, None)
        model = self._sleeping.pop(replica_id, None)
        if changing is not None:
            model = changing.model
        elif emptied is not None:
            model = emptied.model
            self._pool(emptied).lose(emptied.requests)
        elif model is None:
            model = next((name for name, ids in self.serving.items() if replica_id in ids), None)
            if model is None:
                return
            variant = self.serving[model][replica_id]
            self._floors[model].pools[variant].lose(self.each(model, variant))
            del self.serving[model][replica_id]
        self._move(replica_id, None)
        del self._made[replica_id], self._variant[replica_id]
        self._tell(ReplicaSeen(replica_id, Seen.EXITED, None, "stopped"))

    def publish(self, table: RouteTable) -> None:
        """Whatever drains or is warm takes nothing new from now on; whatever is to serve serves."""
        for route in table.routes:
            serving = self.serving.get(route.model, {})
            phase = _IDLE.get(route.state)
            if phase is not None and route.replica_id in serving:
                variant = serving[route.replica_id]
                each = self.each(route.model, variant)
                self.emptying[route.replica_id] = Emptying(route.model, variant, each)
                del serving[route.replica_id]
                self._move(route.replica_id, phase)
            elif phase is not None and route.replica_id in self.emptying:
                if self.provision.phase(route.replica_id) is not phase:
                    self._move(route.replica_id, phase)
            elif route.state is State.SERVING and route.replica_id in self.emptying:
                del self.emptying[route.replica_id]
                self._serve(route.replica_id, route.model)

    def begin_slot(self, now_s: float) -> None:
        """Changes whose time is over are seen."""
        self.now_s = now_s
        while self._due and self._due[0][0] <= now_s:
            _, replica_id = heappop(self._due)
            changed = self._changing.pop(replica_id, None)
            if changed is None:
                continue
            if changed.seen is Seen.SLEPT:
                self._sleeping[replica_id] = changed.model
                self._move(replica_id, Phase.SLEEPING)
                self._tell(ReplicaSeen(replica_id, Seen.SLEPT))
                continue
            if changed.seen is Seen.READY:
                self.cold_starts_s.append(now_s - changed.begun_s)
            # The table of the turn that follows says whether it serves or stands warm.
            self._serve(replica_id, changed.model)
            self._tell(ReplicaSeen(replica_id, changed.seen, ANYWHERE))

    def end_slot(self, span_s: float) -> None:
        """What takes nothing new has got so much further."""
        for emptied in self.emptying.values():
            emptied.requests *= exp(-span_s / self._pool(emptied).stay_s)
            if emptied.requests < HALF:
                emptied.requests = 0.0

    def each(self, model: ModelId, variant: str) -> float:
        """Requests on one replica of this variant that serves."""
        elsewhere = sum([gone.requests for gone in self._gone(model, variant)])
        serving = sum([its == variant for its in self.serving[model].values()])
        return max(0.0, self._floors[model].pools[variant].running - elsewhere) / max(1, serving)

    def hands(self, model: ModelId) -> dict[str, Hands]:
        """Who is at work, by variant."""
        found: dict[str, Hands] = {}
        serving = Counter(self.serving[model].values())
        for variant in self._floors[model].pools:
            gone = self._gone(model, variant)
            each = max(1.0, self.each(model, variant)) if gone else 1.0
            found[variant] = Hands(
                serving[variant],
                sum([min(1.0, drained.requests / each) for drained in gone]),
                sum([drained.requests for drained in gone]),
            )
        return found

    def _gone(self, model: ModelId, variant: str) -> list[Emptying]:
        return [one for one in self.emptying.values() if one.model == model and one.variant == variant]

    def _pool(self, emptied: Emptying) -> Pool:
        return self._floors[emptied.model].pools[emptied.variant]

    def _change(self, replica_id: ReplicaId, model: ModelId, seen: Seen, took_s: float, phase: Phase) -> None:
        self._changing[replica_id] = Changing(model, self.now_s, seen)
        heappush(self._due, (self.now_s + took_s, replica_id))
        self._move(replica_id, phase)

    def _serve(self, replica_id: ReplicaId, model: ModelId) -> None:
        # One that another model of its group has lent serves here as the model's own do.
        variant = self._variant[replica_id]
        self.serving[model][replica_id] = variant if variant in self._floors[model].pools else ""
        self._move(replica_id, Phase.SERVING)

    def _move(self, replica_id: ReplicaId, phase: Phase | None) -> None:
        state = _SIZED.get(phase, State.SERVING) if phase else State.SERVING
        size = size_in(self._made[replica_id].fleet, state)
        self.provision.move(replica_id, phase, self.now_s, Share(size.gpus, size.price_per_h))
