"""Stories of requests for LoRA adapters that not every replica has: who waits, who passes, who is refused."""

from tidegate.core.effects import Report
from tidegate.core.events import ModelsConfigured, RouteTableChanged, Tick, UpstreamEnded
from tidegate.core.lifecycle import State
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import DispatchConfig, QueueLimits
from tidegate.core.types import AdapterTrouble, Address, ModelRoute, Route, RouteTable
from unit.core.dispatch.dispatch_world import World, outcomes, rejected, sent

HERE = Address("127.0.0.1", 1)


def table(world, now_s, troubles=(), **replicas):
    """Replicas by name, each with its slots and the adapters that it has; None: any."""
    world.version += 1
    routes = tuple(
        Route(name, "m", State.SERVING, HERE, slots, "vllm", knows=knows)
        for name, (slots, knows) in replicas.items()
    )
    models = (ModelRoute("m", True, troubles=tuple(troubles)),)
    return world.on(RouteTableChanged(RouteTable(world.version, models, routes)), now_s)


def ended(world, name, now_s, replica):
    return world.on(UpstreamEnded(name, 200, 100, 0, 10, replica_id=replica), now_s)


def test_only_a_replica_that_has_the_adapter_gets_its_requests():
    world = World()
    table(world, 0, a=(8, ()), b=(8, ("red",)))

    assert [sent(world.ask(f"r{n}", 1 + n, adapter="red")) for n in range(3)] == [
        [(f"r{n}", "b")] for n in range(3)
    ]
    assert sent(world.ask("plain", 5)) == [("plain", "a")]


def test_who_waits_for_an_adapter_that_nobody_has_holds_up_nobody_and_is_sent_when_it_is_there():
    world = World()
    table(world, 0, a=(8, ()))

    asked = world.ask("red", 1, adapter="red")
    assert sent(asked) == []
    assert [e.report.models[0].adapters_awaited for e in asked if isinstance(e, Report)] == [("red",)]
    assert sent(world.ask("plain", 2)) == [("plain", "a")]
    assert sent(table(world, 3, a=(8, ("red",)))) == [("red", "a")]
    assert world.report(4).models[0].adapters_awaited == ()


def test_the_controller_is_told_once_for_many_who_wait_for_the_same():
    world = World()
    table(world, 0, a=(8, ()))
    reports = [world.ask(f"r{n}", 1 + n / 10, adapter="red") for n in range(5)]

    assert [any(isinstance(e, Report) for e in effects) for effects in reports] == [True, *[False] * 4]
    assert world.report(2).models[0].queued == 5


def test_a_full_replica_that_alone_has_an_adapter_does_not_keep_others_from_a_free_one():
    world = World()
    table(world, 0, a=(1, ("red",)), b=(1, ()))
    world.ask("first", 1, adapter="red")
    world.ask("second", 2, adapter="red")

    assert sent(world.ask("plain", 3)) == [("plain", "b")]
    assert sent(ended(world, "first", 4, "a")) == [("second", "a")]


def test_who_was_set_aside_keeps_its_turn_before_those_who_came_later():
    world = World()
    table(world, 0, a=(1, ("red",)), b=(1, ()))
    world.ask("first", 1, adapter="red")
    world.ask("second", 2, adapter="red")
    world.ask("plain", 3)
    world.ask("third", 4, adapter="red")
    world.ask("later", 5)

    assert sent(ended(world, "first", 6, "a")) == [("second", "a")]
    assert sent(ended(world, "plain", 7, "b")) == [("later", "b")]
    assert sent(ended(world, "second", 8, "a")) == [("third", "a")]


def test_at_zero_replicas_it_waits_like_everybody_and_in_its_turn():
    world = World()
    world.table(0, can_serve=True)
    for name, adapter in (("red", "red"), ("plain", None)):
        world.ask(name, 1, adapter=adapter)

    assert sent(table(world, 9, a=(1, ()))) == [("plain", "a")]
    assert sent(ended(world, "plain", 10, "a")) == []
    assert sent(table(world, 11, a=(1, ("red",)))) == [("red", "a")]


