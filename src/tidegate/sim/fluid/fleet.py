"""One fleet's replicas in the fluid world: a cold start is a moment, a drain is a share that decays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import exp

from tidegate.core.effects import Launch, Stop
from tidegate.core.events import ReplicaAdopted, ReplicaSeen
from tidegate.core.fleet.replicas import slug
from tidegate.core.lifecycle import Seen, State
from tidegate.core.types import Address, Dice, ModelId, ReplicaId, RouteTable
from tidegate.sim.fluid.pool import Pool
from tidegate.sim.provision import Phase, Provision, Share
from tidegate.sim.scenario import ModelSetup

HALF = 0.5
"""Of a request: fewer than this are most likely none."""

ANYWHERE = Address("sim", 1)


@dataclass(slots=True)
class Draining:
    """A replica that takes nothing new."""

    model: ModelId
    requests: float
    """What it had when it began to drain; it shrinks as answers end."""


class FluidFleet:
    """Owns every replica between its launch and its end."""

    def __init__(
        self,
        setups: Mapping[ModelId, ModelSetup],
        pools: Mapping[ModelId, Pool],
        dice: Dice,
        tell: Callable[[object], None],
    ) -> None:
        """``tell`` takes what a backend would see."""
        self._setups = setups
        self._pools = pools
        self._dice = dice
        self._tell = tell
        self._coming: list[tuple[float, ReplicaId]] = []
        self._starting: dict[ReplicaId, tuple[ModelId, float]] = {}
        self.serving: dict[ModelId, dict[ReplicaId, None]] = {model: {} for model in setups}
        self.draining: dict[ReplicaId, Draining] = {}
        self.provision = Provision()
        self.launches = 0
        self.cold_starts_s: list[float] = []
        self.now_s = 0.0

    def __repr__(self) -> str:
        count = sum(map(len, self.serving.values()))
        return f"<FluidFleet serving={count} starting={len(self._starting)} draining={len(self.draining)}>"

    def adopt(self, model: ModelId, count: int) -> None:
        """So many serve already when the run begins."""
        for number in range(1, count + 1):
            replica_id = ReplicaId(f"{slug(model)}-{number}")
            self._serve(replica_id, model)
            self._tell(ReplicaAdopted(replica_id, model, ANYWHERE))

    def launch(self, order: Launch) -> None:
        """Begin a cold start; it ends at the first slot after its time is over."""
        self.launches += 1
        self._starting[order.replica_id] = (order.model, self.now_s)
        took_s = sum(stage.draw_s(self._dice) for stage in self._setups[order.model].cold_start.stages())
        heappush(self._coming, (self.now_s + took_s, order.replica_id))
        self._move(order.replica_id, order.model, Phase.STARTING)

    def stop(self, order: Stop) -> None:
        """End a replica; what it still had is cut off."""
        replica_id = order.replica_id
        started = self._starting.pop(replica_id, None)
        drained = self.draining.pop(replica_id, None)
        model = started[0] if started else drained.model if drained else self._model_of(replica_id)
        if model is None:
            return
        if drained is not None:
            self._pools[model].lose(drained.requests)
        elif started is None:
            self._pools[model].lose(self.each(model))
            del self.serving[model][replica_id]
        self._move(replica_id, model, None)
        self._tell(ReplicaSeen(replica_id, Seen.EXITED, None, "stopped"))

    def publish(self, table: RouteTable) -> None:
        """Whatever is said to drain drains from now on, and whatever is kept after all serves again."""
        for route in table.routes:
            drains = route.state is State.DRAINING
            serving = self.serving.get(route.model, {})
            if drains and route.replica_id in serving:
                self.draining[route.replica_id] = Draining(route.model, self.each(route.model))
                del serving[route.replica_id]
                self._move(route.replica_id, route.model, Phase.DRAINING)
            elif route.state is State.SERVING and route.replica_id in self.draining:
                del self.draining[route.replica_id]
                self._serve(route.replica_id, route.model)

    def begin_slot(self, now_s: float) -> None:
        """Starts whose time is over are ready."""
        self.now_s = now_s
        while self._coming and self._coming[0][0] <= now_s:
            _, replica_id = heappop(self._coming)
            started = self._starting.pop(replica_id, None)
            if started is None:
                continue
            model, launched_s = started
            self.cold_starts_s.append(now_s - launched_s)
            self._serve(replica_id, model)
            self._tell(ReplicaSeen(replica_id, Seen.READY, ANYWHERE))

    def end_slot(self, span_s: float) -> None:
        """What drains has got so much further."""
        for drained in self.draining.values():
            drained.requests *= exp(-span_s / self._pools[drained.model].stay_s)
            if drained.requests < HALF:
                drained.requests = 0.0

    def each(self, model: ModelId) -> float:
        """Requests on one replica that serves."""
        elsewhere = sum(d.requests for d in self.draining.values() if d.model == model)
        return max(0.0, self._pools[model].running - elsewhere) / max(1, len(self.serving[model]))

    def _model_of(self, replica_id: ReplicaId) -> ModelId | None:
        return next((model for model, ids in self.serving.items() if replica_id in ids), None)

    def _serve(self, replica_id: ReplicaId, model: ModelId) -> None:
        self.serving[model][replica_id] = None
        self._move(replica_id, model, Phase.SERVING)

    def _move(self, replica_id: ReplicaId, model: ModelId, phase: Phase | None) -> None:
        spec = self._setups[model].fleet
        self.provision.move(replica_id, phase, self.now_s, Share(spec.gpus, spec.price_per_h))
