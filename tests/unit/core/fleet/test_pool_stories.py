"""Replicas held ready over time: warm ones in line, sleepers behind them, and what makes them come and go."""

import math
from dataclasses import replace

import pytest

from tidegate.core.effects import Launch, Pooled, Prefetch, Sleep
from tidegate.core.events import WeightsSeen
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Gpu, Node
from tidegate.core.settings import Prefetching
from tidegate.core.tiers import Tier
from tidegate.core.types import Address, ModelId

M, N = ModelId("m"), ModelId("n")


def served(world, settings, replicas, *, pool, **more):
    """So many serve at t=10 under a load of 8 requests each; 8 are a replica's share."""
    more = {"window_s": 1, "scale_down_delay_s": 5, "concurrency_target": 8} | more
    world.configure(0, {M: settings(pool=pool, **more)})
    world.report(0, in_flight=8 * replicas)
    for n in range(1, replicas + 1):
        world.ready(1, f"m-{n}", 9000 + n)
    world.run(2, 10, in_flight=8 * replicas)
    return world


def orders(world, since):
    return [(what, name) for at, what, name in world.orders if at >= since]


def slept(world, at, name):
    return world.seen(at, name, Seen.SLEPT)


def woken(world, at, name):
    return world.seen(at, name, Seen.WOKEN)


# ---- warm ----


def test_what_is_not_needed_any_more_waits_in_the_pool_and_is_taken_back_at_once(world, settings):
    served(world, settings, 3, pool={"max_warm": 2})
    world.run(11, 30, in_flight=16)
    assert orders(world, 11) == [("demote", "m-3")]
    assert world.states() == {"m-1": "serving", "m-2": "serving", "m-3": "warm"}
    assert world.slots()["m-3"] == 0

    effects = world.report(31, in_flight=16, queued=4)
    assert orders(world, 31) == [("promote", "m-3")]
    assert not [effect for effect in effects if isinstance(effect, Launch)]
    assert world.states()["m-3"] == "serving"
    assert world.slots()["m-3"] == 8


def test_a_full_pool_takes_nobody_in(world, settings):
    served(world, settings, 4, pool={"max_warm": 1})
    world.run(11, 40, in_flight=8)
    assert orders(world, 11)[0] == ("demote", "m-4")
    assert {name for what, name in orders(world, 11) if what == "stop"} == {"m-2", "m-3"}


def test_requests_go_on_at_one_that_has_become_warm(world, settings):
    served(world, settings, 2, pool={"max_warm": 1, "warm_ttl_s": 20})
    loads = {"m-1": 4, "m-2": 3}
    world.run(11, 20, in_flight=7, loads=loads)
    assert orders(world, 11) == [("demote", "m-2")]
    world.run(21, 60, in_flight=7, loads=loads)  # its time to live is over at 36
    assert "m-2" not in world.ordered("stop")
    assert world.states()["m-2"] == "draining"
    world.run(61, 62, in_flight=4, loads={"m-1": 4, "m-2": 0})
    assert world.ordered("stop") == ["m-2"]


def test_the_least_are_started_beside_those_that_serve_and_again_when_they_are_used(world, settings):
    world.configure(0, {M: settings(min_replicas=1, pool={"min_warm": 1, "max_warm": 2})})
    assert world.ordered("launch") == ["m-1", "m-2"]
    world.ready(1, "m-1")
    world.ready(2, "m-2")
    assert world.states() == {"m-1": "serving", "m-2": "warm"}
    world.report(3, in_flight=9)
    assert orders(world, 3) == [("promote", "m-2"), ("launch", "m-3")]


def test_the_time_to_live_ends_all_but_the_least(world, settings):
    served(world, settings, 4, pool={"min_warm": 1, "max_warm": 3, "warm_ttl_s": 60})
    world.run(11, 60, in_flight=8)
    assert [name for what, name in orders(world, 11) if what == "demote"] == ["m-4", "m-3", "m-2"]
    assert ("stop", "m-5") in orders(world, 11), "it was coming up for the pool, and is not needed there now"
    world.exited(61, "m-5")
    world.run(61, 90, in_flight=8)
    assert len(orders(world, 62)) == 2
    assert list(world.states().values()).count("warm") == 1


