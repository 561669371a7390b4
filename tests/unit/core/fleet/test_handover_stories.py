"""A replica that goes because fewer are wanted is announced first, so that others can take over what it has cached."""

import pytest

from tidegate.core.types import ModelId

M, OTHER = ModelId("m"), ModelId("n")


def two_serve(world, settings, handover=5.0, **more):
    """At t=10; from t=12 on, one is enough for what was asked in the last second."""
    world.configure(0, {M: model(settings, handover, **more)})
    world.report(0, in_flight=16)
    world.ready(1, "m-1")
    world.ready(1, "m-2")
    world.run(2, 10, in_flight=16)


def model(settings, handover=5.0, **more):
    more = {"min_replicas": 1, "window_s": 1, "scale_down_delay_s": 5, "concurrency_target": 8} | more
    return settings(handover=handover, **more)


def leaves(world):
    return {route.replica_id: route.leaves_at_s for route in world.table.routes}


def until_announced(world, in_flight=8, since=11):
    """Goes on with less to do until a leave is announced; when that was."""
    for at in range(since, since + 20):
        world.run(at, at, in_flight=in_flight)
        if any(moment is not None for moment in leaves(world).values()):
            return at
    raise AssertionError("nobody leaves")


def test_it_serves_for_five_seconds_more_and_then_drains(world, settings):
    two_serve(world, settings)
    at = until_announced(world)
    assert leaves(world) == {"m-1": None, "m-2": at + 5.0}
    assert {one.replica_id: one.leaves_at_s for one in world.view(at).replicas} == leaves(world)
    assert world.slots() == {"m-1": 8, "m-2": 8}
    assert world.wake_s == at + 5.0

    world.run(at + 1, at + 4, in_flight=8)
    assert world.states() == {"m-1": "serving", "m-2": "serving"}
    world.tick(at + 5)

    assert world.states() == {"m-1": "serving", "m-2": "draining"}
    assert leaves(world)["m-2"] is None
    world.report(at + 6, in_flight=8)
    assert world.ordered("stop") == ["m-2"]


def test_who_was_announced_goes_whoever_has_least_to_lose_by_then(world, settings):
    two_serve(world, settings)
    at = until_announced(world)

    world.run(at + 1, at + 5, in_flight=8, loads={"m-1": 1, "m-2": 7})

    assert world.states() == {"m-1": "serving", "m-2": "draining"}


def test_demand_that_returns_calls_it_back(world, settings):
    two_serve(world, settings)
    at = until_announced(world)

    world.run(at + 2, at + 2, in_flight=16)
    assert leaves(world) == {"m-1": None, "m-2": None}
    world.run(at + 3, at + 9, in_flight=16)
    assert world.states() == {"m-1": "serving", "m-2": "serving"}
    assert world.ordered("launch") == ["m-1", "m-2"], "and nobody is started instead"

    again = until_announced(world, since=at + 10)
    assert leaves(world)["m-2"] == again + 5.0, "it has its whole time again"


def test_demand_that_rises_beyond_it_calls_it_back_too(world, settings):
    two_serve(world, settings)
    at = until_announced(world)

    world.run(at + 2, at + 2, in_flight=24)

    assert leaves(world) == {"m-1": None, "m-2": None, "m-3": None}
    assert world.states() == {"m-1": "serving", "m-2": "serving", "m-3": "requested"}


def test_when_the_one_that_stays_dies_the_other_stays(world, settings):
    two_serve(world, settings)
    at = until_announced(world)

    world.exited(at + 1, "m-1", "out of memory")

    assert leaves(world) == {"m-2": None}
    assert world.states() == {"m-2": "serving"}


def test_when_it_dies_itself_nobody_waits_for_it(world, settings):
    two_serve(world, settings)
    at = until_announced(world)

    world.exited(at + 1, "m-2", "out of memory")
    world.run(at + 2, at + 9, in_flight=8)

    assert world.states() == {"m-1": "serving"}
    assert world.ordered("launch") == ["m-1", "m-2"]


def test_two_that_follow_each_other_have_their_time_each(world, settings):
    world.configure(0, {M: model(settings)})
    world.report(0, in_flight=24)
    for name in ("m-1", "m-2", "m-3"):
        world.ready(1, name)
    world.run(2, 10, in_flight=24)
    at = until_announced(world, in_flight=16)
    assert leaves(world) == {"m-1": None, "m-2": None, "m-3": at + 5.0}

    world.run(at + 1, at + 3, in_flight=16)
    world.run(at + 4, at + 5, in_flight=8)
    assert world.states() == {"m-1": "serving", "m-2": "serving", "m-3": "draining"}
    later = until_announced(world, since=at + 6)
    assert leaves(world) == {"m-1": None, "m-2": later + 5.0, "m-3": None}
    world.run(later + 1, later + 5, in_flight=8, loads={"m-1": 8, "m-2": 0, "m-3": 1})

    assert world.states() == {"m-1": "serving", "m-2": "draining", "m-3": "draining"}


@pytest.mark.parametrize("handover", [0.0, 5.0])
def test_the_last_one_has_nobody_to_hand_over_to(world, settings, handover):
    world.configure(0, {M: model(settings, handover, min_replicas=0)})
    world.report(0, in_flight=8)
    world.ready(1, "m-1")
    world.run(2, 10, in_flight=8)

    world.run(11, 16, in_flight=0)

    assert world.states() == {"m-1": "draining"}


def test_without_a_handover_it_drains_in_the_turn_in_which_fewer_are_wanted(world, settings):
    two_serve(world, settings, handover=0.0)
    turn = next(at for at in range(11, 30) if not world.run(at, at, in_flight=8) and world.desired() == 1)
    assert world.states() == {"m-1": "serving", "m-2": "draining"}
    assert turn <= 16


def test_one_at_which_requests_fail_goes_at_once(world, settings):
    two_serve(world, settings)
    at = until_announced(world)

    world.report(at + 1, in_flight=8, failing={"m-2": 9})

    assert world.states()["m-2"] == "draining"


def test_one_that_a_cap_takes_goes_at_once(world, settings):
    two_serve(world, settings)

    world.configure(11, {M: model(settings)}, max_replicas=1)

    assert world.states() == {"m-1": "serving", "m-2": "draining"}


def test_a_model_that_is_removed_meanwhile_goes_at_once(world, settings):
    two_serve(world, settings)
    at = until_announced(world)

    world.configure(at + 1, {OTHER: model(settings)})

    assert world.states() == {"m-1": "draining", "m-2": "draining", "n-1": "requested"}


def test_who_goes_to_the_pool_is_announced_as_well(world, settings):
    two_serve(world, settings, pool={"max_warm": 1})
    at = until_announced(world)
    assert leaves(world)["m-2"] == at + 5.0

    world.run(at + 1, at + 5, in_flight=8)

    assert world.states() == {"m-1": "serving", "m-2": "warm"}
    assert world.ordered("demote") == ["m-2"]
