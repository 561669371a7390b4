"""Stories of LoRA adapters on replicas that run: which orders are given, when, and what the gateways are told."""

from dataclasses import replace
from math import nan

import pytest

from tidegate.core.effects import LoadAdapter, UnloadAdapter
from tidegate.core.events import AdapterSeen, EngineReported, ReplicaAdopted
from tidegate.core.fleet.aboard import UNLOADS_MAX, WITHIN_S
from tidegate.core.lifecycle import Seen
from tidegate.core.settings import Restarts
from tidegate.core.tiers import Tier
from tidegate.core.types import AdapterTrouble, Address, ModelId, ReplicaId

M = ModelId("m")
RESTARTS = Restarts(backoff_first_s=1.0, backoff_max_s=4.0, give_up_after=3, retry_failed_s=60.0)


@pytest.fixture
def adapted(settings):
    """Settings of a model with these adapters, as ``name`` or ``name@mark``."""

    def made(*written, at_start=False, loads=True, **more):
        found = [each.partition("@") for each in written]
        adapters = tuple((name, mark or f"{name}-1") for name, _, mark in found)
        spec = settings(**{"min_replicas": 1, "restarts": RESTARTS, **more})
        return replace(spec, adapters=adapters, loads_adapters=loads, adapters_at_start=at_start)

    return made


def told(effects):
    """The orders about adapters, as words."""
    words = {LoadAdapter: "load", UnloadAdapter: "unload"}
    return [(words[type(e)], e.replica_id, e.adapter) for e in effects if type(e) in words]


def seen(world, at, adapter, *, there=True, failed="", replica="m-1"):
    return told(world.on(AdapterSeen(ReplicaId(replica), adapter, there, failed), at))


def knows(world):
    return {route.replica_id: route.knows for route in world.table.routes}


def with_one(world, spec, *loaded):
    """One replica of ``spec`` serves and has these, at t=2."""
    world.configure(0, {M: spec})
    world.ready(1, "m-1")
    for adapter in loaded:
        seen(world, 2, adapter)


def test_a_replica_that_is_ready_is_given_one_adapter_after_the_other(world, adapted):
    world.configure(0, {M: adapted("red", "blue")})

    assert told(world.ready(1, "m-1")) == [("load", "m-1", "red")]
    assert knows(world) == {"m-1": ()}
    assert seen(world, 2, "red") == [("load", "m-1", "blue")]
    assert knows(world) == {"m-1": ("red",)}
    assert seen(world, 3, "blue") == []
    assert knows(world) == {"m-1": ("blue", "red")}


def test_an_engine_that_is_started_with_them_has_them_when_it_is_ready(world, adapted):
    world.configure(0, {M: adapted("red", at_start=True)})

    assert told(world.ready(1, "m-1")) == []
    assert knows(world) == {"m-1": ("red",)}
    assert told(world.configure(2, {M: adapted("red", "blue", at_start=True)})) == [("load", "m-1", "blue")]


def test_a_changed_list_starts_and_stops_nothing(world, adapted):
    with_one(world, adapted("red"), "red")
    before = list(world.orders)

    assert told(world.configure(10, {M: adapted("blue")})) == [("unload", "m-1", "red")]
    assert knows(world) == {"m-1": ()}  # nobody is sent there for it from this moment on
    assert seen(world, 11, "red", there=False) == [("load", "m-1", "blue")]
    seen(world, 12, "blue")
    world.run(13, 200)

    assert knows(world) == {"m-1": ("blue",)}
    assert world.orders == before


def test_what_somebody_waits_for_is_loaded_first(world, adapted):
    world.configure(0, {M: adapted("a", "b", "c", "d")})
    world.ready(1, "m-1")
    world.report(2, queued=1, adapters_awaited=("d",))

    assert seen(world, 3, "a") == [("load", "m-1", "d")]


def test_a_failed_load_is_tried_again_after_a_pause_that_doubles_and_then_seldom(world, adapted):
    with_one(world, adapted("red"))
    at, tries = 2.0, []
    for pause_s in (1, 2, 60, 60):
        assert seen(world, at, "red", there=False, failed="HTTP 500") == []
        assert told(world.tick(at + pause_s - 0.1)) == []
        at += pause_s
        tries += told(world.tick(at))

    assert tries == [("load", "m-1", "red")] * 4
    seen(world, at + 1, "red")
    assert knows(world) == {"m-1": ("red",)}