def test_an_adapter_that_cannot_be_loaded_is_said_so_at_once_and_to_those_who_wait():
    world = World()
    table(world, 0, a=(8, ()))
    world.ask("waits", 1, adapter="red")
    trouble = AdapterTrouble("red", "the adapter 'red' could not be loaded: HTTP 500", 30.0)

    told = table(world, 5, (trouble,), a=(8, ()))
    assert outcomes(told) == [("waits", Outcome.REJECTED_NOBODY)]
    order = rejected(world.ask("new", 10, adapter="red"))
    assert (order.outcome, order.because, order.retry_after_s) == (
        Outcome.REJECTED_NOBODY,
        "the adapter 'red' could not be loaded: HTTP 500",
        20.0,
    )
    assert sent(world.ask("other", 11)) == [("other", "a")]


def test_who_waits_for_an_adapter_that_is_taken_out_of_the_policy_is_told_so():
    world = World(adapters=("red", "blue"))
    table(world, 0, a=(8, ("blue",)))
    world.ask("red", 1, adapter="red")

    effects = world.on(ModelsConfigured({"m": DispatchConfig(adapters=("blue",))}), 2)
    assert outcomes(effects) == [("red", Outcome.REJECTED_UNKNOWN_MODEL)]
    assert "no adapter 'red'" in rejected(effects).because


def test_one_that_is_being_answered_is_answered_to_its_end():
    world = World(adapters=("red",))
    table(world, 0, a=(8, ("red",)))
    world.ask("red", 1, adapter="red")
    world.on(ModelsConfigured({"m": DispatchConfig(adapters=())}), 2)
    table(world, 2, a=(8, ()))

    assert outcomes(ended(world, "red", 5, "a")) == [("red", Outcome.COMPLETED)]


def test_whoever_waits_too_long_for_an_adapter_hears_what_it_waited_for():
    world = World(queue=QueueLimits(max_wait_busy_s=20.0))
    table(world, 0, a=(8, ()))
    world.ask("red", 1, adapter="red")

    assert outcomes(world.on(Tick(), 20)) == []
    order = rejected(world.on(Tick(), 21))
    assert order.outcome is Outcome.EXPIRED_NOBODY
    assert order.because == "no replica had loaded the adapter 'red' within 20.0 s"


def test_places_of_those_set_aside_count_against_the_bound():
    world = World(queue=QueueLimits(max_requests=2))
    table(world, 0, a=(8, ()))
    for n in range(2):
        world.ask(f"r{n}", 1, adapter="red")

    assert rejected(world.ask("r2", 1, adapter="red")).outcome is Outcome.REJECTED_FULL
    assert sent(world.ask("plain", 2)) == [("plain", "a")]


def test_a_flood_for_an_adapter_that_nobody_has_makes_room_for_a_higher_class_and_for_other_tenants():
    world = World(queue=QueueLimits(max_requests=4))
    table(world, 0, a=(1, ()))
    world.ask("runs", 0.5)
    for n in range(4):
        assert outcomes(world.ask(f"red {n}", 1 + n / 10, adapter="red", flow="loud")) == []

    assert outcomes(world.ask("high", 2, priority=1)) == [("red 3", Outcome.REJECTED_FULL)]
    assert outcomes(world.ask("quiet", 3, flow="quiet")) == [("red 2", Outcome.REJECTED_FULL)]
    assert outcomes(world.ask("red 9", 4, adapter="red", flow="loud")) == [("red 9", Outcome.REJECTED_FULL)]
    assert sent(ended(world, "runs", 5, "a")) == [("high", "a")]


def test_who_was_set_aside_and_is_answered_leaves_its_place_in_the_queue_of_all_models():
    world = World()
    world.on(ModelsConfigured({"m": DispatchConfig()}, QueueLimits(max_requests=3)), 0.0)
    for n in range(10):
        table(world, 10.0 * n, a=(8, ()))
        assert outcomes(world.ask(f"red {n}", 10.0 * n + 1, adapter="red")) == []
        assert sent(table(world, 10.0 * n + 2, a=(8, ("red",)))) == [(f"red {n}", "a")]
        ended(world, f"red {n}", 10.0 * n + 3, "a")


def test_a_replica_without_a_list_takes_any_adapter():
    world = World()
    table(world, 0, a=(8, None))

    assert sent(world.ask("red", 1, adapter="red")) == [("red", "a")]
