"""Replicas over time: starting, failing, giving up, draining, ending; and what the gateways are told."""

import pytest

from tidegate.core.effects import Launch, PublishRoutes, Stop
from tidegate.core.events import EngineReported
from tidegate.core.lifecycle import Seen, State
from tidegate.core.settings import Restarts
from tidegate.core.types import ModelId, ReplicaId

M = ModelId("m")


def stops(world):
    return {effect.replica_id: effect.because for effect in world.effects if isinstance(effect, Stop)}


def grown(world, settings, replicas, **more):
    """A fleet of so many that serve, at t=10, each with as many requests as its number."""
    more = {"min_replicas": 1, "window_s": 1, "scale_down_delay_s": 5, "concurrency_target": 8} | more
    world.configure(0, {M: settings(**more)})
    world.report(0, in_flight=8 * replicas)
    for n in range(1, replicas + 1):
        world.ready(1, f"m-{n}", 9000 + n)
    world.run(2, 10, in_flight=8 * replicas)
    return {f"m-{n}": n for n in range(1, replicas + 1)}


# ---- starting ----


def test_ready_is_routed_in_the_same_turn(world, settings):
    world.configure(0, {M: settings(start=40)})
    world.report(1, queued=1)
    (route,) = world.table.routes
    assert (route.state, route.slots, route.address, route.expected_ready_s) == (State.REQUESTED, 0, None, 41)
    assert world.model_route().expected_ready_s == 41

    world.seen(2, "m-1", Seen.STARTING)
    assert world.states() == {"m-1": "starting"}
    effects = world.ready(12, "m-1")
    assert [type(effect) for effect in effects] == [PublishRoutes]
    (route,) = world.table.routes
    assert (route.state, route.slots, route.expected_ready_s) == (State.SERVING, 8, None)


def test_the_expected_start_is_learned_from_the_last_ones(world, settings):
    world.configure(0, {M: settings(min_replicas=3, start=40)})
    world.ready(10, "m-1")
    world.ready(12, "m-2")
    world.ready(90, "m-3")
    world.exited(100, "m-1")

    (coming,) = [route for route in world.table.routes if route.state is State.REQUESTED]
    assert coming.expected_ready_s == 100 + 12


def test_an_expected_moment_that_has_passed_is_not_told_as_a_wait(world, settings):
    world.configure(0, {M: settings(min_replicas=1, start=40)})
    assert world.model_route().expected_ready_s == 40
    world.tick(41)
    assert world.model_route().expected_ready_s is None
    assert world.model_route().can_serve


def test_ready_without_an_address_waits_for_one(world, settings):
    world.configure(0, {M: settings(min_replicas=1)})
    world.seen(1, "m-1", Seen.READY)
    assert world.states() == {"m-1": "warm"}
    world.ready(2, "m-1")
    assert world.states() == {"m-1": "serving"}


def test_late_and_doubled_reports_change_nothing(world, settings):
    world.configure(0, {M: settings(min_replicas=1)})
    world.ready(1, "m-1")
    version = world.table.version
    for seen in (Seen.STARTING, Seen.PULLING, Seen.READY, Seen.PROMOTED, Seen.DEMOTED, Seen.UNWANTED):
        assert world.seen(2, "m-1", seen) == []
    assert world.table.version == version
    assert world.states() == {"m-1": "serving"}


def test_ids_go_on_from_the_highest_ever_seen_and_are_safe_names(world, settings):
    qwen = ModelId("Qwen/Qwen3 8B")
    world.adopt(0, "Qwen-Qwen3-8B-41", qwen)
    world.configure(0, {qwen: settings(min_replicas=2), M: settings(min_replicas=1)})
    world.exited(1, "m-6")
    world.exited(2, "m-1")
    world.tick(5)

    assert world.ordered("launch") == ["Qwen-Qwen3-8B-42", "m-1", "m-7"]


def test_two_models_whose_names_look_alike_never_share_an_id(world, settings):
    world.configure(0, {ModelId("a/b"): settings(min_replicas=2), ModelId("a-b"): settings(min_replicas=2)})
    launched = world.ordered("launch")
    assert len(launched) == len(set(launched)) == 4


# ---- failing ----


