"""Laws of the whole FleetController, over random days: load, crashes, silence, bad figures, new settings."""

import itertools
import math
import re
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from tidegate.core.effects import Decision, Launch, PublishRoutes, Stop, WakeAt
from tidegate.core.events import (
    DemandReported,
    FleetConfigured,
    ReplicaAdopted,
    ReplicaSeen,
    ScaledByHand,
    SignalsReported,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen, State
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel, Restarts
from tidegate.core.types import Address, DemandReport, ModelDemand, ModelId, ReplicaId, ReplicaLoad

A, B = ModelId("a"), ModelId("b")
SPEC = {
    A: FleetModel(
        "llamacpp",
        scaling=Scaling(
            min_replicas=0, max_replicas=4, window_s=2, scale_down_delay_s=4, concurrency_target=4
        ),
        restarts=Restarts(backoff_first_s=1, backoff_max_s=4, give_up_after=3, retry_failed_s=16),
        gpus=1,
        price_per_h=1.0,
        start_deadline_s=16,
        drain_deadline_s=8,
        handover_s=3,
        adopts_ends=True,
        by_hand_for_s=10.0,
    ),
    B: FleetModel(
        "llamacpp",
        scaling=Scaling(
            ScalingPolicy.THRESHOLDS, min_replicas=1, max_replicas=3, window_s=2, scale_down_delay_s=4
        ),
        gpus=2,
        price_per_h=3.0,
        drain_deadline_s=8,
    ),
}
LIMITS = FleetLimits(max_replicas=6, max_gpus=7, max_starts_per_hour=12, max_cost_per_h=9.0)


@dataclass
class Watcher:
    """Plays events and keeps what an onlooker can know: which replicas exist, and what was reported of them."""

    def __init__(self, base_s=0.0):
        self.brain = FleetController()
        self.base_s = base_s
        self.now_s = 0.0
        self.table = None
        self.alive = {}
        self.loads = {}
        self.draining_since = {}
        self.launches = []
        self.desired = {}
        self.limits = LIMITS
        self.gone = set()
        self.silent = set()
        self.log = []

    def play(self, event):
        before = {r.replica_id: r.state for r in self.table.routes} if self.table else {}
        effects = self.brain.on(event, self.base_s + self.now_s)
        self.log.append(effects)
        if isinstance(event, FleetConfigured):
            self.limits = event.limits
        if isinstance(event, ReplicaSeen) and event.seen is Seen.EXITED:
            self.gone.add(event.replica_id)
        if isinstance(event, ReplicaSeen) and event.seen is Seen.UNRESPONSIVE:
            self.silent.add(event.replica_id)
        for effect in effects:
            match effect:
                case Launch():
                    assert effect.replica_id not in self.alive, "an id is never used twice"
                    self.alive[effect.replica_id] = effect.model
                    self.check_room()
                    self.launches.append(self.now_s)
                case Stop():
                    self.check_stop(effect, before)
                case PublishRoutes():
                    self.publish(effect.table)
                case Decision():
                    self.desired[effect.model] = effect.desired
                case WakeAt():
                    assert effect.at_s > self.base_s + self.now_s
        return effects

    def publish(self, table):
        assert self.table is None or table.version >= self.table.version
        assert [r.replica_id for r in table.routes] == sorted(r.replica_id for r in table.routes)
        assert all(r.slots == 0 or (r.state is State.SERVING and r.address) for r in table.routes)
        for route in table.routes:
            if route.state is not State.DRAINING:
                self.draining_since.pop(route.replica_id, None)
            elif route.replica_id not in self.draining_since:
                self.draining_since[route.replica_id] = self.now_s
        self.check_leaves(table)
        self.table = table

    def check_leaves(self, table):
        """Whoever is announced serves, is not overdue, and has somebody to hand over to."""
        for route in table.routes:
            if route.leaves_at_s is None:
                continue
            assert route.state is State.SERVING
            assert self.base_s + self.now_s < route.leaves_at_s <= self.base_s + self.now_s + 3
            assert any(
                other.model == route.model and other.state is State.SERVING and other.leaves_at_s is None
                for other in table.routes
            )

    def check_room(self):
        """What has been launched and not seen to end takes its room, whatever became of it."""
        specs = [SPEC[model] for name, model in self.alive.items() if name not in self.gone]
        limits = self.limits
        assert limits.max_replicas is None or len(specs) <= limits.max_replicas
        assert limits.max_gpus is None or sum(spec.gpus for spec in specs) <= limits.max_gpus
        assert limits.max_cost_per_h is None or sum(s.price_per_h for s in specs) <= limits.max_cost_per_h

    def check_stop(self, order, before):
        if before.get(order.replica_id) not in (State.SERVING, State.DRAINING):
            return
        if order.replica_id in self.silent:
            return  # Its requests will not end.
        since_s = self.draining_since.get(order.replica_id)
        assert since_s is not None, "it drains before it is stopped"
        deadline_s = SPEC[self.alive[order.replica_id]].drain_deadline_s
        assert self.loads.get(order.replica_id) == 0 or self.now_s >= since_s + deadline_s

    def counts(self):
        """Of each model, those that stay."""
        announced = [r.model for r in self.table.routes if r.leaves_at_s is not None] if self.table else []
        view = self.brain.state(self.base_s + self.now_s)
        return {
            m.model: sum(r.state not in (State.DRAINING, State.STOPPED, State.FAILED) for r in m.replicas)
            - announced.count(m.model)
            for m in view.models
        }


def report(watcher, queued, in_flight, tokens, failures=(), *, gateway="g"):
    demands = tuple(
        ModelDemand(
            model, queued, in_flight, queued + in_flight if queued == queued else 0, 0, 0, 0, 0, 0, 0.0, None
        )
        for model in SPEC
    )
    routes = watcher.table.routes if watcher.table else ()
    failures = itertools.cycle(failures or (0,))
    loads = tuple(
        ReplicaLoad(r.replica_id, tokens, tokens, n) for r, n in zip(routes, failures, strict=False)
    )
    watcher.loads = {load.replica_id: load.in_flight for load in loads}
    return DemandReported(
        DemandReport(gateway, watcher.table.version if watcher.table else 0, demands, loads)
    )


counts = st.one_of(st.integers(0, 40), st.just(math.nan), st.just(-3))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from([0.25, 1.0, 3.0, 11.0])),
        st.tuples(
            st.just("report"),
            counts,
            st.integers(0, 30),
            st.integers(0, 2),
            st.lists(st.integers(0, 9), max_size=3),
        ),
        st.tuples(st.just("signals"), st.sampled_from([None, 0.1, 0.95, math.nan])),
        st.tuples(
            st.just("seen"),
            st.integers(0, 9),
            st.sampled_from([Seen.STARTING, Seen.READY, Seen.EXITED, Seen.GAVE_UP, Seen.UNRESPONSIVE]),
        ),
        st.tuples(
            st.just("hand"),
            st.sampled_from([A, B]),
            st.none() | st.integers(0, 9),
            st.sampled_from([1.0, 5.0, 100_000.0, math.nan]),
            st.booleans(),
        ),
        st.tuples(st.just("ended"), st.integers(0, 9)),
        st.tuples(st.just("adopt"), st.integers(1, 40), st.sampled_from([A, B])),
        st.tuples(st.just("configure"), st.sampled_from([FleetLimits(), LIMITS])),
    ),
    max_size=60,
)


