"""Stories of zero and back. Each plays by itself and says what is wrong, or nothing."""

from __future__ import annotations

from dataclasses import replace

from tidegate.conformance.pair import HERE, Pair
from tidegate.core.effects import Launch, PublishRoutes, Stop, Wake
from tidegate.core.events import (
    ClientGone,
    DemandReported,
    FleetConfigured,
    ReplicaAdopted,
    ReplicaSeen,
    RequestArrived,
)
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import (
    DispatchConfig,
    FleetLimits,
    FleetModel,
    Pool,
    QueueLimits,
    TrafficShift,
    Variant,
)
from tidegate.core.tiers import Tier
from tidegate.core.types import DemandReport, ModelDemand, ModelId, ReplicaId, ReplicaLoad, RequestId

FIRST = ReplicaId("m-1")


def listening_is_not_ready() -> str | None:
    """Its port is open for a minute before its model is loaded."""
    pair = Pair()
    pair.ask("r")
    pair.now_s = 5.0
    for stage in (Seen.LOADING, Seen.STARTING):
        pair.to_controller(ReplicaSeen(FIRST, stage, HERE))
        pair.pass_time(pair.now_s + 30.0)
    if pair.sent:
        return "sent to a replica that was still loading"
    pair.ready(FIRST)
    return None if pair.sent else "not sent when it was ready"


def ready_is_noticed() -> str | None:
    """From ready to sent."""
    pair = Pair()
    pair.ask("r")
    pair.pass_time(3.0)
    pair.now_s = 3.4
    pair.ready(FIRST)
    if not pair.sent:
        return "not sent when it was ready"
    took_s = pair.sent[0][0] - 3.4
    return f"sent {took_s:.1f} s after it was ready" if took_s > 0.1 else None


def bounded_hold() -> str | None:
    """20,000 requests for a cold model, and one for another."""
    cold, other = ModelId("cold"), ModelId("other")
    pair = Pair(cold, other, config=DispatchConfig(queue=QueueLimits(max_requests=1_000)))
    pair.to_controller(ReplicaAdopted(ReplicaId("other-1"), other, HERE))
    for number in range(20_000):
        pair.gateway.on(_asking(number, cold), 1.0)
    pair.now_s = 1.0
    pair.ask("beside", model=other)
    pair.ask("one more", model=cold)
    held = next(view for view in pair.controller.state(1.0).models if view.model == cold).queued
    if held > 1_000:
        return f"{held} held, 1,000 are allowed"
    if not any(request_id == "beside" for _, request_id, _ in pair.sent):
        return "the other model's request was not served"
    refusal = pair.rejected[-1][1]
    return None if refusal.retry_after_s else "a refusal does not say when to come back"


def _asking(number: int, model: ModelId) -> RequestArrived:
    return RequestArrived(RequestId(f"r{number}"), model, 100, 50, 1_000, 601.0)


def loads_longer_than_the_client_waits() -> str | None:
    """60 s of patience, 100 s to start."""
    pair = Pair(load_s=100.0)
    pair.ask("r", within_s=60.0)
    if not pair.rejected:
        return "held, although no replica can be ready in time"
    at_s, refusal = pair.rejected[0]
    if at_s > 0.1:
        return f"refused after {at_s:.0f} s"
    if refusal.retry_after_s is None or not 60.0 < refusal.retry_after_s <= 110.0:
        return f"told to come back in {refusal.retry_after_s} s, where 100 are right"
    pair.pass_time(5.0)
    return None if pair.launched else "nothing was started for it"


def wakes_the_cheapest() -> str | None:
    """Three ways to run a model: as it is, cheaper and slow to start, dearer and no sooner there. And two models behind one
    name."""
    cheap = Variant("cheap", slots=4, price_per_h=1.0, expected_start_s=100.0)
    dear = Variant("dear", slots=8, price_per_h=9.0, expected_start_s=30.0)
    for waits_s, right in ((600.0, "cheap"), (60.0, "")):
        spec = FleetModel("engine", price_per_h=3.0, variants=(cheap, dear), max_wait_s=waits_s)
        pair = Pair(spec=spec, load_s=30.0)
        pair.ask("r", within_s=waits_s)
        pair.pass_time(20.0)
        if list(pair.variants.values()) != [right]:
            started = ", ".join(name or "default" for name in pair.variants.values())
            return f"{started or 'none'} started, where requests wait {waits_s:.0f} s"
    small, large, name = ModelId("small"), ModelId("large"), ModelId("chat")
    pair = Pair(small, large, shifts={name: TrafficShift(((small, 1.0), (large, 1.0)))})
    pair.ask("r", model=name)
    pair.pass_time(20.0)
    return None if len(pair.launched) == 1 else f"{len(pair.launched)} were started"