def test_a_model_whose_start_always_fails_is_given_up_with_its_reason_and_tried_again_later(world, settings):
    world.configure(
        0, {M: settings(restarts=Restarts(backoff_first_s=1, give_up_after=4, retry_failed_s=300))}
    )
    world.report(0, queued=1)
    tries = []
    for _ in range(3):
        tries.append(world.orders[-1][0])
        name = world.orders[-1][2]
        world.exited(tries[-1], name, "exit code 1\nGGUF: bad magic")
        assert world.model_route().can_serve
        world.tick(world.wake_s)
    tries.append(world.orders[-1][0])
    assert tries == [0, 1, 3, 7]

    world.exited(7, "m-4", "exit code 1\nGGUF: bad magic")
    route = world.model_route()
    assert not route.can_serve
    assert route.because == "it failed 4 times in a row, last: exit code 1 GGUF: bad magic"
    assert (
        route.expected_ready_s == 307
    )  # not before; nobody knows how long a start takes that never succeeded

    # The waiting request got its 503; after the retry time the model may be asked for again.
    world.run(8, 306, in_flight=0)
    assert not world.model_route().can_serve
    world.run(307, 320, in_flight=0)
    assert world.model_route().can_serve
    assert len(world.ordered("launch")) == 4

    world.report(321, queued=1)
    assert len(world.ordered("launch")) == 5
    world.exited(322, "m-5", "exit code 1")
    assert not world.model_route().can_serve
    assert world.view(322).last_failure.detail == "exit code 1"


def test_new_settings_are_a_new_chance(world, settings):
    world.configure(0, {M: settings(min_replicas=1, restarts=Restarts(give_up_after=1))})
    world.exited(1, "m-1", "no such file")
    assert not world.model_route().can_serve

    world.configure(2, {M: settings(min_replicas=1, restarts=Restarts(give_up_after=1))})
    assert not world.model_route().can_serve, "the same settings are no change"

    world.configure(3, {M: settings(min_replicas=1, slots=4, restarts=Restarts(give_up_after=1))})
    assert world.ordered("launch") == ["m-1", "m-2"]
    assert world.model_route().can_serve


def test_a_wave_that_fails_together_is_one_failure(world, settings):
    world.configure(0, {M: settings(min_replicas=5)})
    for n in range(1, 6):
        world.exited(1, f"m-{n}", "out of memory")
    assert world.view(1).failures == 1

    # Then one at a time, until one has come up.
    world.tick(2)
    assert world.ordered("launch")[5:] == ["m-6"]
    world.tick(3)
    world.ready(4, "m-6")
    assert world.ordered("launch")[6:] == ["m-7", "m-8", "m-9", "m-10"]


def test_ready_and_dead_soon_after_is_a_failure_too(world, settings):
    world.configure(0, {M: settings(min_replicas=1, restarts=Restarts(give_up_after=3))})
    at = 0.0
    for n in (1, 2, 3):
        world.ready(at + 1, f"m-{n}")
        world.run(at + 2, at + 20, in_flight=1)
        world.exited(at + 21, f"m-{n}", "illegal memory access")
        assert world.model_route().can_serve == (n < 3)
        at = world.wake_s
        world.tick(at)
    assert world.view(at).failures == 3


def test_one_that_served_long_is_replaced_at_once_and_old_failures_are_forgotten(world, settings):
    world.configure(0, {M: settings(min_replicas=1)})
    world.exited(1, "m-1", "port in use")
    world.tick(2)
    world.ready(3, "m-2")
    world.tick(62)
    assert world.view(62).failures == 1
    world.tick(63)
    assert world.view(63).failures == 0

    world.exited(64, "m-2", "killed")
    assert world.orders[-1] == (64, "launch", "m-3")
    assert world.view(64).failures == 0
    assert world.view(64).last_failure.detail == "killed"

    world.ready(65, "m-3")
    world.exited(125, "m-3", "killed")
    assert world.view(125).failures == 0, "60 s are 60 s, also when no tick came in between"


def test_a_start_that_takes_too_long_is_stopped_and_tried_again(world, settings):
    """Ready after 20 s with a limit of 15 s: failed once, and tried again under back-off."""
    world.configure(0, {M: settings(min_replicas=1, start_deadline=15)})
    world.seen(1, "m-1", Seen.LOADING)
    assert world.wake_s == 15
    world.tick(15)
    assert stops(world) == {"m-1": "not ready 15 s after its launch, last seen loading"}
    world.exited(15.5, "m-1")
    world.tick(16)
    assert world.ordered("launch") == ["m-1", "m-2"]

    world.ready(20, "m-1")
    assert world.states() == {"m-2": "requested"}


