"""A fleet whose nodes are known: who goes where, who waits for a place, and what it is told."""

from dataclasses import replace

import pytest

from tidegate.core.effects import Launch
from tidegate.core.events import DemandReported
from tidegate.core.fleet.kinds import StartKinds
from tidegate.core.fleet.places import Places
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Gpu, Node, Place
from tidegate.core.settings import FleetModel, Variant
from tidegate.core.tiers import Tier
from tidegate.core.types import DemandReport, ModelDemand, ModelId, ReplicaLoad

M, BIG, SMALL = ModelId("m"), ModelId("big"), ModelId("small")
GIB = 2**30
QUICK = {"window_s": 1, "scale_down_delay_s": 5, "concurrency_target": 1}


def node(name, count, kind="", memory=None):
    return Node(name, tuple(Gpu(index, memory, kind) for index in range(count)))


@pytest.fixture
def quick(settings):
    """One replica for each request, given up 5 s after it."""
    return lambda **more: settings(**(QUICK | more))


def load(world, at, **in_flight):
    """So many requests for each model, and a tick."""
    demands = tuple(
        ModelDemand(ModelId(model), 0, count, count, 0, 0, 0, 0, 0, 0.0, None)
        for model, count in in_flight.items()
    )
    routes = world.table.routes if world.table else ()
    empty = tuple(ReplicaLoad(route.replica_id, 0, 0) for route in routes)
    version = world.table.version if world.table else 0
    world.on(DemandReported(DemandReport("g", version, demands, empty)), at)
    world.tick(at)


def run(world, since, until, **in_flight):
    for at in range(since, until + 1):
        load(world, at, **in_flight)


def held_by(world, at, model):
    return world.view(at, model).decision.held_by


def test_each_launch_says_where_and_small_ones_leave_room_for_a_large_one(world, quick):
    models = {BIG: quick(gpus=4), SMALL: quick(gpus=1)}
    world.configure(0, models, [node("n1", 4), node("n2", 6)])
    load(world, 1, big=0, small=2)
    assert world.places == {"small-1": ("n2", (0,)), "small-2": ("n2", (1,))}
    load(world, 2, big=2, small=2)
    assert world.places["big-1"] == ("n1", (0, 1, 2, 3))
    assert world.places["big-2"] == ("n2", (2, 3, 4, 5))


def test_without_nodes_nobody_is_told_where(world, quick):
    world.configure(0, {M: quick(gpus=1)}, max_gpus=2)
    load(world, 1, m=2)
    assert world.places == {"m-1": None, "m-2": None}


def test_a_replica_without_gpus_needs_no_place(world, quick):
    world.configure(0, {M: quick()}, [node("n", 1)])
    load(world, 1, m=3)
    assert world.places == {"m-1": None, "m-2": None, "m-3": None}


def test_the_number_is_one_that_fragments_can_carry_not_one_that_the_count_allows(world, quick):
    models = {BIG: quick(gpus=2), SMALL: quick(gpus=1)}
    world.configure(0, models, [node("n1", 3), node("n2", 3)])
    load(world, 1, big=3, small=0)
    # Six GPUs, and room for two of two GPUs each.
    assert world.desired(BIG) == 2
    assert held_by(world, 1, BIG) == "fleet.gpus"
    assert world.ordered("launch") == ["big-1", "big-2"]
    assert "fleet.gpus leaves 2" in world.view(1, BIG).decision.because


def test_who_finds_no_place_is_told_which_nodes_come_nearest(world, quick):
    models = {BIG: quick(gpus=4, kind="h100"), SMALL: quick(gpus=1)}
    nodes = [node("n1", 4, "h100"), node("n2", 2, "l40s")]
    world.configure(0, models, nodes)
    load(world, 1, big=0, small=3)
    load(world, 2, big=1, small=3)
    assert [world.places[f"small-{n}"][0] for n in (1, 2, 3)] == ["n2", "n2", "n1"]
    route = world.model_route(BIG)
    assert not route.can_serve
    assert route.because == "no node has 4 free GPUs of kind h100; n1 has 3"
    assert world.desired(BIG) == 0


