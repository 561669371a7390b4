"""Laws of a fleet whose nodes are known: no GPU ever carries more than it has, whatever happens to whom and when."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from tidegate.core.effects import Launch, PublishRoutes, Sleep, Stop, Wake
from tidegate.core.events import DemandReported, FleetConfigured, ReplicaAdopted, ReplicaSeen, Tick
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Gpu, Node, Place
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import FleetLimits, FleetModel, Pool, Restarts, Variant
from tidegate.core.tiers import Tier
from tidegate.core.types import Address, DemandReport, ModelDemand, ModelId, ReplicaId, ReplicaLoad

SHARED, WHOLE, TWO, SLEEPER, MIXED = (
    ModelId(name) for name in ("shared", "whole", "two", "sleeper", "mixed")
)
SCALING = Scaling(max_replicas=5, window_s=1, scale_down_delay_s=3, concurrency_target=1)
POOL = Pool(max_warm=1, max_sleeping=2, sleep_after_s=1, warm_ttl_s=20, sleeping_ttl_s=60)
PLAIN = FleetModel(
    "vllm",
    scaling=SCALING,
    restarts=Restarts(backoff_first_s=1, backoff_max_s=2, retry_failed_s=8),
    gpus=1,
    start_deadline_s=30,
    drain_deadline_s=5,
)
MODELS = {
    SHARED: replace(PLAIN, memory_bytes=30, pool=POOL),
    WHOLE: replace(PLAIN, scaling=replace(SCALING, min_replicas=1)),
    TWO: replace(PLAIN, gpus=2, kind="h100"),
    SLEEPER: replace(PLAIN, pool=replace(POOL, min_warm=1)),
    MIXED: replace(
        PLAIN,
        kind="h100",
        slots=16,
        price_per_h=4.0,
        variants=(Variant("small", slots=8, gpus=1, kind="l40s", price_per_h=1.0, memory_bytes=40),),
    ),
}
OTHERS = MODELS | {
    SHARED: replace(MODELS[SHARED], memory_bytes=50, command_hash="more"),
    TWO: replace(MODELS[TWO], gpus=3, command_hash="three"),
}
N1 = Node("n1", tuple(Gpu(index, 80, "h100") for index in range(3)))
N2 = Node("n2", (Gpu(0, 80, "l40s"), Gpu(1, None, "l40s")))
SETTINGS = {"first": MODELS, "other": OTHERS}
NODES = {"both": (N1, N2), "one": (N1,)}
GPUS = {(node.name, gpu.index): gpu for node in (N1, N2) for gpu in node.gpus}


class Machine:
    """What stands where, kept by somebody who only sees orders and ends."""

    def __init__(self):
        self.brain = FleetController()
        self.now_s = 0.0
        self.models = MODELS
        self.table = None
        self.places = {}
        """Of each replica that exists; it has its GPUs unless it is asleep."""
        self.model_of = {}
        self.asleep = set()
        self.told = {}
        """What each was told last and has not answered."""
        self.demand = dict.fromkeys(MODELS, 0)

    def play(self, event):
        for effect in self.brain.on(event, self.now_s):
            match effect:
                case Launch(replica_id, model, variant=variant, place=place):
                    spec = self.models[model]
                    spec = next((each for each in spec.variants if each.name == variant), spec)
                    assert place is not None
                    assert len(place.gpus) == len(set(place.gpus)) == spec.gpus
                    assert place.memory_bytes == spec.memory_bytes
                    kinds = {GPUS[place.node, index].kind for index in place.gpus}
                    assert len(kinds) == 1
                    assert spec.kind in ("", *kinds)
                    self.places[replica_id], self.model_of[replica_id] = place, model
                    self.told[replica_id] = "launch"
                    self.check()
                case Sleep(replica_id):
                    self.told[replica_id] = "sleep"
                case Wake(replica_id):
                    self.asleep.discard(replica_id)
                    self.told[replica_id] = "wake"
                    self.check()
                case Stop(replica_id):
                    self.told[replica_id] = "stop"
                case PublishRoutes(table):
                    self.table = table

    def carried(self):
        found = {gpu: [] for gpu in GPUS}
        for replica_id, place in self.places.items():
            if replica_id not in self.asleep:
                for index in place.gpus:
                    found[place.node, index].append(place.memory_bytes)
        return found

    def check(self):
        for gpu, taken in self.carried().items():
            total = GPUS[gpu].memory_bytes
            if None in taken or total is None:
                assert len(taken) <= 1
            else:
                assert sum(taken) <= total

    def answer(self, which, what):
        """A replica does what it was told, or something else."""
        if not self.places:
            return
        replica_id = sorted(self.places)[which % len(self.places)]
        told = self.told.get(replica_id)
        if what == "crash" or told == "stop":
            del self.places[replica_id]
            self.asleep.discard(replica_id)
            self.told.pop(replica_id, None)
            self.play(ReplicaSeen(replica_id, Seen.EXITED))
        elif what == "silent":
            self.play(ReplicaSeen(replica_id, Seen.UNRESPONSIVE))
        elif told == "sleep" or (told == "wake" and what == "refuse"):
            self.asleep.add(replica_id)
            del self.told[replica_id]
            self.play(ReplicaSeen(replica_id, Seen.SLEPT))
        elif told in ("launch", "wake"):
            del self.told[replica_id]
            seen = Seen.READY if told == "launch" else Seen.WOKEN
            self.play(ReplicaSeen(replica_id, seen, Address("h", 1)))

    def adopt(self, number, model, node, first, tier):
        """One that nobody knew of, where it can be; a backend adopts what its GPUs have room for."""
        replica_id, spec = ReplicaId(f"{model}-{number}"), self.models[model]
        indexes = tuple(range(first, first + spec.gpus))
        place = Place(node, indexes, spec.memory_bytes)
        if replica_id in self.model_of or any((node, index) not in GPUS for index in indexes):
            return
        if spec.kind and any(GPUS[node, index].kind != spec.kind for index in indexes):
            return
        self.places[replica_id], self.model_of[replica_id] = place, model
        if tier is Tier.SLEEPING:
            self.asleep.add(replica_id)
        try:
            self.check()
        except AssertionError:
            del self.places[replica_id], self.model_of[replica_id]
            self.asleep.discard(replica_id)
            return
        self.play(ReplicaAdopted(replica_id, model, Address("h", 1), tier, place=place))

    def report(self):
        demands = tuple(
            ModelDemand(model, 0, count, count, 0, 0, 0, 0, 0, 0.0, None)
            for model, count in self.demand.items()
        )
        loads = tuple(ReplicaLoad(r.replica_id, 0, 0) for r in (self.table.routes if self.table else ()))
        version = self.table.version if self.table else 0
        self.play(DemandReported(DemandReport("g", version, demands, loads)))


names = st.sampled_from(list(MODELS))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from([0.5, 2.0, 7.0, 70.0])),
        st.tuples(st.just("demand"), names, st.integers(0, 4)),
        st.tuples(
            st.just("answer"),
            st.integers(0, 20),
            st.sampled_from(["obey", "obey", "refuse", "crash", "silent"]),
        ),
        st.tuples(
            st.just("adopt"),
            st.integers(50, 60),
            names,
            st.sampled_from(["n1", "n2"]),
            st.integers(0, 2),
            st.sampled_from([Tier.SERVING, Tier.WARM, Tier.SLEEPING]),
        ),
        st.tuples(st.just("configure"), st.sampled_from(sorted(SETTINGS)), st.sampled_from(sorted(NODES))),
    ),
    min_size=20,
    max_size=80,
)


@pytest.mark.timeout(300)
@given(steps)
@budget(max_examples=100)
def test_no_gpu_carries_more_than_it_has(steps):
    """From its launch until its end is seen, whatever it is told and whatever it does; but not while it sleeps."""
    machine = Machine()
    machine.play(FleetConfigured(MODELS, FleetLimits(max_starts_per_hour=1_000), (N1, N2)))
    for step in steps:
        match step:
            case ("wait", span_s):
                machine.now_s += span_s
            case ("demand", model, count):
                machine.demand[model] = count
            case ("answer", which, what):
                machine.answer(which, what)
            case ("adopt", *found):
                machine.adopt(*found)
            case ("configure", models, nodes):
                machine.models = SETTINGS[models]
                limits = FleetLimits(max_starts_per_hour=1_000)
                machine.play(FleetConfigured(machine.models, limits, NODES[nodes]))
        machine.now_s += 0.1
        machine.report()
        machine.play(Tick())
        machine.check()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("demand"), names, st.integers(0, 4)),
            st.tuples(st.just("answer"), st.integers(0, 20)),
        ),
        max_size=40,
    )
)
@budget(max_examples=30)
def test_what_is_granted_can_be_carried_out_as_soon_as_what_leaves_is_gone(steps):
    """With everybody obedient for a while and nothing new, each model has the number that it was granted."""
    machine = Machine()
    machine.play(FleetConfigured(MODELS, FleetLimits(max_starts_per_hour=1_000), (N1, N2)))
    for step in steps:
        match step:
            case ("demand", model, count):
                machine.demand[model] = count
            case ("answer", which):
                machine.answer(which, "obey")
        machine.now_s += 1.0
        machine.report()
        machine.play(Tick())
    for _ in range(60):
        machine.now_s += 1.0
        for which in range(len(machine.places)):
            machine.answer(which, "obey")
        machine.report()
        machine.play(Tick())
    for view in machine.brain.state(machine.now_s).models:
        serving = sum(r.state.value == "serving" for r in view.replicas)
        assert serving == view.desired, (view.model, machine.demand, machine.places)
