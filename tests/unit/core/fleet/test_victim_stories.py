"""Which of those that serve goes when one is too many: the one whose end costs least."""

from dataclasses import replace

import pytest

from tidegate.core.events import DemandReported, FleetConfigured
from tidegate.core.settings import FleetLimits
from tidegate.core.types import DemandReport, ModelDemand, ModelId, ReplicaId, ReplicaLoad

M = ModelId("m")
OF_ONE = {"min_replicas": 1, "window_s": 1, "scale_down_delay_s": 5, "concurrency_target": 8}


def serve(world, settings, count, **more):
    """So many serve at t=10, and all have something to do."""
    world.configure(0, {M: settings(**OF_ONE, **more)})
    world.report(0, in_flight=8 * count)
    for number in range(1, count + 1):
        world.ready(1, f"m-{number}")
    world.run(2, 10, in_flight=8 * count)


def less_to_do(world, in_flight, loads, *, gateway="g"):
    """From t=11 on, until somebody drains; each replica with its tokens in flight and what it alone has, in seconds."""
    told = tuple(
        ReplicaLoad(ReplicaId(name), 1, tokens, 0, alone_s) for name, (tokens, alone_s) in loads.items()
    )
    demand = ModelDemand(M, 0, in_flight, in_flight, 0, 0, 0, 0, 0, 0.0, None)
    for at in range(11, 40):
        world.on(DemandReported(DemandReport(gateway, world.table.version, (demand,), told)), at)
        world.tick(at)
        leaving = [name for name, state in world.states().items() if state == "draining"]
        if leaving:
            return leaving
    raise AssertionError("nobody goes")


def test_of_two_as_busy_the_one_whose_cache_nobody_else_has_stays(world, settings):
    serve(world, settings, 2)

    assert less_to_do(world, 8, {"m-1": (400, 0.0), "m-2": (400, 12.0)}) == ["m-1"]


def test_with_nothing_between_them_the_newest_goes(world, settings):
    serve(world, settings, 2)

    assert less_to_do(world, 8, {"m-1": (400, 3.0), "m-2": (400, 3.0)}) == ["m-2"]


@pytest.mark.parametrize("tokens, goes", [(2_000, "m-2"), (8_000, "m-1")])
def test_an_answer_that_takes_long_weighs_as_much_as_a_cache(world, settings, tokens, goes):
    """Two seconds of prefill on the first; 2,000 tokens in flight on the second are one second's work, 8,000 are four."""
    serve(world, settings, 2)

    assert less_to_do(world, 8, {"m-1": (0, 2.0), "m-2": (tokens, 0.0)}) == [goes]


def test_what_cannot_be_a_number_counts_as_nothing(world, settings):
    serve(world, settings, 2)

    assert less_to_do(world, 8, {"m-1": (0, 1.0), "m-2": (0, float("nan"))}) == ["m-2"]


@pytest.mark.parametrize("alone_s, goes", [(30.0, "m-2"), (900.0, "m-1")])
def test_a_dear_one_goes_unless_what_it_has_is_worth_more(world, settings, alone_s, goes):
    """The second was started when a replica cost twice as much: ten minutes without it save ten minutes of another."""
    world.configure(0, {M: settings(**OF_ONE, price=1.0)})
    world.report(0, in_flight=8)
    world.ready(1, "m-1")
    dear = replace(settings(**OF_ONE), price_per_h=2.0)
    world.on(FleetConfigured({M: dear}, FleetLimits(), ()), 2)
    world.report(2, in_flight=16)
    world.ready(3, "m-2")
    world.run(3, 10, in_flight=16)

    assert less_to_do(world, 8, {"m-1": (0, 0.0), "m-2": (0, alone_s)}) == [goes]