def test_what_no_node_has_at_all_is_said_as_such(world, quick):
    world.configure(0, {M: quick(gpus=4, kind="h100")}, [node("n1", 2, "h100"), node("n2", 8)])
    load(world, 1, m=1)
    assert world.model_route(M).because == "no node has 4 GPUs of kind h100"
    assert world.ordered("launch") == []


def test_shrink_first_see_it_gone_then_grow(world, quick):
    models = {BIG: quick(gpus=4), SMALL: quick(gpus=1)}
    world.configure(0, models, [node("n1", 4)])
    load(world, 1, big=0, small=4)
    for n in range(1, 5):
        world.ready(2, f"small-{n}")
    run(world, 3, 10, big=1, small=4)
    assert held_by(world, 10, BIG) == "fleet.gpus"  # what runs and is wanted is not stopped for it
    run(world, 11, 20, big=1, small=0)
    assert sorted(world.ordered("stop")) == ["small-1", "small-2", "small-3", "small-4"]
    # They are on their way out, so there is something to wait for.
    assert world.model_route(BIG).can_serve
    for n in range(1, 4):
        world.exited(20 + n, f"small-{n}")
        assert "big-1" not in world.places
    world.exited(24, "small-4")
    assert world.places["big-1"] == ("n1", (0, 1, 2, 3))


def test_one_that_is_silent_or_given_up_keeps_its_place_until_it_is_gone(world, quick):
    world.configure(0, {M: quick(gpus=1, max_replicas=1, min_replicas=1)}, [node("n1", 1)])
    world.ready(1, "m-1")
    world.seen(2, "m-1", Seen.UNRESPONSIVE)
    run(world, 3, 20, m=1)
    assert world.ordered("launch") == ["m-1"]
    world.exited(21, "m-1")
    run(world, 22, 24, m=1)
    assert world.places["m-2"] == ("n1", (0,))


def test_an_adopted_replica_has_its_place(world, quick):
    world.adopt(0, "m-7", M, Place("n1", (1,)))
    world.configure(0, {M: quick(gpus=1)}, [node("n1", 3)])
    load(world, 1, m=3)
    assert world.places == {"m-8": ("n1", (0,)), "m-9": ("n1", (2,))}


def test_an_adopted_replica_of_a_model_that_is_gone_has_its_place_until_it_is_gone(world, quick):
    world.adopt(0, "old-1", ModelId("old"), Place("n1", (0,)))
    world.configure(0, {M: quick(gpus=1)}, [node("n1", 1)])
    load(world, 1, m=1)
    assert world.ordered("stop") == ["old-1"]
    assert world.places == {}
    world.exited(2, "old-1")
    load(world, 3, m=1)
    assert world.places == {"m-1": ("n1", (0,))}


def test_shares_of_one_gpu_are_counted_by_memory(world, quick):
    models = {M: quick(gpus=1, memory=30 * GIB), BIG: quick(gpus=1)}
    world.configure(0, models, [node("n1", 2, memory=80 * GIB)])
    load(world, 1, m=5, big=0)
    assert world.desired(M) == 4
    assert sorted(world.places.values()) == [("n1", (0,))] * 2 + [("n1", (1,))] * 2
    assert held_by(world, 1, M) == "fleet.gpus"


def test_engines_that_run_elsewhere_take_no_place(world, quick):
    there = replace(quick(gpus=8), is_elsewhere=True)
    world.configure(0, {M: there, SMALL: quick(gpus=1)}, [node("n1", 1)])
    load(world, 1, m=2, small=1)
    assert world.places == {"m-1": None, "m-2": None, "small-1": ("n1", (0,))}


# ---- who waits ----


def crowd(world, quick, since):
    """Two nodes of four; small replicas on all of them, and nobody else."""
    models = {BIG: quick(gpus=4), SMALL: quick(gpus=1)}
    world.configure(0, models, [node("n1", 4), node("n2", 4)])
    load(world, 1, big=0, small=8)
    for n in range(1, 9):
        world.ready(2, f"small-{n}")
    run(world, 3, since, big=1, small=8)