def test_starts_that_never_make_it_in_time_are_tried_ever_more_seldom_and_said_to_fail(world, settings):
    """Ready after 23 s with a limit of 5 s. Twice as long a wait each time, and after three one start in ten minutes."""
    restarts = Restarts(backoff_first_s=10, backoff_max_s=60, give_up_after=3, retry_failed_s=600)
    world.configure(0, {M: settings(min_replicas=1, start_deadline=5, restarts=restarts)})
    ended = 0
    for second in range(1, 1_300):
        world.tick(second)
        if len(world.ordered("stop")) > ended:
            ended += 1
            world.exited(second, f"m-{ended}")

    assert [at for at, order, _ in world.orders if order == "launch"] == [0, 15, 40, 645, 1_250]
    assert "not ready 5 s after its launch" in world.model_route().because
    assert "failed 5 times in a row" in world.model_route().because


def test_an_end_that_is_not_seen_is_ordered_again_and_keeps_its_room(world, settings):
    world.configure(0, {M: settings(min_replicas=1, gpus=1, start_deadline=15)}, max_gpus=1)
    world.tick(15)
    world.tick(30)
    assert world.ordered("stop") == ["m-1"]
    assert world.ordered("launch") == ["m-1"], "its GPU is not known to be free"

    world.tick(45)
    assert world.ordered("stop") == ["m-1", "m-1"]
    world.exited(46, "m-1")
    assert world.ordered("launch") == ["m-1", "m-2"]


def test_a_crash_loop_does_not_look_like_demand_and_is_capped_by_the_hour(world, settings):
    """A version that exits before it serves, under light steady load."""
    restarts = Restarts(backoff_first_s=1, backoff_max_s=2, give_up_after=1000)
    world.configure(0, {M: settings(restarts=restarts)}, max_starts_per_hour=10)
    at, launched = 0.0, 0
    while at < 3599:
        world.report(at, queued=2)
        if len(world.ordered("launch")) > launched:
            launched += 1
            world.exited(at + 0.5, f"m-{launched}", "exit code 1")
        at += 1
    assert launched == 10
    assert max(decision.desired for decision in world.decisions) == 1
    assert world.view(3599).decision.held_by == "fleet.max_starts_per_hour"


def test_when_the_hour_is_used_up_nobody_is_left_waiting(world, settings):
    world.configure(0, {M: settings(min_replicas=1, start=30)}, max_starts_per_hour=1)
    world.ready(20, "m-1")
    world.run(21, 99, in_flight=1)
    world.exited(100, "m-1", "killed")

    route = world.model_route()
    assert not route.can_serve
    assert route.because == "all 1 starts allowed in an hour are used"
    assert route.expected_ready_s == 3600 + 20
    assert world.wake_s == 3600

    world.tick(3600)
    assert world.ordered("launch") == ["m-1", "m-2"]
    assert world.model_route().can_serve


def test_a_working_model_whose_next_start_fails_shows_failed_with_the_last_words(world, settings):
    restarts = Restarts(give_up_after=2)
    world.configure(0, {M: settings(restarts=restarts, window_s=1, scale_down_delay_s=5)})
    world.report(0, queued=1)
    world.ready(1, "m-1")
    world.run(2, 70, in_flight=0, last_active=2)
    world.exited(71, "m-1")
    world.report(80, queued=1)
    world.exited(81, "m-2", "CUDA error: no kernel image")
    world.tick(82)
    world.exited(83, "m-3", "CUDA error: no kernel image")

    view = world.view(83)
    assert not view.can_serve
    assert view.because.endswith("CUDA error: no kernel image")


# ---- caps ----


def test_caps_over_all_models_hold_and_the_decision_says_which(world, settings):
    a, b = ModelId("a"), ModelId("b")
    one_gpu = settings(min_replicas=1, gpus=1, price=2.0)
    world.configure(0, {a: one_gpu, b: settings(min_replicas=2, gpus=2, price=4.0)}, max_gpus=4)
    assert sorted(world.ordered("launch")) == ["a-1", "b-1"]
    assert world.view(0, b).decision.held_by == "fleet.max_gpus"

    world.report(1, queued=80, model=a)
    assert sorted(world.ordered("launch")) == ["a-1", "a-2", "b-1"]
    assert world.view(1, a).decision.because.endswith("fleet.max_gpus leaves 2")


