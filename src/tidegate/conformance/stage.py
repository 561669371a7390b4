"""Where a story is told: the controller that serves, with a backend and gateways made of the story's data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegate.conformance.course import Course
from tidegate.conformance.fitted import scaling_for
from tidegate.conformance.signals import Ledger, a_day_at, all_nan, unnamed
from tidegate.conformance.story import Pages, Step, Told
from tidegate.core.effects import Decision, Launch, PublishRoutes, Stop
from tidegate.core.events import (
    DemandReported,
    EngineReported,
    FleetConfigured,
    KnowledgeRestored,
    ReplicaAdopted,
    ReplicaSeen,
    SignalsReported,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.fleet.interface import FleetEvent
from tidegate.core.knowledge import FleetKnowledge, KnownModel
from tidegate.core.lifecycle import Seen
from tidegate.core.scaling_settings import ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import Address, DemandReport, ModelId, ReplicaId, ReplicaLoad, RouteTable

M, NEIGHBOUR = ModelId("m"), ModelId("neighbour")
HERE = Address("127.0.0.1", 9000)
PAGES_EVERY_S = 10
TICK_EVERY_S = 5
"""Each report is a turn already."""
PHANTOMS = (213, 78, 40, 32)
"""What the engines said in the report that the story is from."""
TICK = Tick()


class Stage:
    """One telling. Owns the clock, which moves in seconds."""

    def __init__(self, told: Told, policy: ScalingPolicy) -> None:
        self._told = told
        self._policy = policy
        world = told.world
        self._model = FleetModel(
            "engine", slots=world.slots, scaling=scaling_for(policy, world), expected_start_s=world.load_s
        )
        self._neighbour = replace(self._model, scaling=replace(self._model.scaling, max_replicas=1))
        self._ledger, self._other = Ledger(M, world), Ledger(NEIGHBOUR, world)
        self._brain = FleetController()
        self._table = RouteTable(0, (), ())
        self._running: dict[ReplicaId, ModelId] = {}
        self._removed: list[ReplicaId] = []
        self._coming: dict[ReplicaId, tuple[float, ModelId]] = {}
        self._demand, self._pages, self._heard = 0.0, Pages.GOOD, world.gateways
        self._ttft_ratio: float | None = None
        self._now_s = 0.0
        self._wanted = 0
        self.course = Course()

    def __repr__(self) -> str:
        return f"<Stage {self._policy.value} at {self._now_s:g} s>"

    def play(self) -> Course:
        """The whole story."""
        steps = sorted(self._told.steps, key=lambda step: step.at_s)
        for number in range(1, self._told.world.serving + 1):
            self._running[ReplicaId(f"m-{number}")] = M
        if self._told.world.neighbour is not None:
            self._running[ReplicaId("neighbour-1")] = NEIGHBOUR
        if self._told.world.foreseen is not None:
            rates = a_day_at(self._told.world.foreseen / self._told.world.service_s)
            self._on(KnowledgeRestored(FleetKnowledge(0.0, (KnownModel(M, rates),))))
        self._begin()
        for second in range(int(self._told.until_s) + 1):
            self._now_s = float(second)
            while steps and steps[0].at_s <= second:
                self._take(steps.pop(0))
            self._become_ready()
            self._second(second)
            self.course.note(self._now_s, self._wanted, self._serving(M))
            waited_s = [self._now_s - launched_s for launched_s, _ in self._coming.values()]
            self.course.longest_start_s = max(self.course.longest_start_s, *waited_s, 0.0)
        return self.course

    # ---- the story ----

    def _take(self, step: Step) -> None:
        if step.demand is not None:
            self._demand = step.demand
        if step.pages is not None:
            self._pages = step.pages
        if step.heard is not None:
            self._heard = step.heard
        if step.ttft_ratio is not None:
            self._ttft_ratio = step.ttft_ratio if step.ttft_ratio >= 0 else None
        for replica_id in [name for name, model in self._running.items() if model == M][: step.kill]:
            del self._running[replica_id]
            self._on(ReplicaSeen(replica_id, Seen.EXITED, None, "killed"))
        for _ in range(step.add):
            replica_id = ReplicaId(f"m-{900 + len(self._running)}")
            self._running[replica_id] = M
            self._on(ReplicaAdopted(replica_id, M, HERE))
        if step.renew:
            self._model = replace(self._model, command_hash="another")
            self._configure()
        if step.restart:
            known = self._brain.remember(self._now_s)
            self._brain = FleetController()
            self._on(KnowledgeRestored(known))
            for replica_id in self._coming:
                self._removed.append(replica_id)
            self._coming.clear()
            self._begin()

    def _begin(self) -> None:
        for replica_id, model in self._running.items():
            self._on(ReplicaAdopted(replica_id, model, HERE))
        self._configure()

    def _configure(self) -> None:
        models = {M: self._model}
        if self._told.world.neighbour is not None:
            models[NEIGHBOUR] = self._neighbour
        self._on(FleetConfigured(models, FleetLimits(max_starts_per_hour=100_000)))

    # ---- one second ----

    def _second(self, second: int) -> None:
        self._ledger.second(self._demand, self._serving(M), self._now_s)
        if self._told.world.neighbour is not None:
            self._other.second(self._told.world.neighbour, self._serving(NEIGHBOUR), self._now_s)
        if second % PAGES_EVERY_S == 0:
            for page in self._said():
                self._on(page)
        gateways = self._told.world.gateways
        for number in range(self._heard):
            self._on(DemandReported(self._report(f"gateway-{number}", 1.0 / gateways)))
        if second % TICK_EVERY_S == 0 or not self._heard:
            self._on(TICK)

    def _report(self, gateway: str, share: float) -> DemandReport:
        ledgers = [self._ledger] if self._told.world.neighbour is None else [self._ledger, self._other]
        loads = tuple(
            ReplicaLoad(route.replica_id, 0, 0)
            if route.replica_id not in self._running
            else self._load(route.replica_id, share)
            for route in self._table.routes
        )
        demands = tuple(ledger.demand(share) for ledger in ledgers)
        return DemandReport(gateway, self._table.version, demands, loads, (self._ledger.capacity(),))

    def _load(self, replica_id: ReplicaId, share: float) -> ReplicaLoad:
        model = self._running[replica_id]
        serving = self._table_serving(model)
        if replica_id not in serving:
            return ReplicaLoad(replica_id, 0, 0)  # what drains is empty at once
        ledger = self._ledger if model == M else self._other
        batch = round(share * ledger.in_flight / len(serving))
        return ReplicaLoad(replica_id, batch, 100 * batch)

    def _said(self) -> Iterator[EngineReported | SignalsReported]:
        """Pages of the engines and of the metrics server, as they get through."""
        pages = self._pages
        if pages is Pages.ABSENT:
            return
        serving = self._table_serving(M)
        for place, replica_id in enumerate(serving):
            if pages is Pages.ONE_MISSING and place == 0:
                continue
            phantoms = PHANTOMS[place % len(PHANTOMS)] if pages is Pages.PHANTOMS else 0
            yield self._spoilt(self._ledger.page(replica_id, len(serving), phantoms))
        if pages is Pages.REMOVED_TOO:
            for replica_id in self._removed:
                yield EngineReported(replica_id, self._told.world.slots, 30, 0.9)
        yield self._spoilt(self._ledger.latency(len(serving), self._ttft_ratio))
        if self._told.world.neighbour is not None:
            yield self._other.latency(len(self._table_serving(NEIGHBOUR)), None)

    def _spoilt(self, page: EngineReported | SignalsReported) -> EngineReported | SignalsReported:
        match self._pages:
            case Pages.NAN:
                return all_nan(page)
            case Pages.UNNAMED:
                return unnamed(page)
            case _:
                return page

    # ---- the backend ----

    def _on(self, event: FleetEvent) -> None:
        for effect in self._brain.on(event, self._now_s):
            match effect:
                case Launch(replica_id, model, _):
                    self._coming[replica_id] = (self._now_s, model)
                    if model == M:
                        self.course.launches.append(self._now_s)
                case Stop(replica_id, _):
                    self._stop(replica_id)
                case PublishRoutes(table):
                    self._table = table
                case Decision():
                    if effect.model == M:
                        self._wanted = effect.desired
                        self.course.decisions.append((self._now_s, effect))
                case _:
                    pass

    def _stop(self, replica_id: ReplicaId) -> None:
        self._running.pop(replica_id, None)
        self._coming.pop(replica_id, None)
        self._removed.append(replica_id)
        self._on(ReplicaSeen(replica_id, Seen.EXITED, None, "stopped"))

    def _become_ready(self) -> None:
        room = self._told.world.room
        for replica_id, (launched_s, model) in list(self._coming.items()):
            # What became ready before it may have made the controller give this one up.
            is_there = replica_id in self._coming and (room is None or len(self._running) < room)
            if is_there and self._now_s >= launched_s + self._told.world.load_s:
                del self._coming[replica_id]
                self._running[replica_id] = model
                self._on(ReplicaSeen(replica_id, Seen.READY, HERE))

    def _table_serving(self, model: ModelId) -> list[ReplicaId]:
        return [
            route.replica_id
            for route in self._table.routes
            if route.slots and route.model == model and route.replica_id in self._running
        ]

    def _serving(self, model: ModelId) -> int:
        return len(self._table_serving(model))
