"""A pool of a model that can be run in several ways, over time: whoever is in it keeps its variant."""

from dataclasses import replace

import pytest

from tidegate.core.effects import Launch
from tidegate.core.events import DemandReported, ReplicaAdopted
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Gpu, Node
from tidegate.core.settings import Variant
from tidegate.core.tiers import Tier
from tidegate.core.types import Address, DemandReport, ModelDemand, ModelId, ReplicaId, ReplicaLoad

M, N = ModelId("m"), ModelId("n")
SMALL = Variant("small", slots=16, gpus=1, kind="l40s", price_per_h=1.20, expected_start_s=60.0)


@pytest.fixture
def mixed(settings):
    """64 slots at 4.00 an hour, or 16 at 1.20, with a pool."""

    def make(*variants, price=4.0, **more):
        more = {"slots": 64, "gpus": 1, "window_s": 1, "scale_down_delay_s": 10, "start": 60.0} | more
        return replace(settings(price=price, **more), kind="h100", variants=variants or (SMALL,))

    return make


def launched(world, since=0):
    return [
        effect.variant or "default"
        for at, _, effects in world.turns
        for effect in effects
        if isinstance(effect, Launch) and at >= since
    ]


def orders(world, since):
    return [(what, name) for at, what, name in world.orders if at >= since]


def asked(world, moments, of_m, of_n, *, n_1=0):
    """A gateway's reports: so many requests for each model, and so many at n-1."""
    for at in moments:
        demands = tuple(
            ModelDemand(model, count, 0, count, 0, 0, 0, 0, 0, 0.0, None)
            for model, count in ((M, of_m), (N, of_n))
        )
        routes = world.table.routes
        loads = tuple(ReplicaLoad(r.replica_id, n_1 * (r.model == N), 10) for r in routes)
        world.on(DemandReported(DemandReport("g", world.table.version, demands, loads)), at)


def both(world, mixed, **pool):
    """At t=100 m-1 (small) serves 4 requests, and m-2 (default), which served 60 before, is in the pool."""
    world.configure(0, {M: mixed(pool={"max_sleeping": 2, "sleep_after_s": 0.0} | pool)})
    world.report(0, queued=4)
    world.ready(60, "m-1")
    world.run(61, 62, in_flight=60)
    assert launched(world) == ["small", "default"]
    world.ready(63, "m-2", 9001)
    world.run(64, 66, in_flight=60, loads={"m-1": 0, "m-2": 60})
    slept(world, 67, *world.ordered("sleep"))
    world.run(68, 90, in_flight=4, loads={"m-1": 0, "m-2": 4})
    if "m-1" in world.ordered("wake"):
        world.seen(91, "m-1", Seen.WOKEN)
    world.run(92, 100, in_flight=4, loads={"m-1": 4, "m-2": 0})
    return world


def slept(world, at, *names):
    for name in names:
        world.seen(at, name, Seen.SLEPT)


def test_who_is_not_in_the_mix_any_more_goes_to_the_pool_and_comes_back_without_a_start(world, mixed):
    both(world, mixed, max_warm=1, max_sleeping=0)
    assert orders(world, 64) == [("demote", "m-1"), ("promote", "m-1"), ("demote", "m-2")]
    assert world.states() == {"m-1": "serving", "m-2": "warm"}
    world.report(101, in_flight=60)
    assert orders(world, 101) == [("promote", "m-2")]
    assert launched(world) == ["small", "default"]
    world.report(102, in_flight=60)
    assert world.decisions[-1].variants == {"default": 1}


def asleep(world, mixed, **pool):
    """At t=120 a small one and one of default are asleep."""
    both(world, mixed, **pool)
    slept(world, 101, "m-2")
    world.run(102, 113)
    slept(world, 114, "m-1")
    world.run(115, 119)
    assert world.states() == {"m-1": "sleeping", "m-2": "sleeping"}
    return world


def test_from_zero_the_cheapest_that_is_enough_is_woken_and_nothing_is_started(world, mixed):
    asleep(world, mixed)
    world.report(120, queued=3)
    assert orders(world, 120) == [("wake", "m-1")], "the small one, though it went to sleep later"
    world.seen(121, "m-1", Seen.WOKEN)
    assert world.states() == {"m-1": "serving", "m-2": "sleeping"}
    world.run(122, 130, in_flight=3)
    assert orders(world, 121) == [("promote", "m-1")]
    assert world.decisions[-1].variants == {"small": 1}