def test_a_model_without_room_says_so_and_starts_when_room_is_left(world, settings):
    a, b = ModelId("a"), ModelId("b")
    idle = {"window_s": 1, "scale_down_delay_s": 5, "gpus": 1}
    world.configure(0, {a: settings(**idle), b: settings(**idle)}, max_gpus=1)
    world.report(0, queued=1, model=a, gateway="ga", last_active=0)
    world.ready(1, "a-1")
    world.report(2, queued=1, model=b, gateway="gb", last_active=2)
    assert world.model_route(b).because == "not enough of the fleet's 1 GPUs are free"

    world.configure(3, {b: settings(**idle)}, max_gpus=1)
    assert world.model_route(b).can_serve, "what drains makes room"
    world.report(4, queued=1, model=b, gateway="ga")
    world.report(4, queued=1, model=b, gateway="gb")
    assert "a-1" in world.ordered("stop")
    assert world.ordered("launch") == ["a-1"], "but it is not there before the other is gone"
    world.exited(6, "a-1")
    assert world.ordered("launch") == ["a-1", "b-1"]


def test_the_money_cap_holds(world, settings):
    world.configure(0, {M: settings(price=2.5)}, max_cost_per_h=6.0)
    world.report(0, queued=100)
    assert world.ordered("launch") == ["m-1", "m-2"]
    assert world.view(0).decision.held_by == "fleet.max_cost"


# ---- draining ----


def test_least_to_lose_goes_first(world, settings):
    loads = grown(world, settings, 4)
    world.report(11, in_flight=40, loads=loads)
    assert world.ordered("launch")[-1] == "m-5"

    world.run(12, 20, in_flight=16, loads=loads)
    assert world.states() == {
        "m-1": "draining",
        "m-2": "draining",
        "m-3": "serving",
        "m-4": "serving",
        "m-5": "draining",
    }
    assert world.slots() == {"m-1": 0, "m-2": 0, "m-3": 8, "m-4": 8, "m-5": 0}
    assert world.ordered("stop") == ["m-5"], "one that never served has nothing to wait for"


def test_equals_go_newest_first(world, settings):
    grown(world, settings, 3)
    world.run(11, 20, in_flight=16, loads={"m-1": 5, "m-2": 5, "m-3": 5})
    assert world.states()["m-3"] == "draining"


def test_a_draining_replica_is_stopped_when_a_gateway_that_knows_says_it_is_empty(world, settings):
    grown(world, settings, 2)
    busy, empty = {"m-1": 8, "m-2": 1}, {"m-1": 8, "m-2": 0}
    world.run(11, 20, in_flight=8, loads=busy)
    version = world.table.version
    assert world.states()["m-2"] == "draining"

    world.report(21, in_flight=8, loads=empty, version=version - 1)
    assert world.ordered("stop") == [], "that gateway may still send it something"
    world.report(22, in_flight=8, loads={"m-1": 8}, version=version)
    assert world.ordered("stop") == [], "not mentioned is not empty"
    world.report(23, in_flight=8, loads=empty, version=version)
    assert stops(world)["m-2"].endswith("drained, nothing is in flight")

    world.exited(24, "m-2")
    assert world.states() == {"m-1": "serving"}


def test_every_gateway_must_say_so(world, settings):
    grown(world, settings, 2)
    world.report(10, in_flight=0, gateway="other", loads={"m-1": 0, "m-2": 3})
    for at in range(11, 40):
        world.report(at, in_flight=8, loads={"m-1": 8, "m-2": 0})
        world.report(at, in_flight=0, gateway="other", loads={"m-1": 0, "m-2": 3})
    assert world.states()["m-2"] == "draining"
    assert world.ordered("stop") == []

    world.report(40, in_flight=0, gateway="other", loads={"m-1": 0, "m-2": 0})
    assert world.ordered("stop") == ["m-2"]


def test_at_the_deadline_it_is_stopped_and_the_order_says_what_was_left(world, settings):
    grown(world, settings, 2, drain_deadline=30)
    loads = {"m-1": 8, "m-2": 3}
    world.run(11, 20, in_flight=8, loads=loads)
    began = next(
        at
        for at, _, effects in world.turns
        for e in effects
        if isinstance(e, PublishRoutes) and e.table.routes[-1].state is State.DRAINING
    )
    world.run(21, began + 29, in_flight=8, loads=loads)
    assert world.ordered("stop") == []
    world.run(began + 30, began + 30, in_flight=8, loads=loads)
    assert world.orders[-1] == (began + 30, "stop", "m-2")
    because = next(e.because for _, _, effects in world.turns for e in effects if isinstance(e, Stop))
    assert because.endswith("the drain deadline has passed with 3 requests left")