def crash(world, at, on):
    """The first small one on this node dies."""
    name = next(r for r, place in world.places.items() if place[0] == on and r.startswith("small"))
    del world.places[name]
    world.exited(at, name)


def test_small_ones_go_first_until_the_large_one_has_waited_for_a_minute(world, quick):
    crowd(world, quick, 30)
    crash(world, 30, on="n2")
    run(world, 31, 32, big=1, small=8)
    # In half a minute a small one has taken the GPU that came free.
    assert world.places["small-9"][0] == "n2"
    world.ready(33, "small-9")
    run(world, 34, 70, big=1, small=8)
    crash(world, 70, on="n1")
    run(world, 71, 100, big=1, small=8)
    # Now n1 is kept: as full as n2, and the first by name.
    assert "small-10" not in world.places
    assert world.model_route(SMALL).can_serve
    for at in (101, 102, 103):
        crash(world, at, on="n1")
        load(world, at, big=1, small=8)
    assert world.places["big-1"] == ("n1", (0, 1, 2, 3))


def test_a_node_is_not_kept_for_ever(world, quick):
    crowd(world, quick, 70)
    crash(world, 70, on="n1")
    run(world, 71, 355, big=1, small=8)
    assert "small-9" not in world.places
    # Kept since 63; five minutes later the small one has its turn, and the large one waits anew.
    run(world, 356, 366, big=1, small=8)
    assert world.places["small-9"] == ("n1", (0,))


def test_a_start_that_waits_keeps_nobody_from_shrinking(world, quick):
    crowd(world, quick, 100)
    run(world, 101, 120, big=1, small=2)
    assert len(world.ordered("stop")) == 6


def test_who_does_not_wait_any_more_gives_the_node_back(world, quick):
    crowd(world, quick, 70)
    crash(world, 70, on="n1")
    run(world, 71, 80, big=1, small=8)
    assert "small-9" not in world.places
    run(world, 81, 95, big=0, small=8)
    assert world.places["small-9"] == ("n1", (0,))


# ---- sleepers ----


def test_a_sleeper_wakes_on_its_own_gpus_or_another_is_started(world, quick):
    pool = {"max_sleeping": 1, "sleep_after_s": 1}
    world.adopt(0, "m-1", M, Place("n1", (0,)), tier=Tier.SLEEPING)
    world.configure(0, {M: quick(gpus=1, pool=pool), SMALL: quick(gpus=1)}, [node("n1", 2)])
    load(world, 1, m=0, small=1)
    assert world.places["small-1"] == ("n1", (0,))  # nobody holds it, though it is where m-1 sleeps
    assert world.model_route(M).can_serve, "one more can be started on the other GPU"
    load(world, 2, m=1, small=1)
    assert world.ordered("wake") == []
    assert world.places["m-2"] == ("n1", (1,))


def test_a_sleeper_whose_gpu_is_free_holds_it_as_soon_as_it_is_woken(world, quick):
    pool = {"max_sleeping": 1, "sleep_after_s": 1}
    world.adopt(0, "m-1", M, Place("n1", (0,)), tier=Tier.SLEEPING)
    world.configure(0, {M: quick(gpus=1, pool=pool), SMALL: quick(gpus=1)}, [node("n1", 1)])
    load(world, 1, m=1, small=1)
    assert world.ordered("wake") == ["m-1"]
    assert world.ordered("launch") == []
    assert world.model_route(SMALL).because == "no node has a free GPU; n1 has 0"


def test_who_asks_for_a_sleeper_is_told_that_its_gpu_is_taken(world, quick):
    pool = {"max_sleeping": 1, "sleep_after_s": 1}
    world.adopt(0, "m-1", M, Place("n1", (0,)), tier=Tier.SLEEPING)
    world.configure(0, {M: quick(gpus=1, pool=pool), SMALL: quick(gpus=1)}, [node("n1", 1)])
    load(world, 1, m=0, small=1)
    load(world, 2, m=1, small=1)
    assert world.model_route(M).because == "it sleeps on GPU 0 of n1, which another replica has"