def story(watcher, steps):
    """Play the steps, a tick after each; the backend is as moody as the steps say."""
    watcher.play(FleetConfigured(SPEC, LIMITS))
    for step in steps:
        match step:
            case ("wait", span_s):
                watcher.now_s += span_s
            case ("report", queued, in_flight, tokens, failures):
                watcher.play(report(watcher, queued, in_flight, tokens, failures))
            case ("signals", utilization):
                watcher.play(SignalsReported(B, utilization))
            case ("seen", which, seen):
                known = sorted(watcher.alive)
                if known:
                    watcher.play(ReplicaSeen(known[which % len(known)], seen, Address("h", 1), "words"))
            case ("hand", model, replicas, for_s, at_least):
                watcher.play(ScaledByHand(model, replicas, for_s, at_least))
            case ("ended", which):
                known = sorted(watcher.alive)
                if known:
                    gone = known[which % len(known)]
                    watcher.play(ReplicaSeen(gone, Seen.EXITED, None, "words", by_hand=True))
            case ("adopt", number, model):
                replica_id = ReplicaId(f"{model}-{number}")
                if replica_id not in watcher.alive:
                    watcher.alive[replica_id] = model
                    watcher.play(ReplicaAdopted(replica_id, model, Address("h", 1)))
            case ("configure", limits):
                watcher.play(FleetConfigured(SPEC, limits))
        watcher.play(Tick())
        yield step


@given(steps)
def test_numbers_stay_within_their_limits_and_at_most_one_launch_is_made_for_each(steps):
    watcher, limits = Watcher(), LIMITS
    for step in story(watcher, steps):
        limits = step[1] if step[0] == "configure" else limits
        assert all(watcher.desired[model] <= SPEC[model].scaling.max_replicas for model in SPEC)
        assert all(live <= watcher.desired[model] for model, live in watcher.counts().items())
        if limits is LIMITS:
            wanted = [(watcher.desired[model], SPEC[model]) for model in SPEC]
            assert sum(n for n, _ in wanted) <= LIMITS.max_replicas
            assert sum(n * spec.gpus for n, spec in wanted) <= LIMITS.max_gpus
            assert sum(n * spec.price_per_h for n, spec in wanted) <= LIMITS.max_cost_per_h


