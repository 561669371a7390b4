"""Stories of what gateways are told of a model, beside its replicas."""

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