def test_a_warm_replica_gives_way_to_a_first_one_that_needs_its_place(world, quick):
    pool = {"min_warm": 2, "max_warm": 2}
    models = {M: quick(gpus=1, max_replicas=2, pool=pool), BIG: quick(gpus=2)}
    world.configure(0, models, [node("n1", 2)])
    world.ready(1, "m-1")
    world.ready(1, "m-2")
    run(world, 2, 5, m=0, big=0)
    assert set(world.states().values()) == {"warm"}
    run(world, 6, 8, m=0, big=1)
    assert sorted(world.ordered("stop")) == ["m-1", "m-2"]
    world.exited(9, "m-1")
    world.exited(9, "m-2")
    load(world, 10, m=0, big=1)
    assert world.places["big-1"] == ("n1", (0, 1))


# ---- variants ----


def with_small(quick, **more):
    """64 slots on an H100, or 16 on an L40S."""
    spec = quick(kind="h100", gpus=1, slots=64, price=4.0, **more)
    return replace(spec, variants=(Variant("small", slots=16, gpus=1, kind="l40s", price_per_h=1.2),))


def test_each_variant_goes_on_gpus_of_its_kind(world, quick):
    world.configure(
        0, {M: with_small(quick, concurrency_target=64)}, [node("a", 2, "h100"), node("b", 2, "l40s")]
    )
    load(world, 1, m=60)
    load(world, 2, m=76)
    launched = {launch.replica_id: (launch.variant, launch.place.node) for launch in launches(world)}
    assert launched == {"m-1": ("", "a"), "m-2": ("small", "b")}


def test_a_variant_whose_kind_is_taken_does_not_keep_the_others_waiting(world, quick):
    models = {M: with_small(quick, concurrency_target=64), SMALL: quick(gpus=1, kind="l40s")}
    world.configure(0, models, [node("a", 2, "h100"), node("b", 1, "l40s")])
    load(world, 1, m=0, small=1)
    assert world.places == {"small-1": ("b", (0,))}
    # The small variant would be enough for so few, and cheaper.
    load(world, 2, m=5, small=1)
    assert [(launch.variant, launch.place.node) for launch in launches(world)][1:] == [("", "a")]


def test_a_model_none_of_whose_variants_has_a_place_says_why(world, quick):
    models = {M: with_small(quick, concurrency_target=64), SMALL: quick(gpus=1)}
    world.configure(0, models, [node("a", 1, "h100"), node("b", 1, "l40s")])
    load(world, 1, m=0, small=2)
    load(world, 2, m=5, small=2)
    assert world.model_route(M).because == "no node has a free GPU of kind h100; a has 0"
    assert held_by(world, 2, M) == "fleet.gpus"


def launches(world):
    return [effect for _, _, effects in world.turns for effect in effects if isinstance(effect, Launch)]


def test_a_turn_looks_the_nodes_through_as_often_for_many_that_find_no_place_as_for_few(
    new_world, quick, monkeypatch
):
    looks, counts = [], []
    bare = Places.bare

    def counted(places):
        looks.append(places)
        return bare(places)

    monkeypatch.setattr(Places, "bare", counted)
    for count in (3, 30):
        world = new_world()
        models = {ModelId(f"m{number:02}"): quick(gpus=1, min_replicas=1) for number in range(count)}
        world.configure(0, models, [node("n1", 1)])
        assert not world.model_route(ModelId("m01")).can_serve
        looks.clear()
        world.tick(1)
        counts.append(len(looks))
    assert counts[0] == counts[1] > 0


def coming_s(world):
    """When each that comes up is expected to serve."""
    routes = world.table.routes
    return {str(each.replica_id): each.expected_ready_s for each in routes if each.expected_ready_s}