def test_what_a_small_one_cannot_carry_is_carried_by_the_large_one(world, mixed):
    asleep(world, mixed)
    world.report(120, queued=40)
    assert orders(world, 120) == [("wake", "m-2")], (
        "for the price of a small one and three more to be started"
    )
    assert world.decisions[-1].variants == {"default": 1}


def test_until_the_cheaper_one_has_started_who_sleeps_fills_in(world, mixed):
    """Only one of default is asleep. It wakes at once; the small one that is cheaper is started beside it."""
    asleep(world, mixed)
    world.exited(120, "m-1")
    world.report(121, queued=3)
    assert orders(world, 121) == [("wake", "m-2")], "nothing is started to save money before somebody serves"
    world.seen(122, "m-2", Seen.WOKEN)
    world.run(123, 180, in_flight=3)
    assert launched(world, 121) == ["small"]
    world.ready(181, "m-3", 9002)
    world.run(182, 184, in_flight=3, loads={"m-2": 0, "m-3": 3})
    assert orders(world, 181) == [("promote", "m-3"), ("demote", "m-2"), ("sleep", "m-2")]
    assert world.states() == {"m-2": "warm", "m-3": "serving"}


def test_a_rise_wakes_who_sleeps_at_once_and_what_is_cheaper_is_started_once_it_serves(world, mixed):
    both(world, mixed)
    slept(world, 101, "m-2")
    world.run(102, 103, in_flight=16)
    assert world.states() == {"m-1": "serving", "m-2": "sleeping"}
    world.report(104, in_flight=16, queued=10)
    assert orders(world, 104) == [("wake", "m-2")]
    world.seen(108, "m-2", Seen.WOKEN)
    world.run(109, 150, in_flight=26, loads={"m-1": 16, "m-2": 10})
    assert orders(world, 108) == [("promote", "m-2"), ("launch", "m-3")], "it serves until the small one does"
    assert launched(world, 104) == ["small"]
    world.ready(151, "m-3", 9002)
    world.run(152, 153, in_flight=26, loads={"m-1": 16, "m-2": 0, "m-3": 10})
    assert orders(world, 151) == [("promote", "m-3"), ("demote", "m-2"), ("sleep", "m-2")]


def test_who_cannot_wake_where_it_sleeps_is_replaced_by_a_start(world, mixed):
    asleep(world, mixed)
    world.report(120, queued=3)
    slept(world, 121, "m-1")  # its GPU is somebody else's
    world.report(122, queued=3)
    assert orders(world, 121) == [("wake", "m-2")]
    slept(world, 123, "m-2")
    world.report(124, queued=3)
    assert launched(world, 121) == ["small"]


def test_nobody_waits_for_a_sleeper_whose_gpu_is_in_anothers_pool_while_something_can_be_started(
    world, mixed
):
    """The warm one of n has the GPU, and its last answer is a long one. There is another GPU of the dearer kind."""
    nodes = [Node("n1", (Gpu(0, None, "l40s"), Gpu(1, None, "h100")))]
    other = replace(mixed(pool={"max_warm": 1}), kind="l40s", variants=(), price_per_h=1.20)
    world.configure(0, {M: mixed(pool={"max_sleeping": 1}), N: other}, nodes)
    asked(world, range(2), 4, 0)
    world.ready(60, "m-1")
    asked(world, range(61, 64), 4, 0)
    asked(world, range(64, 86), 0, 0)
    slept(world, 86, "m-1")
    assert world.states() == {"m-1": "sleeping"}
    asked(world, range(87, 90), 0, 4)
    world.ready(150, "n-1", 9001)
    asked(world, range(151, 175), 0, 0, n_1=1)
    assert world.states() == {"m-1": "sleeping", "n-1": "warm"}
    asked(world, range(175, 177), 4, 0, n_1=1)
    assert launched(world, 175) == ["default"]


def test_the_pool_counts_replicas_of_all_variants_together(world, mixed):
    """One may sleep: of two that are not needed any more the second one ends."""
    asleep_at_most_one = both(world, mixed, max_sleeping=1)
    slept(asleep_at_most_one, 100, "m-2")
    world.run(101, 120)
    assert orders(world, 101) == [("stop", "m-1")]
    assert world.states()["m-2"] == "sleeping"


