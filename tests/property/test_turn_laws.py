"""What a turn remembers from the one before, or from a moment ago, is what it would find by looking anew."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.effects import Decision, Launch, Stop
from tidegate.core.events import DemandReported, FleetConfigured, ReplicaSeen, Tick
from tidegate.core.fleet import FleetController
from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.places import Places
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replicas, size_in
from tidegate.core.fleet.starts import StartBudget
from tidegate.core.lifecycle import Seen, State
from tidegate.core.nodes import Gpu, Node
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel, Variant
from tidegate.core.tiers import Tier
from tidegate.core.types import Address, DemandReport, ModelDemand, ModelId, ReplicaId, ReplicaLoad

A, B = ModelId("a"), ModelId("b")
IDS = [ReplicaId(f"a-{number}") for number in range(1, 4)]
HERE = Address("h", 1)

loads = st.builds(ReplicaLoad, st.sampled_from(IDS), st.integers(-1, 9), st.integers(0, 900))
reports = st.tuples(
    st.floats(0.0, 700.0), st.sampled_from(["g1", "g2"]), st.lists(loads, unique_by=lambda x: x.replica_id)
)


@given(st.lists(reports, max_size=8))
def test_what_is_in_flight_on_a_replica_is_what_the_latest_reports_say(course):
    book, now_s, heard = DemandBook(), 0.0, []
    for span_s, gateway, said in course:
        now_s += span_s
        heard.append((DemandReport(gateway, 0, (), tuple(said)), now_s))
        book.hear(*heard[-1])
        book.forget_gone(now_s)
        fresh = DemandBook()
        for report, at_s in heard:
            fresh.hear(report, at_s)
            fresh.forget_gone(at_s)
        # Asked twice in a turn, and in each turn.
        assert [book.load(each) for each in IDS] == [fresh.load(each) for each in IDS]
        assert [book.load(each) for each in IDS] == [fresh.load(each) for each in IDS]


lessons = st.tuples(
    st.sampled_from([A, B]), st.floats(1.0, 900.0), st.sampled_from([Tier.COLD, Tier.SLEEPING]),
    st.sampled_from(["", "big"]),
)  # fmt: skip


@given(st.lists(lessons, max_size=12))
def test_how_long_starts_take_is_what_all_lessons_say_whenever_somebody_asks(course):
    cold, learned = ColdStarts(), []
    for lesson in course:
        learned.append(lesson)
        cold.learn(*lesson)
        for model in (A, B):
            for tier in (Tier.COLD, Tier.SLEEPING):
                for kind in ("", "big"):
                    for otherwise_s in (None, 60.0):
                        asked = model, otherwise_s, tier, kind
                        fresh = ColdStarts()
                        for each in learned:
                            fresh.learn(*each)
                        assert cold.readiness(*asked) == fresh.readiness(*asked)


SPEC = FleetModel(
    "vllm",
    gpus=1,
    slots=8,
    price_per_h=1.0,
    scaling=Scaling(ScalingPolicy.TIDAL, min_replicas=0, max_replicas=6, scale_down_delay_s=5.0),
)
MIXED = replace(SPEC, variants=(Variant("big", slots=16, gpus=2, price_per_h=2.5),))


@given(st.lists(st.sampled_from(["", "big"]), max_size=8), st.integers(1, 6), st.booleans())
def test_there_is_room_for_one_more_as_long_as_one_can_be_taken(course, cap, has_nodes):
    nodes = (Node("n1", tuple(Gpu(index) for index in range(5))),) if has_nodes else ()
    plan, places, replicas = Plan(A, MIXED, 0.0), Places(), Replicas()
    places.configure(nodes, plan.variants.sizes.values())
    limits = FleetLimits(max_replicas=cap, max_starts_per_hour=100)
    launching = Launching(replicas, StartBudget(), limits, places, 0.0)
    for variant in course:
        has_room = launching.has_room_now(plan, variant)
        assert launching.has_room_now(plan, variant) == has_room
        taken = launching.take(plan, variant)
        assert (taken is not None) == has_room
        if taken is not None:
            replicas.launch(A, plan.spec_as(variant), taken, 0.0, variant)
        fresh = Launching(replicas, StartBudget(), limits, places, 0.0)
        assert launching.has_room_now(plan, variant) == fresh.has_room_now(plan, variant)


asked = st.tuples(
    st.sampled_from(["one", "together", "wakes", "start"]), st.sampled_from(["", "big"]), st.integers(0, 3)
)


@given(st.lists(asked, max_size=8), st.integers(2, 9), st.booleans(), st.integers(0, 2))
def test_what_was_only_asked_about_leaves_room_and_answers_as_they_were(course, cap, has_nodes, warm):
    """Some replicas are warm and one sleeps; room is asked for beside pools, for one and for several, and sometimes taken."""
    nodes = (Node("n1", tuple(Gpu(index) for index in range(6))),) if has_nodes else ()
    plan, places, replicas = Plan(A, MIXED, 0.0), Places(), Replicas()
    places.configure(nodes, plan.variants.sizes.values())
    limits = FleetLimits(max_replicas=cap, max_starts_per_hour=100, max_gpus=7)
    first = Launching(replicas, StartBudget(), limits, places, 0.0)
    for _ in range(warm + 1):
        if (place := first.take(plan, "")) is not None:
            replicas.launch(A, SPEC, place, 0.0).state = State.WARM
    sleeper = next(iter(replicas), None)
    if sleeper is not None:
        sleeper.state, sleeper.size = State.SLEEPING, size_in(SPEC, State.SLEEPING)
    own = [replica for replica in replicas if replica.state is State.WARM]

    def answers(launching):
        fit = launching.fit_beside_pools(plan, ["", "big"], own)
        others = launching.fit_beside_pools(plan, ["", "big"], [])
        return fit, others, [launching.has_room_now(plan, name) for name in ("", "big")]

    launching = Launching(replicas, StartBudget(), limits, places, 0.0)
    for what, variant, number in course:
        if what == "one":
            launching.fit_beside_pools(plan, [variant], own)
        elif what == "together":
            launching.fit_together(plan, {variant: number, "": 1}, own)
        elif what == "wakes" and sleeper is not None:
            launching.wakes_now(sleeper)
            launching.wakes_beside_pools(sleeper, own)
        elif what == "start" and (place := launching.take(plan, variant)) is not None:
            replicas.launch(A, plan.spec_as(variant), place, 0.0, variant)
            launching = Launching(replicas, StartBudget(), limits, places, 0.0)
        assert answers(launching) == answers(Launching(replicas, StartBudget(), limits, places, 0.0))


def course_of(specs, steps):
    """What is decided of A, second by second, and what is ordered."""
    brain, said, arrived, ended = FleetController(), [], dict.fromkeys(specs, 0), []
    brain.on(FleetConfigured(specs, FleetLimits()), 0.0)

    def on(event, at_s):
        for effect in brain.on(event, at_s):
            match effect:
                case Decision(model):  # sums of money are rounded at each moment at which somebody looks
                    said.extend([(at_s, replace(effect, spent=0.0))] if model == A else [])
                case Launch(_, model):
                    said.extend([(at_s, effect)] if model == A else [])
                case Stop(replica_id):
                    said.extend([(at_s, effect)] if replica_id.startswith("a-") else [])
            if isinstance(effect, Launch):
                ended.append(
                    (replica_readies[effect.model], ReplicaSeen(effect.replica_id, Seen.READY, HERE))
                )
            elif isinstance(effect, Stop):
                ended.append((replica_readies[A], ReplicaSeen(effect.replica_id, Seen.EXITED)))

    replica_readies = {A: 0.3, B: 0.6}
    for second, there in enumerate(steps, 1):
        demands = []
        for model in specs:
            arrived[model] += there[model]
            demands.append(
                ModelDemand(
                    model, 0, there[model], there[model], 0, 0, arrived[model], arrived[model] - there[model],
                    100 * arrived[model], 0.0, float(second), prompt_tokens_total=100 * arrived[model],
                )
            )  # fmt: skip
        on(DemandReported(DemandReport("g", 99, tuple(demands), ())), float(second))
        on(Tick(), float(second))
        due, ended[:] = sorted(ended, key=lambda each: each[0]), []
        for after_s, event in due:
            on(event, second + after_s)
    return said


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=40),
    st.sampled_from([SPEC, MIXED]),
    st.sampled_from([SPEC, MIXED]),
)
def test_what_becomes_of_other_models_changes_nothing_for_one_while_there_is_room(course, spec, other):
    steps = [{A: mine, B: others} for mine, others in course]
    assert course_of({A: spec, B: other}, steps) == course_of({A: spec}, steps)
