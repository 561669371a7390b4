"""What a run is made of, besides its trace. Everything is frozen, so a run can be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.nodes import Node
from tidegate.core.settings import DispatchConfig, FleetLimits, FleetModel
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import ColdStart
from tidegate.engine.latency import StepLaw
from tidegate.engine.sequence import Limits
from tidegate.sim.faults import Fault


@dataclass(frozen=True, slots=True)
class Slo:
    """The promise: a request keeps it when it keeps both parts."""

    ttft_s: float = 2.0
    tpot_s: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetup:
    """One model: how it is dispatched and scaled, and what its engines are like."""

    dispatch: DispatchConfig
    fleet: FleetModel
    limits: Limits
    law: StepLaw
    cold_start: ColdStart = ColdStart()
    running: int | None = None
    """Replicas that serve when the trace begins; None: the policy's minimum, of a variant none."""
    silent_after_s: float = 10.0
    """A replica that answers nothing for so long is seen as unresponsive."""
    variants: Mapping[str, ModelSetup] = field(default_factory=dict)
    """What engines of each of the model's variants are like; of ``fleet`` only what a replica takes has a meaning there."""

    @property
    def ways(self) -> dict[str, ModelSetup]:
        """The model's own, which has no name here, and its variants."""
        return {"": self, **self.variants}

    @property
    def at_first(self) -> list[tuple[str, ModelSetup]]:
        """The variant of each replica that serves when the trace begins."""
        own = self.fleet.scaling.min_replicas if self.running is None else self.running
        counts = {name: way.running or 0 for name, way in self.variants.items()}
        return [(name, self.ways[name]) for name, count in {"": own, **counts}.items() for _ in range(count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The nodes that replicas are put on. A replica whose GPUs are not free waits for them."""

    nodes: int | None = None
    """None: as many as are asked for."""
    gpus_per_node: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraping:
    """How metrics get from the engines to the controller."""

    every_s: float = 15.0
    """Prometheus' usual interval, and llm-d's for its rules."""
    lag_s: float = 0.5
    loss_ratio: float = 0.0
    """Share of the pages that never arrive."""
    window_s: float = 60.0
    """Latency percentiles are over this span."""
    latency_ratio: float = 1.0
    """What the controller is told of a latency, by what it was. Above 1 it reads high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything but the trace and the seed."""

    models: Mapping[ModelId, ModelSetup]
    fleet: FleetLimits = FleetLimits()
    slo: Slo = Slo()
    machines: Machines = Machines()
    nodes: tuple[Node, ...] = ()
    """Those that the controller knows: it says where each replica goes. Empty: it counts GPUs, and ``machines`` says what
    becomes of that."""
    scraping: Scraping = Scraping()
    faults: tuple[Fault, ...] = field(default=())
    report_every_s: float = 1.0
    """As the gateway does."""
    request_timeout_s: float = 600.0
    """For requests whose trace names no deadline."""
    max_output_tokens: int | None = None
    """What clients ask for at most. Traces do not record it, and the true length is nobody's to know."""
    settle_s: float = 0.0
    """After the last request has ended, how long to wait for the fleet to shrink to its minimum."""
