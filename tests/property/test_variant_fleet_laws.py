"""Fleets of models with variants under random events: every cap holds at every launch, whatever is mixed with what."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.effects import Decision, Launch, PublishRoutes, Stop
from tidegate.core.events import (
    DemandReported,
    FleetConfigured,
    ReplicaAdopted,
    ReplicaSeen,
    ScaledByHand,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen, State
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel, Restarts, Variant
from tidegate.core.types import Address, DemandReport, ModelDemand, ModelId, ReplicaId, ReplicaLoad

A, B = ModelId("a"), ModelId("b")
SMALL = Variant("small", slots=1, gpus=1, price_per_h=1.3, expected_start_s=30.0)
HUGE = Variant("huge", slots=16, gpus=4, price_per_h=7.0, max_replicas=1)
SPEC = FleetModel(
    "vllm",
    slots=4,
    scaling=Scaling(max_replicas=5, window_s=2, scale_down_delay_s=4),
    restarts=Restarts(backoff_first_s=1, backoff_max_s=4, give_up_after=3, retry_failed_s=16),
    gpus=2,
    price_per_h=3.0,
    start_deadline_s=16,
    drain_deadline_s=8,
    variants=(SMALL, HUGE),
)
MODELS = {
    A: SPEC,
    B: replace(SPEC, scaling=replace(SPEC.scaling, policy=ScalingPolicy.TIDAL, min_replicas=1)),
}
OTHER = {A: replace(SPEC, variants=(replace(SMALL, command_hash="x"),)), B: replace(SPEC, variants=())}
LIMITS = FleetLimits(max_replicas=7, max_gpus=9, max_starts_per_hour=40, max_cost_per_h=14.0)


class Onlooker:
    """Plays events, and counts what was launched until it is seen to have ended."""

    def __init__(self):
        self.brain = FleetController()
        self.now_s = 0.0
        self.table = None
        self.alive = {}
        self.desired = {}
        self.launches = []

    def on(self, event):
        if isinstance(event, ReplicaSeen) and event.seen is Seen.EXITED:
            self.alive.pop(event.replica_id, None)
        for effect in self.brain.on(event, self.now_s):
            match effect:
                case Launch():
                    self.alive[effect.replica_id] = effect.variant
                    self.launches.append(self.now_s)
                    self.check()
                case PublishRoutes():
                    self.table = effect.table
                case Decision():
                    self.desired[effect.model] = effect.desired
                    if effect.variants is not None:
                        assert sum(effect.variants.values()) == effect.desired
                case Stop():
                    pass

    def check(self):
        sizes = [
            {"": (2, 3.0), "small": (1, 1.3), "huge": (4, 7.0)}[variant] for variant in self.alive.values()
        ]
        assert len(sizes) <= LIMITS.max_replicas
        assert sum(gpus for gpus, _ in sizes) <= LIMITS.max_gpus
        assert sum(price for _, price in sizes) <= LIMITS.max_cost_per_h + 1e-6
        assert sum(self.now_s - 3600 < at for at in self.launches) <= LIMITS.max_starts_per_hour

    def report(self, busy, left):
        demands = tuple(
            ModelDemand(m, 0, n, n, 0, 0, 0, 0, 0, 0.0, None) for m, n in zip((A, B), busy, strict=True)
        )
        routes = self.table.routes if self.table else ()
        loads = tuple(ReplicaLoad(route.replica_id, left, left) for route in routes)
        version = self.table.version if self.table else 0
        self.on(DemandReported(DemandReport("g", version, demands, loads)))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from([0.25, 1.0, 3.0, 11.0])),
        st.tuples(st.just("report"), st.tuples(st.integers(0, 40), st.integers(0, 40)), st.integers(0, 1)),
        st.tuples(
            st.just("seen"),
            st.integers(0, 9),
            st.sampled_from(
                [Seen.READY, Seen.READY, Seen.READY, Seen.EXITED, Seen.GAVE_UP, Seen.UNRESPONSIVE]
            ),
        ),
        st.tuples(
            st.just("adopt"), st.integers(1, 40), st.sampled_from([A, B]), st.sampled_from(["", "small"])
        ),
        st.tuples(st.just("hand"), st.sampled_from([A, B]), st.none() | st.integers(0, 9), st.booleans()),
        st.tuples(st.just("configure"), st.sampled_from([MODELS, OTHER])),
    ),
    max_size=70,
)


@given(STEPS)
def test_every_cap_holds_at_every_launch_and_nobody_has_more_than_was_decided(steps):
    """One more at most, beside one that was started under former settings and goes once the other serves."""
    fleet, beside = Onlooker(), 0
    fleet.on(FleetConfigured(MODELS, LIMITS))
    for step in steps:
        match step:
            case ("wait", span_s):
                fleet.now_s += span_s
            case ("report", busy, left):
                fleet.report(busy, left)
            case ("seen", which, seen):
                known = sorted(fleet.alive)
                if known:
                    fleet.on(ReplicaSeen(known[which % len(known)], seen, Address("h", 1), "words"))
            case ("adopt", number, model, variant):
                replica_id = ReplicaId(f"{model}-{number}")
                if replica_id not in fleet.alive:
                    fleet.alive[replica_id] = variant
                    fleet.on(ReplicaAdopted(replica_id, model, Address("h", 1), variant=variant))
            case ("hand", model, replicas, at_least):
                fleet.on(ScaledByHand(model, replicas, 20.0, at_least))
            case ("configure", models):
                fleet.on(FleetConfigured(models, LIMITS))
                beside = 1
        fleet.on(Tick())
        assert all(number <= 5 for number in fleet.desired.values())
        gone = (State.DRAINING, State.STOPPED, State.FAILED)
        for view in fleet.brain.state(fleet.now_s).models:
            there = sum(replica.state not in gone for replica in view.replicas)
            assert there <= fleet.desired[view.model] + beside


@given(st.integers(1, 60), st.integers(0, 60))
def test_left_alone_it_comes_to_rest_with_what_is_needed_served(first, then):
    """Whatever was there before: after a while nothing moves, and the slots that serve hold the requests."""
    fleet = Onlooker()
    spec = replace(SPEC, scaling=replace(SPEC.scaling, max_replicas=40), gpus=0)
    variants = tuple(replace(variant, gpus=0) for variant in SPEC.variants)
    fleet.check = lambda: None
    fleet.on(FleetConfigured({A: replace(spec, variants=variants)}, FleetLimits(max_starts_per_hour=1000)))
    for busy in (first, then):
        moved = []
        for _ in range(60):
            fleet.now_s += 1.0
            before = dict(fleet.alive)
            fleet.report((busy, 0), 0)
            fleet.on(Tick())
            for route in fleet.table.routes:
                if route.state is State.REQUESTED:
                    fleet.on(ReplicaSeen(route.replica_id, Seen.READY, Address("h", 1)))
            for replica in fleet.brain.state(fleet.now_s).models[0].replicas:
                if replica.state is State.STOPPED and replica.replica_id in fleet.alive:
                    fleet.on(ReplicaSeen(replica.replica_id, Seen.EXITED))
            served = sum(r.slots for r in fleet.table.routes if r.state is State.SERVING)
            moved.append(before != fleet.alive)
        assert served >= busy
        assert not any(moved[-10:])