def one_writer() -> str | None:
    """A short request now and then at zero, and starts that take four times the idle time. Who wakes a replica is gone after
    5 s; who comes 50 s later finds it there."""
    pair = Pair(load_s=40.0, scale_down_delay_s=10.0, window_s=1.0)
    for number in range(6):
        pair.ask(f"gone-{number}")
        pair.pass_time(pair.now_s + 5.0)
        pair.to_gateway(ClientGone(RequestId(f"gone-{number}")))
        pair.pass_time(pair.now_s + 35.0)
        if pair.stopped[number:]:
            return f"{pair.stopped[-1][1]} stopped before it had served"
        pair.ready(pair.launched[-1][1])
        pair.pass_time(pair.now_s + 5.0)
        pair.ask(f"r{number}")
        pair.pass_time(pair.now_s + 1.0)
        pair.answer(f"r{number}")
        pair.pass_time(pair.now_s + 200.0)
    if len(pair.launched) != 6:
        return f"{len(pair.launched)} were started, one each time is right"
    return None if len(pair.sent) == 6 else f"{len(pair.sent)} of 6 were sent"


def sleeper_without_its_device() -> str | None:
    """One GPU. A model sleeps beside it, another one's replica has it, and a request comes for the sleeper."""
    asleep, busy = ModelId("asleep"), ModelId("busy")
    controller = FleetController()
    scaling = Scaling(max_replicas=1, concurrency_target=4.0, scale_down_delay_s=30.0, window_s=1.0)
    spec = FleetModel(
        "engine", slots=4, gpus=1, scaling=scaling, expected_start_s=85.0, start_deadline_s=300.0
    )
    sleeper = replace(spec, pool=Pool(max_sleeping=1, expected_wake_s=4.0))
    controller.on(ReplicaAdopted(ReplicaId("asleep-1"), asleep, HERE, tier=Tier.SLEEPING), 0.0)
    controller.on(ReplicaAdopted(ReplicaId("busy-1"), busy, HERE), 0.0)
    controller.on(FleetConfigured({asleep: sleeper, busy: spec}, FleetLimits(max_gpus=1)), 0.0)
    version, told = 0, None
    for second in range(1, 121):
        now_s = float(second)
        is_free = second >= 40
        report = _busy_until_40_s(asleep, busy, version, now_s)
        effects = list(controller.on(DemandReported(report), now_s))
        for effect in effects:  # It grows while what was stopped is seen to end.
            match effect:
                case PublishRoutes(table):
                    version = table.version
                    told = next(route for route in table.models if route.model == asleep)
                case Stop(replica_id, _):
                    effects += controller.on(ReplicaSeen(replica_id, Seen.EXITED, None, "stopped"), now_s)
                case Launch(replica_id, _, _):
                    return f"{replica_id} is started cold, where one sleeps"
                case Wake():
                    return None if is_free else "woken onto a GPU that another replica has"
                case _:
                    pass
        if not is_free and told is not None and told.expected_ready_s is not None:
            return f"{told.expected_ready_s - now_s:.0f} s are promised while its GPU is taken"
    return "not woken when its GPU was free"


def _busy_until_40_s(asleep: ModelId, busy: ModelId, version: int, now_s: float) -> DemandReport:
    open_ = 2 if now_s < 40 else 0
    demands = (
        ModelDemand(asleep, 1, 0, 1, 150, 0, 1, 0, 0, now_s, 0.5),
        ModelDemand(busy, 0, open_, open_, 0, 100 * open_, open_, 0, 0, 0.0, min(now_s, 40.0)),
    )
    loads = (
        ReplicaLoad(ReplicaId("asleep-1"), 0, 0),
        ReplicaLoad(ReplicaId("busy-1"), open_, 100 * open_),
    )
    return DemandReport("gateway", version, demands, loads)
