"""A large fleet in one process, as after a day of traffic: a controller, one gateway's reports, a hand that does as told.

Demand and what is said of it fit together: requests come as fast as they are answered, replicas are as quick as the
prior of ``core.capacity`` has it, their pages say how full they are, and their capacities have been learned.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.core.capacity import DECODE_PRIOR, PREFILL_PRIOR
from tidegate.core.effects import Launch, PublishRoutes, Stop
from tidegate.core.events import (
    DemandReported,
    EngineReported,
    FleetConfigured,
    ReplicaAdopted,
    ReplicaSeen,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.fleet.replicas import route_gpu
from tidegate.core.lifecycle import Seen, State
from tidegate.core.nodes import Node, Place
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import (
    Address,
    CapacityFigures,
    DemandReport,
    LatencySummary,
    ModelDemand,
    ModelId,
    ReplicaId,
    ReplicaLoad,
    RouteTable,
)

PROMPT, OUTPUT = 1_000, 200
"""Tokens of each request."""
ANSWER_S = 2.5
ADDRESS = Address("h", 1)
LATENCY = LatencySummary(100, e2e_p95_s=3.0, ttft_p90_s=0.4, tpot_p90_s=0.012)
SAMPLES = 1_000
"""Of each law of each kind of replica."""
STEP_S = 5.0
"""From one report to the next of the time before the measured one."""


class Fleet:
    """So many models with the same settings, and so many replicas of each."""

    def __init__(
        self, models: int, each: int, spec: FleetModel, caps: FleetLimits, nodes: tuple[Node, ...]
    ) -> None:
        self._brain = FleetController()
        self._table = RouteTable(0, (), ())
        self._now_s = 0.0
        self.turns_s: list[float] = []
        """CPU time of each turn."""
        self.pages_s = 0.0
        """CPU time of all pages of engines: they start no turn."""
        self._models = [ModelId(f"m{number:03}") for number in range(models)]
        self._arrived = dict.fromkeys(self._models, 0.0)
        self._capacities = tuple(figures for model in self._models for figures in _learned(model, spec))
        self._to_come: list[ReplicaSeen] = []
        """What becomes of orders."""
        free = [Place(node.name, (gpu.index,)) for node in reversed(nodes) for gpu in node.gpus]
        for model in self._models:
            for number in range(1, each + 1):
                place = free.pop() if free else None
                self._on(ReplicaAdopted(ReplicaId(f"{model}-{number}"), model, ADDRESS, place=place))
        self._on(FleetConfigured(dict.fromkeys(self._models, spec), caps, nodes))

    @property
    def replicas(self) -> int:
        """In the table now."""
        return len(self._table.routes)

    def live_through(self, until_s: float, load: Callable[[int, float], int]) -> None:
        """The time before the measured one, in larger steps; ``load`` is requests in flight by model and moment."""
        while self._now_s < until_s:
            self.step(STEP_S, load)
        self.turns_s.clear()
        self.pages_s = 0.0

    def step(self, span_s: float, load: Callable[[int, float], int]) -> None:
        """Pages, a report and a tick; then, each at a moment of its own, what becomes of orders."""
        self._now_s += span_s
        now_s = self._now_s
        self._pages()
        self._on(self._report(span_s, load))
        self._on(Tick())
        while self._to_come:
            self._now_s = min(self._now_s + 0.001, now_s + 0.9 * span_s)
            self._on(self._to_come.pop(0))
        self._now_s = now_s

    def _on(self, event: object) -> None:
        began_s = time.process_time()
        effects = self._brain.on(event, self._now_s)  # type: ignore[arg-type]
        self.turns_s.append(time.process_time() - began_s)
        for effect in effects:
            match effect:
                case Launch():
                    self._to_come.append(ReplicaSeen(effect.replica_id, Seen.READY, ADDRESS))
                case Stop():
                    self._to_come.append(ReplicaSeen(effect.replica_id, Seen.EXITED))
                case PublishRoutes():
                    self._table = effect.table

    def _pages(self) -> None:
        pages = [EngineReported(route.replica_id, 5, 0, 0.3) for route in self._table.routes]
        began_s = time.process_time()
        for page in pages:
            self._brain.on(page, self._now_s)
        self.pages_s += time.process_time() - began_s

    def _report(self, span_s: float, load: Callable[[int, float], int]) -> DemandReported:
        demands = []
        for number, model in enumerate(self._models):
            there = load(number, self._now_s)
            self._arrived[model] += span_s * there / ANSWER_S
            came = int(self._arrived[model])
            ended = max(0, came - there)
            tokens = there * (PROMPT + OUTPUT // 2)
            demands.append(
                ModelDemand(
                    model, 0, there, there, 0, tokens, came, ended, ended * OUTPUT, 0.0, self._now_s,
                    LATENCY, came * PROMPT,
                )
            )  # fmt: skip
        loads = tuple(
            ReplicaLoad(route.replica_id, *((4, 4_000) if route.state is State.SERVING else (0, 0)))
            for route in self._table.routes
        )
        return DemandReported(
            DemandReport("gateway", self._table.version, tuple(demands), loads, self._capacities)
        )


def _learned(model: ModelId, spec: FleetModel) -> list[CapacityFigures]:
    """Of each way to run it; one with more slots does each step sooner."""
    ways = {"": spec} | {one.name: spec.as_variant(one) for one in spec.variants}
    found = []
    for name, each in ways.items():
        speed = (each.slots / spec.slots) ** 0.5
        prefill, decode = (
            (k0 / speed, k1 / speed, k2 / speed) for k0, k1, k2 in (PREFILL_PRIOR, DECODE_PRIOR)
        )
        gpu = route_gpu(name, each)
        found.append(CapacityFigures(model, spec.engine, gpu, prefill, decode, SAMPLES, SAMPLES, 200_000.0))
    return found