def test_the_brain_asks_to_be_woken_for_the_next_try(world, adapted):
    with_one(world, adapted("red"))
    seen(world, 2, "red", there=False, failed="HTTP 500")

    assert world.wake_s == 3.0


def test_while_one_fails_the_others_are_loaded(world, adapted):
    with_one(world, adapted("red", "blue"))

    assert seen(world, 2, "red", there=False, failed="HTTP 404") == [("load", "m-1", "blue")]
    assert seen(world, 2.5, "blue") == []
    assert told(world.tick(3)) == [("load", "m-1", "red")]


def test_the_gateways_hear_why_an_adapter_is_not_to_be_had_once_it_was_given_up(world, adapted):
    with_one(world, adapted("red"))
    for at in (2, 4):
        seen(world, at, "red", there=False, failed="HTTP 500")
        assert world.model_route().troubles == ()
        world.tick(at + 2)
    seen(world, 8, "red", there=False, failed="HTTP 500")

    trouble = AdapterTrouble("red", "the adapter 'red' could not be loaded: HTTP 500", 68.0)
    assert world.model_route().troubles == (trouble,)
    assert world.view(9).replicas[0].troubles == {"red": "HTTP 500"}
    world.tick(68)
    seen(world, 69, "red")
    assert world.model_route().troubles == ()


def test_one_that_another_replica_has_is_no_trouble(world, adapted):
    world.configure(0, {M: adapted("red", min_replicas=2)})
    world.ready(1, "m-1")
    world.ready(1, "m-2", 9001)
    seen(world, 2, "red", replica="m-2")
    for at in (2, 4, 8):
        seen(world, at, "red", there=False, failed="HTTP 500")
        world.tick(at + 3)

    assert world.model_route().troubles == ()
    assert knows(world) == {"m-1": (), "m-2": ("red",)}


def test_new_settings_are_a_new_chance(world, adapted):
    with_one(world, adapted("red"))
    for at in (2, 4, 8):
        seen(world, at, "red", there=False, failed="HTTP 500")
        world.tick(at + 2)

    assert told(world.configure(20, {M: adapted("red", slots=9)})) == [("load", "m-1", "red")]


def test_one_that_cannot_be_unloaded_is_let_be(world, adapted):
    with_one(world, adapted("red"), "red")
    orders = told(world.configure(10, {M: adapted()}))
    for at in (11, 20, 30):
        seen(world, at, "red", failed="HTTP 500")
        orders += told(world.tick(at + 5))

    assert orders == [("unload", "m-1", "red")] * UNLOADS_MAX
    assert knows(world) == {"m-1": ()}
    assert told(world.configure(50, {M: adapted("red")})) == [("load", "m-1", "red")]


def test_one_that_is_wanted_again_before_it_was_told_to_go_stays(world, adapted):
    with_one(world, adapted("red", "blue"), "red")  # blue is on its way
    world.configure(10, {M: adapted("blue")})
    assert knows(world) == {"m-1": ()}
    assert told(world.configure(11, {M: adapted("red", "blue")})) == []
    assert knows(world) == {"m-1": ("red",)}


def test_one_that_is_wanted_again_after_it_was_told_to_go_is_loaded_once_it_is_gone(world, adapted):
    with_one(world, adapted("red"), "red")
    world.configure(10, {M: adapted()})

    assert told(world.configure(11, {M: adapted("red")})) == []
    assert knows(world) == {"m-1": ()}
    assert seen(world, 12, "red", there=False) == [("load", "m-1", "red")]


def test_one_that_was_taken_out_while_it_was_loaded_is_unloaded_then(world, adapted):
    with_one(world, adapted("red"))
    assert told(world.configure(2, {M: adapted()})) == []

    assert seen(world, 3, "red") == [("unload", "m-1", "red")]
    assert knows(world) == {"m-1": ()}


