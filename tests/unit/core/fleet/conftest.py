"""A fleet made of a controller and a hand: no backend, no gateway, no clock but the one in the story."""

import pytest

from tidegate.core.effects import Decision, Demote, Launch, Promote, PublishRoutes, Sleep, Stop, Wake, WakeAt
from tidegate.core.events import (
    DemandReported,
    FleetConfigured,
    ReplicaAdopted,
    ReplicaSeen,
    SignalsReported,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel, Pool, Restarts
from tidegate.core.tiers import Tier
from tidegate.core.types import Address, DemandReport, ModelDemand, ModelId, ReplicaId, ReplicaLoad

M = ModelId("m")


class World:
    """Remembers every order and what the controller said last."""

    def __init__(self):
        self.brain = FleetController()
        self.effects = []
        self.turns = []
        self.orders = []
        self.places = {}
        self.table = None
        self.decisions = []
        self.wake_s = None

    # ---- what happens ----

    def on(self, event, at):
        self.effects = self.brain.on(event, float(at))
        self.turns.append((at, event, self.effects))
        for effect in self.effects:
            match effect:
                case Launch():
                    self.orders.append((at, "launch", effect.replica_id))
                    self.places[effect.replica_id] = effect.place and (effect.place.node, effect.place.gpus)
                case Stop():
                    self.orders.append((at, "stop", effect.replica_id))
                case Promote() | Demote() | Sleep() | Wake():
                    self.orders.append((at, type(effect).__name__.lower(), effect.replica_id))
                case PublishRoutes():
                    self.table = effect.table
                case Decision():
                    self.decisions.append(effect)
                case WakeAt():
                    self.wake_s = effect.at_s
        return self.effects

    def configure(self, at, models, nodes=(), **limits):
        return self.on(FleetConfigured(models, FleetLimits(**limits), tuple(nodes)), at)

    def report(self, at, queued=0, in_flight=0, *, gateway="g", loads=None, model=M, version=None, **more):
        peak = more.pop("peak", queued + in_flight)
        failing = more.pop("failing", {})
        demand = ModelDemand(
            model=model,
            queued=queued,
            in_flight=in_flight,
            peak=peak,
            queued_tokens=0,
            in_flight_tokens=0,
            arrivals_total=more.pop("arrivals", 0),
            ended_total=0,
            output_tokens_total=0,
            oldest_wait_s=0.0,
            last_active_s=more.pop("last_active", None),
            **more,
        )
        version = (self.table.version if self.table else 0) if version is None else version
        replicas = tuple(ReplicaLoad(r.replica_id, 0, 0) for r in (self.table.routes if self.table else ()))
        if loads is not None:
            replicas = tuple(ReplicaLoad(ReplicaId(r), n, 100 * n) for r, n in loads.items())
        replicas = tuple(
            ReplicaLoad(r.replica_id, r.in_flight, r.tokens, failing.get(r.replica_id, 0)) for r in replicas
        )
        return self.on(DemandReported(DemandReport(gateway, version, (demand,), replicas)), at)

    def tick(self, at):
        return self.on(Tick(), at)

    def ready(self, at, replica_id, port=9000):
        return self.on(ReplicaSeen(ReplicaId(replica_id), Seen.READY, Address("127.0.0.1", port)), at)

    def seen(self, at, replica_id, seen, detail=""):
        return self.on(ReplicaSeen(ReplicaId(replica_id), seen, detail=detail), at)

    def exited(self, at, replica_id, detail=""):
        return self.seen(at, replica_id, Seen.EXITED, detail)

    def adopt(self, at, replica_id, model=M, place=None, tier=Tier.SERVING):
        address = Address("127.0.0.1", 9000)
        return self.on(ReplicaAdopted(ReplicaId(replica_id), model, address, tier, place=place), at)

    def signals(self, at, gpu_utilization=None, model=M):
        return self.on(SignalsReported(model, gpu_utilization), at)

    def run(self, since, until, every=1.0, **report):
        """A report and a tick at a steady rate, from ``since`` up to and with ``until``."""
        at = since
        while at <= until:
            self.report(at, **report)
            self.tick(at)
            at += every

    # ---- what came of it ----

    def ordered(self, what):
        return [name for _, order, name in self.orders if order == what]

    def desired(self, model=M):
        return next(view.desired for view in self.brain.state(0.0).models if view.model == model)

    def states(self):
        return {route.replica_id: route.state.value for route in self.table.routes}

    def slots(self):
        return {route.replica_id: route.slots for route in self.table.routes}

    def model_route(self, model=M):
        return next(route for route in self.table.models if route.model == model)

    def view(self, at, model=M):
        return next(view for view in self.brain.state(at).models if view.model == model)


def model(
    *,
    restarts=None,
    gpus=0,
    kind="",
    memory=None,
    price=0.0,
    slots=8,
    start_deadline=600.0,
    drain_deadline=120.0,
    start=None,
    pool=None,
    handover=0.0,
    **s,
):
    """Settings in the words of the stories; the rest are the product's defaults.

    All but the law: the stories are about what is around it, and by concurrency a number is plain to see.
    """
    s.setdefault("max_replicas", 10)
    s.setdefault("policy", ScalingPolicy.CONCURRENCY)
    return FleetModel(
        engine="llamacpp",
        slots=slots,
        scaling=Scaling(**s),
        restarts=restarts or Restarts(),
        gpus=gpus,
        kind=kind,
        memory_bytes=memory,
        price_per_h=price,
        start_deadline_s=start_deadline,
        drain_deadline_s=drain_deadline,
        handover_s=handover,
        expected_start_s=start,
        pool=Pool(**(pool or {})),
    )


@pytest.fixture
def world():
    return World()


@pytest.fixture
def new_world():
    return World


@pytest.fixture
def settings():
    """Makes a model's settings."""
    return model