def test_a_pool_gives_way_to_another_models_first_replica(world, settings):
    one = settings(min_replicas=1, gpus=1, pool={"min_warm": 2, "max_warm": 2})
    world.configure(0, {M: one, N: settings(gpus=1)}, max_gpus=3)
    for n in range(1, 4):
        world.ready(1, f"m-{n}")
    world.report(2)
    assert sorted(world.states().values()) == ["serving", "warm", "warm"]

    world.report(3, queued=1, model=N, gateway="h")
    assert orders(world, 3) == [("stop", "m-2")], "first it shrinks"
    world.report(4, queued=1, model=N, gateway="h")
    assert orders(world, 4) == [], "while its GPU is not free nothing is started"
    world.exited(5, "m-2")
    assert orders(world, 5) == [("launch", "n-1")]


def test_who_is_in_the_way_goes_and_not_who_has_waited_for_longest(world, settings):
    """The younger one has a GPU of the node that n needs whole. The older one could go for ever without helping n."""
    nodes = [Node("n1", (Gpu(0, None, ""),)), Node("n2", (Gpu(0, None, ""), Gpu(1, None, "")))]
    pool = {"min_warm": 2, "max_warm": 2}
    world.configure(0, {M: settings(gpus=1, pool=pool), N: settings(gpus=2)}, nodes)
    world.ready(1, "m-1")
    world.ready(2, "m-2", 9001)
    (older,) = [name for name, (node, _) in world.places.items() if node == "n1"]
    (younger,) = [name for name, (node, _) in world.places.items() if node == "n2"]
    assert (older, younger) == ("m-1", "m-2")
    world.report(3, queued=1, model=N, gateway="h")
    assert orders(world, 3) == [("stop", "m-2")]
    world.exited(4, "m-2")
    assert orders(world, 4) == [("launch", "n-1")]


# ---- asleep ----

SLEEPERS = {"max_sleeping": 2, "expected_wake_s": 4.0}


def test_the_last_one_goes_to_sleep_and_a_request_wakes_it(world, settings):
    served(world, settings, 1, pool=SLEEPERS, gpus=1, start=100)
    world.run(11, 20, in_flight=0, last_active=10)
    assert orders(world, 11)[:2] == [("demote", "m-1"), ("sleep", "m-1")]
    slept(world, 21, "m-1")
    assert world.states() == {"m-1": "sleeping"}
    assert world.model_route().can_serve

    world.report(1000, queued=1)
    assert orders(world, 22) == [("wake", "m-1")]
    assert world.model_route().expected_ready_s == 1004
    woken(world, 1003, "m-1")
    assert world.states() == {"m-1": "serving"}
    assert orders(world, 1001) == [("promote", "m-1")]


def test_nobody_is_put_to_sleep_before_every_gateway_says_that_it_is_empty(world, settings):
    served(world, settings, 1, pool=SLEEPERS)
    world.report(10.5, gateway="h", in_flight=0)
    world.run(11, 20, in_flight=0, loads={"m-1": 0}, last_active=10)
    assert "sleep" not in [what for what, _ in orders(world, 11)], "the other gateway has not read the table"
    world.report(21, gateway="h", in_flight=0)
    world.tick(22)
    assert orders(world, 21) == [("sleep", "m-1")]


def test_demand_that_returns_while_it_falls_asleep_wakes_it_and_starts_nothing(world, settings):
    served(world, settings, 1, pool=SLEEPERS)
    world.run(11, 20, in_flight=0, last_active=10)
    world.report(21, queued=1)
    assert orders(world, 21) == []
    slept(world, 22, "m-1")
    assert orders(world, 22) == [("wake", "m-1")]