def test_an_order_that_nothing_is_heard_of_is_given_again(world, adapted):
    with_one(world, adapted("red"))

    assert told(world.tick(WITHIN_S)) == []
    assert told(world.tick(WITHIN_S + 2)) == [("load", "m-1", "red")]


def test_a_name_from_another_source_replaces_the_replica(world, adapted):
    """What has been computed under an adapter is found by its name (vllm#42125)."""
    with_one(world, adapted("red"), "red")

    assert told(world.configure(10, {M: adapted("red@other")})) == []
    assert world.ordered("launch") == ["m-1", "m-2"]
    assert told(world.ready(20, "m-2", 9001)) == [("load", "m-2", "red")]
    assert world.states() == {"m-1": "draining", "m-2": "serving"}


def test_so_does_one_that_was_unloaded_in_between(world, adapted):
    with_one(world, adapted("red"), "red")
    world.configure(10, {M: adapted()})
    seen(world, 11, "red", there=False)
    world.configure(20, {M: adapted("red@other")})

    assert world.ordered("launch") == ["m-1", "m-2"]


def test_an_engine_that_cannot_load_any_is_told_nothing_and_its_routes_say_what_it_has(world, adapted):
    with_one(world, adapted("red", loads=False, at_start=True))

    assert knows(world) == {"m-1": ("red",)}
    other = replace(adapted("red", "blue", loads=False, at_start=True), command_hash="another")
    assert told(world.configure(10, {M: other})) == []
    world.ready(20, "m-2", 9001)
    assert knows(world) == {"m-1": ("red",), "m-2": ("blue", "red")}


def test_a_replica_of_a_former_run_has_what_it_had(world, adapted):
    world.on(
        ReplicaAdopted(
            ReplicaId("m-1"), M, Address("127.0.0.1", 9000), adapters={"red": "red-1"}, adapters_before={}
        ),
        0,
    )

    assert told(world.configure(1, {M: adapted("red", "blue")})) == [("load", "m-1", "blue")]
    assert knows(world) == {"m-1": ("red",)}


def test_one_of_a_former_run_that_has_had_the_name_from_elsewhere_is_replaced(world, adapted):
    world.on(
        ReplicaAdopted(
            ReplicaId("m-1"), M, Address("127.0.0.1", 9000), adapters={}, adapters_before={"red": "older"}
        ),
        0,
    )
    world.configure(1, {M: adapted("red")})
    world.report(2, in_flight=1)

    assert world.ordered("launch") == ["m-2"]


def test_a_sleeper_is_given_what_it_lacks_when_it_is_awake(world, adapted):
    spec = adapted("red", min_replicas=0, pool={"max_sleeping": 1}, window_s=1.0, scale_down_delay_s=1.0)
    world.on(ReplicaAdopted(ReplicaId("m-1"), M, Address("127.0.0.1", 9000), Tier.SLEEPING, adapters={}), 0)

    assert told(world.configure(1, {M: spec})) == []
    world.report(2, queued=1)
    assert world.ordered("wake") == ["m-1"]
    assert told(world.seen(3, "m-1", Seen.WOKEN)) == [("load", "m-1", "red")]


def test_models_without_adapters_are_routed_as_ever(world, settings):
    world.configure(0, {M: settings(min_replicas=1)})
    world.ready(1, "m-1")

    assert knows(world) == {"m-1": None}


def test_gateways_hear_what_an_engine_says_is_on_its_gpu(world, adapted):
    with_one(world, adapted("red", "blue"), "red", "blue")

    def on_gpu():
        return [route.adapters for route in world.table.routes]

    assert on_gpu() == [None]  # it has not said
    world.on(EngineReported(ReplicaId("m-1"), 1, 0, nan, ("red",)), 3)
    world.tick(4)
    assert on_gpu() == [("red",)]
    version = world.table.version
    world.on(EngineReported(ReplicaId("m-1"), 5, 2, 0.5, ("red",)), 5)
    world.tick(6)
    assert world.table.version == version  # no new table for what gateways know
    world.on(EngineReported(ReplicaId("m-1"), 5, 2, 0.5, ()), 7)
    world.tick(8)
    assert on_gpu() == [()]