def test_how_long_starts_take_is_learned_for_each_kind_of_node(world, quick):
    """Twenty seconds on one and ninety on the other would be expected to take fifty-five on both."""
    world.configure(0, {M: quick(gpus=1)}, [node("a", 2, "h100"), node("b", 2, "l4")])
    load(world, 0, m=2)
    world.ready(20, "m-1")
    world.ready(20, "m-2", 9001)
    load(world, 21, m=3)
    assert world.places == {"m-1": ("a", (0,)), "m-2": ("a", (1,)), "m-3": ("b", (0,))}
    assert coming_s(world) == {"m-3": 21 + 20}  # another kind's, while nothing is known of this one
    world.ready(111, "m-3", 9002)
    world.exited(1_000, "m-1", "killed")
    load(world, 1_000, m=3)
    assert world.places["m-4"] == ("a", (0,))
    assert coming_s(world) == {"m-4": 1_000 + 20}
    world.ready(1_020, "m-4", 9003)
    world.exited(2_000, "m-3", "killed")
    load(world, 2_000, m=3)
    assert world.places["m-5"] == ("b", (0,))
    assert coming_s(world) == {"m-5": 2_000 + 90}


def test_the_next_start_takes_as_long_as_where_it_will_go(world, quick):
    models = {M: quick(gpus=1), SMALL: quick(gpus=1)}
    world.configure(0, models, [node("a", 2, "h100"), node("b", 2, "l4")])
    load(world, 0, m=1, small=0)
    load(world, 1, m=1, small=1)
    world.ready(20, "m-1")
    world.ready(20, "small-1", 9001)
    load(world, 21, m=2, small=1)
    world.ready(111, "m-2", 9002)
    load(world, 112, m=2, small=1)
    assert [world.places[name][0] for name in ("m-1", "small-1", "m-2")] == ["a", "a", "b"]
    assert world.model_route().growth_s == 90  # a is full
    assert world.view(112).starts.median_s == pytest.approx(90)
    run(world, 113, 125, m=2, small=0)
    world.exited(126, "small-1")
    assert world.model_route().growth_s == 20
    assert world.view(126).starts.median_s == pytest.approx(20)


def test_wake_ups_are_learned_for_each_kind_of_node(world, quick):
    """Two seconds on one, and nine on the other."""
    spec = quick(gpus=1, min_replicas=0, pool={"max_sleeping": 2, "sleep_after_s": 0.0})
    world.configure(0, {M: spec}, [node("a", 1, "h100"), node("b", 1, "l4")])
    load(world, 0, m=2)
    world.ready(20, "m-1")
    world.ready(90, "m-2", 9001)
    for since in (91, 191):
        run(world, since, since + 20, m=0)
        for name in ("m-1", "m-2"):
            world.seen(since + 20, name, Seen.SLEPT)
        load(world, since + 30, m=2)
        if since == 191:
            assert coming_s(world) == {"m-1": 221 + 2, "m-2": 221 + 9}
        world.seen(since + 32, "m-1", Seen.WOKEN)
        world.seen(since + 39, "m-2", Seen.WOKEN)


def test_a_variant_that_names_its_gpus_is_its_own_kind_and_so_is_a_fleet_without_kinds():
    kinds = StartKinds()
    kinds.configure([node("a", 1, "h100"), node("b", 1)])
    a, b = Place("a", (0,)), Place("b", (0,))
    anywhere = FleetModel(engine="vllm")
    assert kinds.at("", anywhere, a) == "h100"
    assert kinds.at("fp8", anywhere, a) == "fp8/h100"
    assert kinds.at("fp8", replace(anywhere, kind="h100"), a) == "fp8"
    assert kinds.at("", anywhere, b) == kinds.at("", anywhere, Place("gone", (0,))) == ""
    assert kinds.at("fp8", anywhere, b) == kinds.of_next(M, "fp8") == "fp8"
    kinds.expect(M, "fp8", anywhere, a)
    assert kinds.of_next(M, "fp8") == "fp8/h100"