def test_one_that_does_not_fall_asleep_is_ended(world, settings):
    served(world, settings, 1, pool=SLEEPERS)
    world.run(11, 90, in_flight=0, last_active=10)
    assert world.ordered("sleep") == ["m-1"]
    assert world.ordered("stop") == ["m-1"]


def test_one_that_does_not_wake_in_time_is_given_up_and_another_is_started(world, settings):
    served(world, settings, 1, pool=SLEEPERS, start_deadline=30.0)
    world.run(11, 20, in_flight=0, last_active=10)
    slept(world, 21, "m-1")
    world.report(100, queued=1)
    world.tick(130)
    assert orders(world, 101) == [("stop", "m-1"), ("launch", "m-2")]


def test_a_wake_up_is_no_start_and_needs_room_for_its_gpus(world, settings):
    served(world, settings, 1, pool=SLEEPERS, gpus=2)
    world.run(11, 20, in_flight=0, last_active=10)
    slept(world, 21, "m-1")
    spec = settings(pool=SLEEPERS, gpus=2, window_s=1, scale_down_delay_s=5)
    world.configure(22, {M: spec, N: settings(gpus=1, min_replicas=1)}, max_gpus=2, max_starts_per_hour=2)
    assert world.ordered("launch") == ["m-1", "n-1"], "a sleeper takes no GPU"
    world.report(23, queued=1)
    assert "wake" not in [what for what, _ in orders(world, 23)]
    world.configure(24, {M: spec, N: settings(gpus=1, max_replicas=0)}, max_gpus=2, max_starts_per_hour=2)
    world.exited(25, "n-1")
    assert ("wake", "m-1") in orders(world, 25), (
        "all starts of the hour are used, and it is woken all the same"
    )


def test_the_time_from_order_to_ready_is_learned_for_each_tier(world, settings):
    served(world, settings, 1, pool=SLEEPERS, start=100)
    for night in range(1, 4):
        at = 1000 * night
        world.run(at, at + 10, in_flight=0, last_active=at - 500)
        slept(world, at + 11, "m-1")
        world.report(at + 100, queued=1)
        woken(world, at + 100 + night, "m-1")
        world.run(at + 110, at + 112, in_flight=1)
    assert world.ordered("wake") == ["m-1"] * 3
    world.run(5000, 5010, in_flight=0, last_active=4000)
    slept(world, 5011, "m-1")
    world.report(6000, queued=1)
    assert world.model_route().expected_ready_s == 6002, "1, 2 and 3 s were measured"


def test_sleepers_end_with_their_time_to_live(world, settings):
    served(world, settings, 1, pool=SLEEPERS | {"sleeping_ttl_s": 300.0})
    world.run(11, 20, in_flight=0, last_active=10)
    slept(world, 21, "m-1")
    world.report(322, last_active=10)
    assert orders(world, 22) == [("stop", "m-1")]


def test_level_and_reason_are_in_the_order(world, settings):
    served(world, settings, 1, pool=SLEEPERS | {"sleep_level": 2})
    world.run(11, 20, in_flight=0, last_active=10)
    (order,) = [e for _, _, effects in world.turns for e in effects if isinstance(e, Sleep)]
    assert order.level == 2
    assert "the pool" in order.because


def test_a_sleeper_whose_gpus_are_taken_sleeps_on_and_another_is_started(world, settings):
    served(world, settings, 1, pool=SLEEPERS)
    world.run(11, 20, in_flight=0, last_active=10)
    slept(world, 21, "m-1")
    world.report(100, queued=1)
    assert orders(world, 22) == [("wake", "m-1")]
    slept(world, 100, "m-1")
    assert orders(world, 22) == [("wake", "m-1"), ("launch", "m-2")]
    assert world.states()["m-1"] == "sleeping"
    world.ready(110, "m-2")
    world.run(111, 130, in_flight=1)
    world.report(131, in_flight=9)
    assert ("wake", "m-1") in orders(world, 130), "after a while it is tried again"


