"""Both brains joined by hand, as in one process, with a backend that starts replicas in a stated time."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import Launch, PublishRoutes, Record, Reject, Report, Send, Stop
from tidegate.core.events import (
    DemandReported,
    FleetConfigured,
    ModelsConfigured,
    ReplicaAdopted,
    ReplicaSeen,
    ReportDue,
    RequestArrived,
    RouteTableChanged,
    Tick,
    UpstreamEnded,
)
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import DispatchConfig, FleetLimits, FleetModel, TrafficShift
from tidegate.core.types import Address, ModelId, ReplicaId, RequestId

M = ModelId("m")
HERE = Address("127.0.0.1", 9000)


class Pair:
    """A gateway's brain and the controller's. Every order is written down with its moment."""

    def __init__(
        self,
        *models: ModelId,
        config: DispatchConfig = DispatchConfig(),  # noqa: B008
        shifts: dict[ModelId, TrafficShift] | None = None,
        load_s: float | None = 30.0,
        slots: int = 4,
        running: tuple[str, ...] = (),
        spec: FleetModel = FleetModel("engine"),  # noqa: B008
        **scaling: float,
    ) -> None:
        self.gateway, self.controller = Dispatcher(), FleetController()
        self.sent: list[tuple[float, RequestId, ReplicaId]] = []
        self.rejected: list[tuple[float, Reject]] = []
        self.ended: list[Record] = []
        self.launched: list[tuple[float, ReplicaId]] = []
        self.variants: dict[ReplicaId, str] = {}
        """In which way of its model each was launched."""
        self.stopped: list[tuple[float, ReplicaId, str]] = []
        self.now_s = 0.0
        names = models or (M,)
        plan = replace(Scaling(max_replicas=4, concurrency_target=float(slots)), **scaling)  # type: ignore[arg-type]
        spec = replace(spec, slots=slots, scaling=plan, expected_start_s=load_s)
        self.adopt(*running)
        self.to_gateway(ModelsConfigured(dict.fromkeys(names, config), shifts=shifts or {}))
        self.to_controller(FleetConfigured(dict.fromkeys(names, spec), FleetLimits()))

    def to_gateway(self, event: object) -> None:
        """A fact for the gateway's brain."""
        for effect in self.gateway.on(event, self.now_s):  # type: ignore[arg-type]
            match effect:
                case Send(request_id, replica_id, _):
                    self.sent.append((self.now_s, request_id, replica_id))
                case Reject():
                    self.rejected.append((self.now_s, effect))
                case Record():
                    self.ended.append(effect)
                case Report(report):
                    self.to_controller(DemandReported(report))
                case _:
                    pass

    def to_controller(self, event: object) -> None:
        """A fact for the controller."""
        for effect in self.controller.on(event, self.now_s):  # type: ignore[arg-type]
            match effect:
                case PublishRoutes(table):
                    self.to_gateway(RouteTableChanged(table))
                case Launch(replica_id, _, _, variant):
                    self.launched.append((self.now_s, replica_id))
                    self.variants[replica_id] = variant
                case Stop(replica_id, because):
                    self.stopped.append((self.now_s, replica_id, because))
                    self.to_controller(ReplicaSeen(replica_id, Seen.EXITED, None, "stopped"))
                case _:
                    pass

    def pass_time(self, until_s: float) -> None:
        """Reports and ticks each second."""
        while self.now_s < until_s:
            self.now_s += 1.0
            self.to_gateway(Tick())
            self.to_gateway(ReportDue())
            self.to_controller(Tick())

    def ask(
        self, name: str, *, model: ModelId = M, within_s: float = 600.0, adapter: str | None = None
    ) -> None:
        """A request of 100 tokens comes."""
        self.to_gateway(
            RequestArrived(RequestId(name), model, 100, 50, 1_000, self.now_s + within_s, adapter=adapter)
        )
        self.to_gateway(ReportDue())

    def answer(self, name: str) -> None:
        """Its answer is complete."""
        self.to_gateway(UpstreamEnded(RequestId(name), 200, 100, 0, 50))

    def adopt(self, *names: str) -> None:
        """These run already."""
        for name in names:
            self.to_controller(ReplicaAdopted(ReplicaId(name), M, HERE))

    def ready(self, name: str) -> None:
        """A token has come out of it."""
        self.to_controller(ReplicaSeen(ReplicaId(name), Seen.READY, HERE))