def test_demand_that_returns_is_met_by_what_still_drains(world, settings):
    grown(world, settings, 3)
    loads = {"m-1": 4, "m-2": 4, "m-3": 4}
    world.run(11, 20, in_flight=8, loads=loads)
    assert list(world.states().values()) == ["serving", "draining", "draining"]
    world.run(21, 21, in_flight=32, loads=loads)

    assert world.states() == {"m-1": "serving", "m-2": "serving", "m-3": "serving", "m-4": "requested"}
    assert world.ordered("launch") == ["m-1", "m-2", "m-3", "m-4"]
    assert world.ordered("stop") == []


def test_what_has_been_told_to_stop_is_not_wanted_back(world, settings):
    grown(world, settings, 2)
    world.run(11, 20, in_flight=8)
    assert world.ordered("stop") == ["m-2"]
    world.report(21, in_flight=16)
    assert world.ordered("launch") == ["m-1", "m-2", "m-3"]


def test_a_removed_model_is_drained_and_stopped(world, settings):
    grown(world, settings, 1)
    world.report(11, in_flight=1, loads={"m-1": 1})
    world.configure(12, {})
    assert world.table.models == ()
    assert world.states() == {"m-1": "draining"}
    assert world.ordered("stop") == []

    world.report(13, in_flight=0, loads={"m-1": 0})
    assert world.ordered("stop") == ["m-1"]
    world.exited(14, "m-1")
    assert world.table.routes == ()


def test_tables_from_before_this_controller_do_not_confirm_a_drain(world, settings):
    for n in (1, 2):
        world.adopt(0, f"m-{n}")
    world.configure(0, {M: settings(max_replicas=1)})
    assert world.table.version == 1
    assert world.states()["m-2"] == "draining"

    world.report(1, loads={"m-1": 0, "m-2": 0}, version=57)
    assert world.ordered("stop") == []
    assert world.table.version == 58
    world.report(2, loads={"m-1": 0, "m-2": 0}, version=58)
    assert world.ordered("stop") == ["m-2"]


# ---- telling ----


def test_the_table_is_sent_again_at_a_constant_rate(world, settings):
    world.configure(0, {M: settings(min_replicas=1)})
    world.ready(1, "m-1")
    sent = []
    for at in range(2, 32):
        world.tick(at)
        sent += [(at, e.table.version) for e in world.effects if isinstance(e, PublishRoutes)]
    assert sent == [(6, 2), (11, 2), (16, 2), (21, 2), (26, 2), (31, 2)]


def test_the_view_shows_what_is_known_and_none_for_what_is_not(world, settings):
    world.configure(0, {M: settings(min_replicas=2)})
    world.ready(5, "m-1")
    world.report(6, queued=1, in_flight=3, loads={"m-1": 3})
    world.on(EngineReported(ReplicaId("m-1"), 3, 0, 0.25), 6)
    before = repr(world.brain.state(7))

    view = world.view(7)
    serving, coming = view.replicas
    assert (view.desired, view.queued, view.in_flight) == (2, 1, 3)
    assert (serving.state, serving.since_s, serving.in_flight, serving.tokens) == (State.SERVING, 5, 3, 300)
    assert (serving.running, serving.kv_usage_ratio) == (3, 0.25)
    assert (coming.state, coming.in_flight, coming.tokens, coming.running) == (
        State.REQUESTED,
        None,
        None,
        None,
    )
    assert repr(world.brain.state(7)) == before


def test_ended_replicas_are_shown_for_a_while_and_the_last_reason_stays(world, settings):
    world.configure(
        0, {M: settings(min_replicas=1, restarts=Restarts(give_up_after=1, retry_failed_s=10_000))}
    )
    world.exited(1, "m-1", "exit code 7")
    assert [replica.state for replica in world.view(2).replicas] == [State.FAILED]

    world.tick(301)
    view = world.view(301)
    assert view.replicas == ()
    assert view.last_failure.detail == "exit code 7"
    assert "exit code 7" in view.because


@pytest.mark.parametrize("seen", [Seen.GAVE_UP, Seen.EXITED])
def test_a_backend_may_give_up_too(world, settings, seen):
    world.configure(0, {M: settings(min_replicas=1)})
    world.seen(1, "m-1", seen, "image not found")
    assert world.view(1).last_failure.detail == "image not found"
    assert world.ordered("stop") == (["m-1"] if seen is Seen.GAVE_UP else [])
    world.tick(2)
    assert [e.replica_id for e in world.effects if isinstance(e, Launch)] == ["m-2"]
