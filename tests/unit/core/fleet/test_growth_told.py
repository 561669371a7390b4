"""Stories of what gateways are told of a model, beside its replicas."""

from tidegate.core.fleet.coldstart import PROMOTION_S
from tidegate.core.lifecycle import State
from tidegate.core.tiers import Tier
from tidegate.core.types import ModelId

M = ModelId("m")


def growth(world):
    (route,) = world.table.models
    return route.growth_slots, route.growth_s


def test_gateways_hear_how_many_slots_may_still_come_and_how_soon(world, settings):
    world.configure(0, {M: settings(min_replicas=1, max_replicas=4, slots=8, start=30.0)})
    world.ready(20, "m-1")

    assert growth(world) == (24, 20.0)  # as measured

    world.configure(30, {M: settings(min_replicas=1, max_replicas=1, slots=8)})
    assert growth(world) == (0, None)


def test_what_a_cap_keeps_away_is_no_growth(world, settings):
    world.configure(0, {M: settings(min_replicas=1, max_replicas=4, slots=8)}, max_replicas=2)
    world.ready(20, "m-1")
    world.report(21, in_flight=8, queued=40)
    assert growth(world)[0] == 8  # the second comes up
    world.ready(40, "m-2")
    world.report(41, in_flight=16, queued=40)

    assert growth(world) == (0, None)


def test_how_soon_one_more_serves_goes_by_the_nearest_that_there_is(world, settings):
    pool = {"max_warm": 1, "max_sleeping": 1, "expected_wake_s": 4.0}
    world.configure(0, {M: settings(min_replicas=1, max_replicas=2, slots=8, start=90.0, pool=pool)})
    world.ready(90, "m-1")
    assert growth(world) == (8, 90.0)

    world.report(91, in_flight=16)
    world.ready(181, "m-2")
    assert growth(world) == (0, None)

    world.run(182, 260, in_flight=1)  # one is enough: the other is warm
    assert [route.state for route in world.table.routes] == [State.SERVING, State.WARM]
    assert growth(world) == (8, PROMOTION_S)


def test_a_sleeper_counts_by_how_long_it_takes_to_wake(world, settings):
    pool = {"max_sleeping": 1, "expected_wake_s": 4.0}
    world.configure(0, {M: settings(min_replicas=1, max_replicas=2, slots=8, start=90.0, pool=pool)})
    world.ready(90, "m-1")
    world.adopt(91, "m-2", tier=Tier.SLEEPING)
    world.report(92, in_flight=1)

    assert [route.state for route in world.table.routes] == [State.SERVING, State.SLEEPING]
    assert growth(world) == (8, 4.0)
