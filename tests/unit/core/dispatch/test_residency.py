"""Stories of LoRA adapters: where each is, what using it costs, and when it gets a second place."""

import pytest

from tidegate.core.dispatch.routing.residency import DISK_PRIOR_S, HOMELESS_FOR, HOST_PRIOR_S, Residency
from unit.core.dispatch.routing_world import seconds_world


def two(slots=2, *names):
    residency = Residency(slots)
    for name in names or ("a", "b"):
        residency.open(name)
    return residency


def used(residency, replica, *adapters):
    """Requests with these, one after the other, that have ended."""
    for adapter in adapters:
        residency.use(replica, adapter)
        residency.end(replica, adapter)


def test_the_order_is_gpu_then_a_free_slot_then_an_idle_one_that_must_go_then_a_full_replica():
    residency = two(2, "gpu", "host", "free", "evictable", "full")
    used(residency, "gpu", "x")
    used(residency, "host", "y", "p", "q")  # "y" was loaded there before
    used(residency, "evictable", "r", "s")
    for adapter in ("t", "u"):
        residency.use("full", adapter)  # at work

    cost = {name: residency.seconds(name, "x") for name in ("gpu", "free", "evictable", "full")}

    assert cost["gpu"] == 0.0
    assert sorted(cost, key=cost.get) == ["gpu", "free", "evictable", "full"]
    assert residency.seconds("host", "y") < residency.seconds("evictable", "y")


def test_an_adapter_that_nobody_has_costs_its_load_from_disk():  # F28
    residency = two()

    assert residency.seconds("a", "x") == residency.seconds("b", "x") == DISK_PRIOR_S


def test_one_that_is_loaded_and_idle_is_still_there():  # F26
    residency = two()
    used(residency, "a", "x")

    assert residency.seconds("a", "x") == 0.0
    assert residency.seconds("b", "x") > 0.0


def test_the_least_recently_used_idle_one_makes_room():
    residency = two(2)
    used(residency, "a", "x", "y")
    used(residency, "a", "x")
    used(residency, "a", "z")

    assert residency.on_gpu("a") == ("x", "z")
    assert residency.seconds("a", "y") == pytest.approx(
        HOST_PRIOR_S + HOST_PRIOR_S
    )  # back from host, and "x" again
    assert residency.loads_total == 3


def test_one_at_work_is_not_put_out():
    residency = two(2)
    residency.use("a", "x")
    used(residency, "a", "y")
    used(residency, "a", "z")

    assert residency.on_gpu("a") == ("x", "z")


def test_an_engine_that_says_what_it_has_is_believed_but_for_what_is_at_work():
    residency = two(4)
    used(residency, "a", "x")
    residency.use("a", "y")

    residency.believe("a", ("z",))

    assert set(residency.on_gpu("a")) == {"y", "z"}
    assert residency.seconds("a", "z") == 0.0
    assert residency.seconds("a", "x") == pytest.approx(HOST_PRIOR_S)


def test_a_second_copy_is_left_alone_while_others_have_no_place():
    residency = two(1)
    used(residency, "a", "x")
    used(residency, "b", "x")
    used(residency, "b", "y")
    used(residency, "b", "x")  # and "y" lost its only place

    assert residency.seconds("a", "x") == 0.0
    assert residency.seconds("b", "x") == HOST_PRIOR_S  # using this copy keeps it where "y" could be
    for _ in range(HOMELESS_FOR + 64):
        used(residency, "a", "x")
    assert residency.seconds("b", "x") == 0.0  # nobody asked for "y" again


def test_a_replica_that_is_gone_takes_its_adapters_along():
    residency = two()
    used(residency, "a", "x")

    residency.close("a")
    residency.open("a")

    assert residency.seconds("a", "x") == DISK_PRIOR_S
    residency.end("gone", "x")  # a late fact changes nothing


def test_how_long_loads_take_is_learned_for_host_and_disk_apart():
    residency = two()
    for _ in range(40):
        residency.learn(residency.disk_s, 3.0)
        residency.learn(residency.host_s, 0.05)

    assert residency.disk_s == pytest.approx(3.0, rel=0.01)
    assert residency.host_s == pytest.approx(0.05, rel=0.01)


# ---- through the router ----


def test_requests_follow_their_adapter():
    world = seconds_world("a", "b")
    world.end("b", world.give("b", 100, adapter="x"))
    world.give("b", 100)  # a short prompt before it is sooner done than a load

    assert world.pick(100, adapter="x") == "b"
    assert world.pick(100, adapter="y") == "a"


def test_an_adapter_that_needs_two_replicas_gets_two():
    world = seconds_world("a", "b")
    world.end("a", world.give("a", 100, adapter="x"))

    places = []
    for _ in range(20):
        places.append(world.pick(2_000, adapter="x"))
        world.give(places[-1], 2_000, adapter="x")

    # 2,000 tokens take 0.17 s by the prior and the load about a second: the sixth or so goes to the other.
    assert places[:4] == ["a"] * 4
    assert 5 <= places.count("b") <= 10


def test_a_route_that_names_the_engines_adapters_is_believed():
    world = seconds_world("a", "b", adapters=("x",))

    assert world.picker.insight.adapters.on_gpu("b") == ("x",)
    assert world.pick(100, adapter="x") == "a"
