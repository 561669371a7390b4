"""The simulated backend: it launches and stops replicas as it is told and says what it sees.

A cold start passes through the stages of ``tidegate.engine.coldstart``, each with a time of its own from
the run's dice. What a node has on its disk and what has been compiled on it shortens the next start there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tidegate.core.effects import Launch, Sleep, Stop, Wake
from tidegate.core.events import ReplicaAdopted, ReplicaSeen
from tidegate.core.fleet.replicas import size_in, slug
from tidegate.core.lifecycle import Part, Seen, State
from tidegate.core.nodes import Place
from tidegate.core.types import Address, Dice, ModelId, ReplicaId, RouteTable
from tidegate.engine.batch import Engine
from tidegate.engine.coldstart import Stage, StageKind
from tidegate.sim.engines import Outlet, SimEngine
from tidegate.sim.faults import FaultKind
from tidegate.sim.kernel import Alarm, Kernel
from tidegate.sim.machines import Inventory, Node, Usage, first_ground, first_place
from tidegate.sim.pace import Pace
from tidegate.sim.provision import Phase, Provision, Share
from tidegate.sim.scenario import ModelSetup, Scenario

ANYWHERE = Address("sim", 1)
_PHASES = {State.DRAINING: Phase.DRAINING, State.WARM: Phase.WARM}
_STATES = {Phase.WARM: State.WARM, Phase.SLEEPING: State.SLEEPING}


@dataclass(slots=True)
class Start:
    """A replica on its way up."""

    model: ModelId
    launched_s: float
    got: Callable[[Node], None] | None = None
    node: Node | None = None
    alarm: Alarm | None = None
    stages: list[Stage] = field(default_factory=list)
    parts: list[tuple[Part, float]] = field(default_factory=list)
    """What its engine will say of its start."""
    compiled: bool | None = None
    wakes: bool = False
    """From sleep."""


@dataclass(slots=True)
class Sleeper:
    """A replica whose engine sleeps, or is about to."""

    model: ModelId
    node: Node
    has_gpus: bool = True


class SimFleet:
    """Owns every replica between its launch and its end."""

    def __init__(
        self, scenario: Scenario, kernel: Kernel, dice: Dice, tell: Callable[[object], None], outlet: Outlet
    ) -> None:
        """``tell`` takes what the backend sees."""
        self._setups: Mapping[ModelId, ModelSetup] = scenario.models
        self._faults = scenario.faults
        self._kernel = kernel
        self._dice = dice
        self._tell = tell
        self._outlet = outlet
        self._inventory = Inventory(scenario.machines, scenario.nodes)
        self._ground = first_ground(scenario)
        self._places: dict[ReplicaId, Place] = {}
        """Of each replica that was told where to go."""
        self._starts: dict[ReplicaId, Start] = {}
        self._homes: dict[ReplicaId, tuple[ModelId, Node]] = {}
        self._sleepers: dict[ReplicaId, Sleeper] = {}
        self._made: dict[ReplicaId, ModelSetup] = {}
        """How each replica is run that is there."""
        self._is_listening = True
        self.engines: dict[ReplicaId, SimEngine] = {}
        self.provision = Provision()
        self.pace = Pace()
        self.launches = 0
        self.wakes = 0
        self.cold_starts_s: list[float] = []
        """From launch to ready, of each replica that got there."""

    def __repr__(self) -> str:
        return f"<SimFleet engines={len(self.engines)} starting={len(self._starts)}>"

    @property
    def usage(self) -> Usage:
        """Of the GPUs of nodes that the controller knows."""
        return self._inventory.usage

    def adopt(self, model: ModelId) -> None:
        """Those that serve already when the run begins, or as many as find a place."""
        for number, (variant, setup) in enumerate(self._setups[model].at_first, 1):
            replica_id = ReplicaId(f"{slug(model)}-{number}")
            place = first_place(self._ground, setup)
            if place is None:
                return
            if place.gpus:
                self._places[replica_id] = place
            self._made[replica_id] = setup
            self._take(replica_id, setup.fleet.gpus, model, partial(self._install, replica_id, model))
            self._open(replica_id, model)
            place = self._places.get(replica_id)
            self._tell(ReplicaAdopted(replica_id, model, ANYWHERE, variant=variant, place=place))

    # ---- orders ----

    def launch(self, order: Launch) -> None:
        """Begin a cold start."""
        self.launches += 1
        setup = self._made[order.replica_id] = self._setups[order.model].ways[order.variant]
        start = self._starts[order.replica_id] = Start(order.model, self._kernel.now_s)
        self._move(order.replica_id, Phase.WAITING)
        start.got = partial(self._placed, order.replica_id, start)
        if order.place is not None:
            self._places[order.replica_id] = order.place
        self._take(order.replica_id, setup.fleet.gpus, order.model, start.got)

    def sleep(self, order: Sleep) -> None:
        """Let an engine sleep. Whoever was still connected is cut off: it is an error to order that."""
        engine = self.engines.pop(order.replica_id, None)
        if engine is None:
            return
        for sequence, tokens in engine.kill():
            self._outlet.cut(sequence, order.replica_id, tokens)
        model, node = self._homes.pop(order.replica_id)
        sleeper = self._sleepers[order.replica_id] = Sleeper(model, node)
        asleep_s = self._kernel.now_s + self._made[order.replica_id].cold_start.sleep_s
        self._kernel.at(asleep_s, partial(self._asleep, order.replica_id, sleeper))

    def wake(self, order: Wake) -> None:
        """Wake an engine up, where it sleeps: its GPUs must be free there."""
        sleeper = self._sleepers.get(order.replica_id)
        if sleeper is None:
            return
        gpus = self._made[order.replica_id].fleet.gpus
        if not self._is_free(order.replica_id, sleeper.node, gpus):
            self._tell(ReplicaSeen(order.replica_id, Seen.SLEPT, detail="it sleeps on: its GPUs are in use"))
            return
        del self._sleepers[order.replica_id]
        self.wakes += 1
        start = self._starts[order.replica_id] = Start(sleeper.model, self._kernel.now_s, wakes=True)
        self._move(order.replica_id, Phase.WAITING)
        start.got = partial(self._placed, order.replica_id, start)
        self._take(order.replica_id, gpus, sleeper.model, start.got, sleeper.node)

    def stop(self, order: Stop) -> None:
        """End a replica, whatever it is doing. One that is not there has ended already."""
        self.end(order.replica_id, "stopped")

    def end(self, replica_id: ReplicaId, detail: str) -> None:
        """Its process is gone; whoever was connected is cut off."""
        start = self._starts.pop(replica_id, None)
        engine = self.engines.pop(replica_id, None)
        sleeper = self._sleepers.pop(replica_id, None)
        if start is not None:
            if start.alarm is not None:
                start.alarm.cancel()
            if start.got is not None and start.node is None:
                self._inventory.withdraw(start.got)
        elif sleeper is not None:
            if sleeper.has_gpus:
                self._homes[replica_id] = (sleeper.model, sleeper.node)
        elif engine is None:
            return
        self._move(replica_id, None)
        for sequence, tokens in engine.kill() if engine else ():
            self._outlet.cut(sequence, replica_id, tokens)
        home = self._homes.pop(replica_id, None)
        if home is not None:
            self._give_back(replica_id, home[1], self._made[replica_id].fleet.gpus)
        self._places.pop(replica_id, None)
        del self._made[replica_id]
        self._tell(ReplicaSeen(replica_id, Seen.EXITED, None, detail))

    def publish(self, table: RouteTable) -> None:
        """What the controller says of each replica is its phase from now on."""
        for route in table.routes:
            if route.replica_id not in self.engines:
                continue
            phase = _PHASES.get(route.state, Phase.SERVING)
            if self.provision.phase(route.replica_id) is not phase:
                self._move(route.replica_id, phase)

    # ---- sleep ----

    def _asleep(self, replica_id: ReplicaId, sleeper: Sleeper) -> None:
        if self._sleepers.get(replica_id) is not sleeper:
            return
        sleeper.has_gpus = False
        self._move(replica_id, Phase.SLEEPING)
        self._give_back(replica_id, sleeper.node, self._made[replica_id].fleet.gpus)
        self._tell(ReplicaSeen(replica_id, Seen.SLEPT))

    # ---- GPUs ----

    def _take(
        self,
        replica_id: ReplicaId,
        gpus: int,
        model: ModelId,
        got: Callable[[Node], None],
        node: Node | None = None,
    ) -> None:
        """Those that it was told, at once; else any, on this node if one is named, as soon as they are free."""
        place = self._places.get(replica_id)
        if place is not None:
            held = self._inventory.hold(place, self._kernel.now_s)
            if held is None:
                del self._places[replica_id]
                self.end(replica_id, f"another replica has {place}")
            else:
                got(held)
        elif node is not None:
            self._inventory.take_at(node, gpus, model, got)
        else:
            self._inventory.take(gpus, model, got)

    def _is_free(self, replica_id: ReplicaId, node: Node, gpus: int) -> bool:
        place = self._places.get(replica_id)
        return node.free_gpus >= gpus if place is None else self._inventory.fits(place)

    def _give_back(self, replica_id: ReplicaId, node: Node, gpus: int) -> None:
        place = self._places.get(replica_id)
        if place is None:
            self._inventory.give_back(node, gpus)
        else:
            self._inventory.free(place, self._kernel.now_s)

    # ---- a start ----

    def _install(self, replica_id: ReplicaId, model: ModelId, node: Node) -> None:
        """It has its place and its files on this node."""
        self._homes[replica_id] = (model, node)
        node.has.add(model)
        build = self._made[replica_id].cold_start.build
        if build is not None:
            node.compiled.add(build)

    def _placed(self, replica_id: ReplicaId, start: Start, node: Node) -> None:
        setup = self._made[replica_id]
        start.node = node
        if start.wakes:
            start.stages = list(setup.cold_start.waking(setup.fleet.pool.sleep_level))
        else:
            start.stages = list(setup.cold_start.stages(node.tier_for(start.model), node.compiled))
            build = setup.cold_start.build
            start.compiled = None if build is None else build in node.compiled
        start.stages.reverse()
        self._homes[replica_id] = (start.model, node)
        # The GPUs are there; the bill begins unless the machine itself has still to come.
        if not start.stages or start.stages[-1].kind is not StageKind.PROCUREMENT:
            self._move(replica_id, Phase.STARTING)
        start.alarm = self._kernel.at(self._kernel.now_s, partial(self._next_stage, replica_id, start))

    def _next_stage(self, replica_id: ReplicaId, start: Start) -> None:
        """The stage before is over: begin the next one, or be ready."""
        assert start.alarm is not None
        if not start.stages:
            self._ready(replica_id, start)
            return
        stage = start.stages.pop()
        if stage.kind is not StageKind.PROCUREMENT and self.provision.phase(replica_id) is Phase.WAITING:
            self._move(replica_id, Phase.STARTING)
        took_s = stage.draw_s(self._dice)
        start.alarm.set(self._kernel.now_s + took_s)
        if (part := stage.kind.part) is not None:
            start.parts.append((part, took_s))
        if not start.wakes:
            self._tell(ReplicaSeen(replica_id, stage.kind.seen, detail=stage.kind.value))

    def _ready(self, replica_id: ReplicaId, start: Start) -> None:
        if self._meets(FaultKind.NEVER_READY, start.launched_s):
            return
        if self._meets(FaultKind.CRASH_LOOP, start.launched_s):
            self.end(replica_id, "died at the end of its start")
            return
        assert start.node is not None
        del self._starts[replica_id]
        self._install(replica_id, start.model, start.node)
        self._open(replica_id, start.model)
        if start.wakes:
            self._tell(ReplicaSeen(replica_id, Seen.WOKEN))
            return
        self.cold_starts_s.append(self._kernel.now_s - start.launched_s)
        self._tell(
            ReplicaSeen(replica_id, Seen.READY, ANYWHERE, compiled=start.compiled, parts=tuple(start.parts))
        )

    def _open(self, replica_id: ReplicaId, model: ModelId) -> None:
        setup = self._made[replica_id]
        engine = Engine(setup.limits, setup.law)
        self.engines[replica_id] = SimEngine(replica_id, model, engine, self._kernel, self._outlet, self.pace)
        self._move(replica_id, Phase.SERVING)

    def _meets(self, kind: FaultKind, at_s: float) -> bool:
        return any(fault.kind is kind and fault.is_on(at_s) for fault in self._faults)

    def _move(self, replica_id: ReplicaId, phase: Phase | None) -> None:
        state = _STATES.get(phase, State.SERVING) if phase else State.SERVING
        size = size_in(self._made[replica_id].fleet, state)
        self.provision.move(replica_id, phase, self._kernel.now_s, Share(size.gpus, size.price_per_h))