@given(steps)
def test_no_more_starts_in_any_hour_than_allowed(steps):
    watcher = Watcher()
    for _ in story(watcher, [step for step in steps if step[0] != "configure"]):
        pass
    watcher.now_s += 1800
    for _ in story(watcher, [step for step in steps if step[0] != "configure"]):
        pass
    for at in watcher.launches:
        assert sum(at - 3600 < other <= at for other in watcher.launches) <= LIMITS.max_starts_per_hour


@given(steps)
def test_nothing_is_stopped_while_requests_are_reported_there_before_its_deadline(steps):
    for _ in story(Watcher(), steps):
        pass  # The watcher checks each order.


@given(steps)
def test_the_same_facts_give_the_same_orders(steps):
    one, other = Watcher(), Watcher()
    assert [*story(one, steps)] == [*story(other, steps)]
    assert repr(one.log) == repr(other.log)


def timeless(because):
    """Without the time of day at which a number by hand ends."""
    return re.sub(r"until (\w+day )?\d\d:\d\d", "until then", because)


def shifted(value, by_s):
    """The orders with the moments in them moved."""
    match value:
        case WakeAt(at_s):
            return WakeAt(at_s + by_s)
        case Decision():
            return (value.model, value.desired, value.before, timeless(value.because), value.held_by)
        case Launch() | Stop():
            return replace(value, because=timeless(value.because))
        case PublishRoutes(table):
            routes = [
                (r, *(None if s is None else s + by_s for s in (r.expected_ready_s, r.leaves_at_s)))
                for r in table.routes
            ]
            return (table.version, [(r.replica_id, r.state, r.slots, *moments) for r, *moments in routes])
        case _:
            return value


@given(steps, st.sampled_from([64.0, 4096.0, 2.0**20]))
def test_adding_a_constant_to_all_times_changes_nothing(steps, by_s):
    one, other = Watcher(), Watcher(by_s)
    assert [*story(one, steps)] == [*story(other, steps)]
    assert [[shifted(e, by_s) for e in turn] for turn in one.log] == [
        [shifted(e, 0) for e in turn] for turn in other.log
    ]


# ---- one model under the concurrency law ----


def alone(**scaling):
    brain = FleetController()
    scaling = {
        "policy": ScalingPolicy.CONCURRENCY,
        "min_replicas": 1,
        "max_replicas": 50,
        "window_s": 1,
    } | scaling
    scaling = {"concurrency_target": 4} | scaling
    brain.on(FleetConfigured({A: FleetModel("llamacpp", scaling=Scaling(**scaling))}, FleetLimits()), 0.0)
    return brain


def load(in_flight, gateway="g"):
    demand = ModelDemand(A, 0, in_flight, in_flight, 0, 0, 0, 0, 0, 0.0, None)
    return DemandReported(DemandReport(gateway, 1, (demand,), ()))


def desired(brain):
    return brain.state(0.0).models[0].desired


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=40))
def test_more_load_never_means_fewer_replicas(pairs):
    low, high = alone(scale_down_delay_s=5), alone(scale_down_delay_s=5)
    for at, pair in enumerate(pairs):
        for brain, in_flight in ((low, min(pair)), (high, max(pair))):
            brain.on(load(in_flight), float(at))
            brain.on(Tick(), float(at))
        assert desired(low) <= desired(high)


@given(st.integers(2, 80), st.integers(0, 7))
@budget(max_examples=25)
def test_a_delay_of_30_s_is_30_s_at_any_tick_interval_to_within_one_tick(eighths, phase):
    every_s = eighths / 8
    brain = alone(scale_down_delay_s=30, window_s=0.5)
    at, lower_since_s = phase / 8, None
    while True:
        lower = at >= 100
        brain.on(load(1 if lower else 20), at)
        brain.on(Tick(), at)
        if lower and lower_since_s is None:
            lower_since_s = at
        if lower and desired(brain) == 1:
            break
        at += every_s
    # The window's last high sample leaves half a second after it was taken: one tick, or none.
    assert 30 <= at - lower_since_s <= 30 + 2 * every_s + 0.5


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=10),
    st.lists(st.sampled_from(["silence", "nan", "negative", "absent"]), min_size=1, max_size=60),
)
def test_it_never_shrinks_on_missing_or_senseless_data(loads, outage):
    brain = alone(scale_down_delay_s=3)
    for at, in_flight in enumerate(loads):
        brain.on(load(in_flight), float(at))
        brain.on(Tick(), float(at))
    at, standing = float(len(loads)) + 11, 0
    brain.on(load(math.nan), at)
    standing = desired(brain)
    for kind in outage:
        at += 1.5
        match kind:
            case "nan":
                brain.on(load(math.nan), at)
            case "negative":
                brain.on(load(-1), at)
            case "absent":
                brain.on(DemandReported(DemandReport("g", 1, (), ())), at)
        brain.on(Tick(), at)
        assert desired(brain) >= standing
        standing = desired(brain)