@pytest.mark.parametrize("outage", ["silence", "nan"])
def test_while_the_demand_is_not_known_time_takes_nobody_out_of_the_pool(world, settings, outage):
    served(world, settings, 3, pool={"max_warm": 2, "max_sleeping": 1, "warm_ttl_s": 60, "sleep_after_s": 30})
    world.run(11, 25, in_flight=8)
    assert sorted(world.states().values()) == ["serving", "warm", "warm"]
    for at in range(40, 400):
        if outage == "nan":
            world.report(at, in_flight=math.nan)
        world.tick(at)
    assert sorted(world.states().values()) == ["serving", "warm", "warm"]
    world.run(400, 420, in_flight=8)
    assert len(orders(world, 400)) == 2, "and then it goes on"


def test_one_that_wakes_is_not_replaced_in_its_bed(world, settings):
    """What the mix asks for beside nothing, one sleeper, is not asked for once that one serves."""
    served(world, settings, 1, pool=SLEEPERS, start=100, max_replicas=2)
    for burst in range(6):
        at = 100 * (burst + 1)
        world.run(at, at + 60, in_flight=0, last_active=at)
        if burst or world.ordered("sleep"):
            slept(world, at + 61, "m-1")
        world.report(at + 70, queued=1)
        woken(world, at + 73, "m-1")
        world.run(at + 74, at + 90, in_flight=1)
    assert world.ordered("wake") == ["m-1"] * 6
    assert world.ordered("launch") == ["m-1"]


# ---- shared ----


def test_models_of_one_group_share_their_warm_replicas(world, settings):
    pool = {"max_warm": 2, "group": "llama"}
    spec = settings(pool=pool, window_s=1, scale_down_delay_s=5)
    world.configure(0, {M: spec, N: spec})
    world.report(0, in_flight=8)
    world.ready(1, "m-1")
    world.run(2, 20, in_flight=0, last_active=2)
    assert world.states() == {"m-1": "warm"}

    world.report(21, queued=1, model=N, gateway="h")
    assert orders(world, 21) == [("promote", "m-1")]
    (route,) = world.table.routes
    assert (route.replica_id, route.model, route.slots) == ("m-1", N, 8)


def test_without_a_group_every_replica_is_its_models_own(world, settings):
    pool = {"max_warm": 2}
    spec = settings(pool=pool, window_s=1, scale_down_delay_s=5)
    world.configure(0, {M: spec, N: spec})
    world.report(0, in_flight=8)
    world.ready(1, "m-1")
    world.run(2, 20, in_flight=0, last_active=2)
    world.report(21, queued=1, model=N, gateway="h")
    assert orders(world, 21) == [("launch", "n-1")]


# ---- a restart ----


def test_a_warm_one_that_is_found_again_waits_at_its_price_until_it_is_wanted_and_there_is_money(
    world, settings
):
    spec = settings(
        price=4.0, pool={"max_warm": 1, "warm_price_per_h": 0.5}, window_s=1, scale_down_delay_s=5
    )
    world.adopt(0, "m-1")
    world.adopt(0, "m-2", tier=Tier.WARM)
    world.configure(0, {M: spec}, max_cost_per_h=5.0)
    assert world.states() == {"m-1": "serving", "m-2": "warm"}
    assert world.slots() == {"m-1": 8, "m-2": 0}
    assert (world.desired(), world.brain.state(0.0).spending.per_h) == (1, 4.5)

    world.run(1, 5, in_flight=16)
    assert world.brain.state(5.0).spending.per_h == 4.5, "the cap holds"
    world.configure(6, {M: spec}, max_cost_per_h=8.0)
    assert world.orders == [(6, "promote", "m-2")]
    assert world.brain.state(6.0).spending.per_h == 8.0