def test_the_least_warm_ones_are_of_the_variant_that_is_cheapest_for_what_it_carries(world, mixed):
    world.configure(0, {M: mixed(pool={"min_warm": 2, "max_warm": 2})})
    assert launched(world) == ["default", "default"]
    dear = {M: mixed(price=6.0, pool={"min_warm": 2, "max_warm": 2})}
    other = type(world)()
    other.configure(0, dear)
    assert launched(other) == ["small", "small"]
    bounded = {M: mixed(replace(SMALL, max_replicas=1), price=6.0, pool={"min_warm": 2, "max_warm": 2})}
    third = type(world)()
    third.configure(0, bounded)
    third.tick(1)
    assert launched(third) == ["small", "default"], "there may be one small one"


def test_those_in_the_pool_serve_before_anybody_else_and_the_rest_is_what_fits_beside_them(world, mixed):
    """Four GPUs, two of them under warm small ones, and what is asked for would be cheapest on a large one with three."""
    world.configure(0, {M: mixed(gpus=3, pool={"max_warm": 2})}, max_gpus=4)
    world.report(0, queued=20)
    assert launched(world) == ["small", "small"]
    world.ready(60, "m-1")
    world.ready(60, "m-2", 9001)
    world.run(61, 80)
    assert world.states() == {"m-1": "warm", "m-2": "warm"}
    world.report(81, queued=60)
    assert orders(world, 81)[:2] == [("promote", "m-1"), ("promote", "m-2")]
    assert launched(world, 81) == ["small", "small"]


def test_a_pool_gives_way_to_another_models_larger_variant(world, mixed):
    """The small one of n fits beside the warm ones of m, but for what is asked for a large one is cheaper."""
    world.configure(0, {M: mixed(pool={"max_warm": 2}), N: mixed(gpus=3)}, max_gpus=4)
    world.report(0, queued=20)
    world.ready(60, "m-1")
    world.ready(60, "m-2", 9001)
    world.run(61, 80)
    assert world.states() == {"m-1": "warm", "m-2": "warm"}
    world.report(81, queued=60, model=N, gateway="h")
    assert orders(world, 81) == [("stop", "m-1")], "first it shrinks"
    world.exited(82, "m-1")
    assert [order.variant for order in world.effects if isinstance(order, Launch)] == [""]


def test_what_is_learned_of_wake_ups_is_of_the_variant(world, mixed):
    asleep(world, mixed)
    world.report(120, queued=3)
    world.seen(122, "m-1", Seen.WOKEN)
    world.run(123, 124, in_flight=40)
    assert ("wake", "m-2") in orders(world, 123)
    world.seen(143, "m-2", Seen.WOKEN)
    world.run(144, 160, in_flight=40, loads={"m-1": 0, "m-2": 40})
    world.run(161, 200)
    slept(world, 201, "m-1", "m-2")
    world.report(202, queued=3)
    assert world.model_route().expected_ready_s == 202 + 7.5, "m-1 took 13 and 2 s to wake; m-2, 20 s"


def test_a_sleeper_that_is_taken_over_is_of_its_variant(world, mixed):
    spec = mixed(pool={"max_sleeping": 2})
    world.configure(0, {M: spec})
    for name, variant in (("m-4", "small"), ("m-7", "")):
        address = Address("127.0.0.1", 9000)
        world.on(ReplicaAdopted(ReplicaId(name), M, address, Tier.SLEEPING, variant), 1)
    world.report(2, queued=3)
    assert orders(world, 2) == [("wake", "m-4")]


def test_a_warm_one_is_lent_in_its_variant(world, mixed):
    pool = {"max_warm": 1, "group": "g"}
    world.configure(0, {M: mixed(pool=pool), N: mixed(pool=pool)})
    world.report(0, queued=4)
    world.ready(60, "m-1")
    world.run(61, 80)
    assert world.states() == {"m-1": "warm"}
    world.report(81, queued=4, model=N, gateway="h")
    assert orders(world, 81)[0] == ("promote", "m-1")
    assert {route.replica_id: route.model for route in world.table.routes}["m-1"] == N
    lent = [effect for _, _, effects in world.turns for effect in effects if isinstance(effect, Launch)]
    assert {effect.model for effect in lent} == {M}, "for n nothing had to be started"
