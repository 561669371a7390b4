"""Failures that users of other routers reported and that no other story tells; the numbers are those of docs/routing.md."""

import typing

from tidegate.core.dispatch import DispatchEvent
from tidegate.core.events import (
    ClientGone,
    EngineReported,
    Failure,
    FirstByte,
    ModelsConfigured,
    SignalsReported,
    Tick,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.settings import DispatchConfig, Routing
from unit.core.dispatch.dispatch_world import World, sent
from unit.core.dispatch.routing_world import chain, seconds_world


def at(effects):
    return [place for _, place in sent(effects)]


def test_nothing_that_an_engines_metrics_page_says_is_told_to_the_dispatcher():  # F3
    assert not {EngineReported, SignalsReported} & set(typing.get_args(DispatchEvent))


def test_a_request_of_two_hours_counts_until_it_ends():  # F7
    world = World(routing=Routing.LEAST_TOKENS)
    world.table(0, ("m-1", 2), ("m-2", 2))
    assert at(world.ask("long", 0.0, tokens=5_000, deadline_s=90_000.0)) == ["m-1"]
    world.on(FirstByte("long"), 1.0)

    for minute in range(1, 120):
        now_s = 60.0 * minute
        world.on(Tick(), now_s)
        world.table(now_s, ("m-1", 2), ("m-2", 2))
        assert at(world.ask(f"r{minute}", now_s, deadline_s=now_s + 60)) == ["m-2"]
        world.on(UpstreamEnded(f"r{minute}", 200), now_s + 1.0)

    assert [load.in_flight for load in world.report(7_200.0).replicas] == [1, 0]


def test_a_miss_goes_to_who_is_soonest_and_not_to_who_has_cached_least():  # F14
    world = seconds_world("busy", "cached")
    for n in range(20):
        world.serve("cached", 1_000, chain(*range(100 * n, 100 * n + 10)))
    for n in range(3):
        world.give("busy", 3_000, chain(*range(9_000 + 100 * n, 9_030 + 100 * n)))

    assert world.pick(1_000, chain(*range(50_000, 50_010))) == "cached"


def test_a_replica_that_swallows_everything_takes_nothing_from_the_others():  # F54
    world = World(routing=Routing.LEAST_TOKENS)
    world.table(0, ("m-1", 4), ("m-2", 4), ("m-3", 4))
    for n in range(12):
        world.ask(f"r{n}", 0.0, deadline_s=90.0)

    # The first answers nothing at all; the others have their places back at once, each time.
    for second in range(1, 20):
        for n in (4 * second + k for k in range(4)):
            world.ask(f"x{n}", second - 0.5, deadline_s=second + 90.0)
        for load in world.report(float(second)).replicas[1:]:
            for name in list(world.dispatcher._floor.seats[load.replica_id].in_flight)[:2]:
                world.on(UpstreamEnded(name, 200), float(second))
        assert world.report(float(second)).models[0].queued == 0


def test_a_replica_that_rests_does_not_weigh_on_how_the_others_share():  # F58
    shares = []
    for sick in (False, True):
        world = World()
        world.table(0, ("m-1", 64), ("m-2", 64), ("m-3", 64))
        if sick:
            world.ask("bad", 0.0)
            world.on(UpstreamFailed("bad", Failure.REFUSED, replica_id="m-1"), 0.0)
            world.on(UpstreamEnded("bad", 200), 0.1)
        places = []
        for n in range(60):
            places += at(world.ask(f"r{n}", 0.2 + 0.001 * n))
        shares.append([places.count(f"m-{n}") for n in (1, 2, 3)])

    assert shares == [[20, 20, 20], [0, 30, 30]]


def test_a_policy_that_is_read_again_while_the_queue_is_long_loses_nobody():
    world = World()
    world.table(0, ("m-1", 1))
    for n in range(5):
        world.ask(f"r{n}", 0.0)

    for routing in (Routing.LEAST_TOKENS, Routing.LEAST_SECONDS):
        assert world.on(ModelsConfigured({"m": DispatchConfig(routing=routing)}), 1.0) == []

    order = []
    for n in range(5):
        order += sent(world.on(UpstreamEnded(f"r{n}", 200), 2.0 + n))
    assert order == [(f"r{n}", "m-1") for n in range(1, 5)]


def test_of_what_waits_the_prompts_are_told_apart_from_the_answers_that_may_come():
    """Two prompts of 3,000 tokens wait with 500 of answer each; one leaves, the other is still there."""
    world = World()
    world.table(0.0, can_serve=True)
    for number in range(2):
        world.ask(f"r{number}", 0.0, tokens=3_000, output=500)

    both = world.report(1.0).models[0]
    assert (both.queued_tokens, both.queued_prompt_tokens) == (7_000, 6_000)
    world.on(ClientGone("r0"), 2.0)
    assert world.report(3.0).models[0].queued_prompt_tokens == 3_000