def test_warm_ones_that_are_found_again_are_nobodys_need(world, settings):
    """Two served and two waited: two serve, however long no gateway says anything."""
    for name, tier in (("m-1", "serving"), ("m-2", "serving"), ("m-3", "warm"), ("m-4", "warm")):
        world.adopt(0, name, tier=Tier(tier))
    world.configure(0, {M: settings(pool={"max_warm": 2})})
    for at in range(1, 60):
        world.tick(at)
    assert world.orders == []
    assert world.states() == {"m-1": "serving", "m-2": "serving", "m-3": "warm", "m-4": "warm"}


# ---- money ----


def test_one_that_drains_out_of_the_pool_is_called_back_only_if_there_is_money_for_it(world, settings):
    pool = {"max_warm": 2, "warm_ttl_s": 20, "warm_price_per_h": 0.5}
    served(world, settings, 3, pool=pool, price=4.0)
    loads = {"m-1": 8, "m-2": 3, "m-3": 3}
    world.run(11, 60, in_flight=8, loads=loads)  # the two have drained since their time to live was over
    assert world.states() == {"m-1": "serving", "m-2": "draining", "m-3": "draining"}
    assert world.brain.state(60.0).spending.per_h == 5.0
    spec = settings(pool=pool, price=4.0, window_s=1, scale_down_delay_s=5, concurrency_target=8)
    world.configure(61, {M: spec}, max_cost_per_h=8.2)
    world.run(62, 64, in_flight=16, loads=loads)
    assert world.brain.state(64.0).spending.per_h == 5.0, "8.5 with one of them, while the other drains"
    world.exited(65, "m-3")
    world.run(66, 67, in_flight=16, loads=loads)
    assert world.states() == {"m-1": "serving", "m-2": "serving"}


def test_settings_without_a_pool_give_traffic_to_nobody_beyond_the_money(world, settings):
    served(world, settings, 2, pool={"max_warm": 1, "warm_price_per_h": 0.5}, price=4.0)
    world.run(11, 30, in_flight=8)
    assert world.states() == {"m-1": "serving", "m-2": "warm"}
    spec = settings(price=4.0, window_s=1, scale_down_delay_s=5, concurrency_target=8)
    world.configure(40, {M: spec}, max_cost_per_h=5.0)
    assert world.brain.state(40.0).spending.per_h <= 5.0
    world.run(41, 43, in_flight=16)
    assert world.brain.state(43.0).spending.per_h <= 5.0


# ---- settings that change ----


@pytest.mark.parametrize("state", ["warm", "sleeping"])
def test_without_a_pool_in_the_settings_what_waited_goes(world, settings, state):
    pool = {"max_warm": 1, "max_sleeping": 1, "sleep_after_s": 5.0 if state == "sleeping" else 900.0}
    served(world, settings, 1, pool=pool)
    world.run(11, 30, in_flight=0, last_active=10)
    if state == "sleeping":
        slept(world, 31, "m-1")
    assert world.states() == {"m-1": state}
    world.configure(40, {M: settings(window_s=1, scale_down_delay_s=5)})
    world.run(41, 43, in_flight=0, last_active=10)
    assert world.ordered("stop") == ["m-1"]


def test_a_warm_one_of_former_settings_is_not_used_again(world, settings):
    served(world, settings, 1, pool={"max_warm": 1})
    world.run(11, 30, in_flight=0, last_active=10)
    changed = replace(
        settings(pool={"max_warm": 1}, window_s=1, scale_down_delay_s=5), command_hash="another"
    )
    world.configure(40, {M: changed})
    world.report(41, queued=1)
    assert ("promote", "m-1") not in orders(world, 40)
    assert ("launch", "m-2") in orders(world, 40)
    assert world.brain.state(41.0).models[0].replicas[0].address == Address("127.0.0.1", 9001)


# ---- weights on the disk ----

GB = 10**9


def thrown_away(world, settings, pool, prefetch=Prefetching.AHEAD):
    """Each 200 s a second replica is needed for 20 s, and starts in 5 s, since its weights are on the disk. After 1,800 s
    they are thrown away; fetching them takes 100 s."""
    spec = settings(
        pool=pool, window_s=1, scale_down_delay_s=5, concurrency_target=8, price=1.0, min_replicas=1
    )
    world.configure(0, {M: replace(spec, prefetch=prefetch)})
    world.on(WeightsSeen(M, "n1", "hub", 10 * GB, 0, 10 * GB, 100.0), 0)
    due = {}
    for at in range(1_800):
        world.report(at, in_flight=16 if at % 200 < 20 else 8)
        world.tick(at)
        due |= {name: at + 5 for when, what, name in world.orders if what == "launch" and when == at}
        for name in [name for name, ready_s in due.items() if ready_s <= at]:
            world.ready(at, name)
            del due[name]
        for name in [name for when, what, name in world.orders if what == "stop" and when == at]:
            world.exited(at, name)
    world.on(WeightsSeen(M, "n1", "hub", 10 * GB, 10 * GB, 10 * GB, 100.0), 1_800)
    world.run(1_801, 1_830, in_flight=8)
    return [
        effect.because for _, _, effects in world.turns for effect in effects if isinstance(effect, Prefetch)
    ]


def test_weights_on_the_disk_are_bought_where_they_are_cheaper_than_a_sleeper(world, settings):
    """A start from the disk is early enough for the second replica; without it a sleeper at 0.50 an hour would be held."""
    fetched = thrown_away(
        world, settings, {"max_sleeping": 1, "sleeping_price_per_h": 0.5, "cached_price_per_h": 0.1}
    )

    assert fetched == ["the best mix for what its demand may rise by has its weights on the disk"]


def test_a_sleeper_that_costs_less_is_held_in_their_place(world, settings):
    assert not thrown_away(
        world, settings, {"max_sleeping": 1, "sleeping_price_per_h": 0.05, "cached_price_per_h": 0.1}
    )


def test_what_nothing_else_covers_is_worth_its_price(world, settings):
    """A wake-up of a minute would be too late, and a warm one may not be held."""
    assert thrown_away(
        world, settings, {"max_sleeping": 1, "expected_wake_s": 60.0, "cached_price_per_h": 0.9}
    )


def test_nothing_is_fetched_where_prefetching_is_off(world, settings):
    pool = {"max_sleeping": 1, "sleeping_price_per_h": 0.5, "cached_price_per_h": 0.1}

    assert not thrown_away(world, settings, pool, Prefetching.OFF)


# ---- what is said of it ----


def told(world, since=0):
    """When a pool was said to hold something, and what."""
    return [
        (at, said.warm, said.sleeping, said.held_by)
        for at, _, effects in world.turns
        for said in effects
        if isinstance(said, Pooled) and at >= since
    ]


def test_what_a_pool_is_to_hold_is_said_once_and_again_when_it_changes(world, settings):
    least = {"min_replicas": 1, "max_replicas": 4}
    world.configure(0, {M: settings(**least, pool={"min_warm": 1, "max_warm": 2})})
    world.ready(1, "m-1", 9001)
    world.ready(1, "m-2", 9002)
    world.run(1, 20, in_flight=2)
    assert told(world) == [(0, 1, 0, "min_warm")]

    world.configure(21, {M: settings(**least, pool={"min_warm": 2, "max_warm": 2})})
    world.run(22, 30, in_flight=2)
    assert told(world, 1) == [(21, 2, 0, "min_warm")]

    world.configure(31, {M: settings(**least, pool={"min_warm": 2, "max_warm": 2})}, max_replicas=2)
    world.run(32, 40, in_flight=2)
    assert told(world, 31) == [(31, 1, 0, "the fleet's caps")]

    world.configure(41, {M: settings(**least)}, max_replicas=2)
    world.run(42, 50, in_flight=2)
    assert told(world, 41) == [(41, 0, 0, None)]
