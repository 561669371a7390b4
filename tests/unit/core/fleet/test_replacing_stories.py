"""Replicas that run and are no good: they give no answer, or request after request fails there."""

from dataclasses import replace

import pytest

from tidegate.core.fleet.replacing import FailureBook
from tidegate.core.lifecycle import Seen, State
from tidegate.core.settings import Restarts
from tidegate.core.types import DemandReport, ModelId, ReplicaId, ReplicaLoad

M = ModelId("m")
FOR_EVER = {"window_s": 1, "scale_down_delay_s": 1000, "concurrency_target": 8}


def serving(world, settings, replicas, **more):
    """So many serve since t=1, and have proven themselves at t=70."""
    world.configure(0, {M: settings(min_replicas=replicas, **FOR_EVER, **more)})
    for n in range(1, replicas + 1):
        world.ready(1, f"m-{n}", 9000 + n)
    world.run(2, 70)


def reports(world, since, until, failing):
    """A report and a tick a second; ``failing`` maps a moment to the failures in a row by replica."""
    for at in range(since, until + 1):
        world.report(at, failing=failing(at))
        world.tick(at)


# ---- no answer ----


def test_an_unresponsive_replica_leaves_routing_at_once_is_stopped_and_replaced(world, settings):
    serving(world, settings, 2)
    world.seen(80, "m-1", Seen.UNRESPONSIVE, "no answer for 10 s")

    assert "m-1" not in world.states()
    assert world.orders[-2:] == [(80, "stop", "m-1"), (80, "launch", "m-3")]
    failure = world.view(80).last_failure
    assert (failure.replica_id, failure.state, failure.detail) == ("m-1", State.SERVING, "no answer for 10 s")

    world.exited(81, "m-1", "stopped")
    world.ready(90, "m-3")
    assert world.states() == {"m-2": "serving", "m-3": "serving"}
    assert world.view(90).last_failure.detail == "no answer for 10 s"


def test_its_gpu_is_given_to_another_only_when_it_is_gone(world, settings):
    world.configure(0, {M: settings(min_replicas=1, gpus=1)}, max_gpus=1)
    world.ready(1, "m-1")
    world.run(2, 70)
    world.seen(80, "m-1", Seen.UNRESPONSIVE, "no answer for 10 s")
    world.tick(81)
    assert world.ordered("launch") == ["m-1"]

    world.tick(110)
    assert world.ordered("stop") == ["m-1", "m-1"], "an end that is not seen is ordered again"
    world.exited(111, "m-1")
    assert world.ordered("launch") == ["m-1", "m-2"]


def test_one_that_hangs_soon_after_it_was_ready_is_a_failed_start(world, settings):
    world.configure(0, {M: settings(min_replicas=1, restarts=Restarts(give_up_after=2))})
    world.ready(1, "m-1")
    world.seen(20, "m-1", Seen.UNRESPONSIVE, "no answer for 10 s")
    assert world.view(20).failures == 1
    assert world.ordered("launch") == ["m-1"], "the next start waits for its back-off"
    world.tick(21)
    world.ready(22, "m-2")
    world.seen(40, "m-2", Seen.UNRESPONSIVE, "no answer for 10 s")
    assert world.model_route().because == "it failed 2 times in a row, last: no answer for 10 s"


def test_one_that_drains_and_falls_silent_is_stopped_without_waiting_for_its_requests(world, settings):
    serving(world, settings, 2)
    world.configure(71, {M: settings(min_replicas=1, max_replicas=1)})
    assert world.states()["m-2"] == "draining"
    world.seen(72, "m-2", Seen.UNRESPONSIVE, "no answer for 10 s")
    assert world.orders[-1] == (72, "stop", "m-2")
    assert world.states() == {"m-1": "serving"}


def test_what_cannot_be_unresponsive_is_not(world, settings):
    world.configure(0, {M: settings(min_replicas=1)})
    assert world.seen(1, "m-1", Seen.UNRESPONSIVE) == []
    assert world.states() == {"m-1": "requested"}


# ---- failures in a row ----


def test_a_replica_where_five_requests_in_a_row_fail_is_drained_and_replaced(world, settings):
    serving(world, settings, 3)
    world.report(71, failing={"m-2": 4})
    assert world.states()["m-2"] == "serving"

    world.report(72, failing={"m-2": 5})
    assert world.states()["m-2"] == "draining"
    assert world.orders[-1] == (72, "launch", "m-4")
    assert world.decisions[-1].because.endswith("m-2 is replaced: 5 requests in a row failed there")
    assert world.view(72).last_failure.detail == "5 requests in a row failed there"

    world.report(73, failing={"m-2": 5}, loads={"m-1": 1, "m-2": 0, "m-3": 1, "m-4": 0})
    assert world.orders[-1] == (73, "stop", "m-2")


def test_any_gateway_can_say_so_and_one_that_fell_silent_cannot(world, settings):
    serving(world, settings, 2)
    world.report(71, gateway="other", failing={"m-2": 3})
    world.report(71, gateway="g", failing={"m-2": 3})
    assert world.states()["m-2"] == "serving", "three and three are not six in a row"
    world.report(72, gateway="other", failing={"m-2": 4})
    world.configure(
        83, {M: settings(min_replicas=2, restarts=Restarts(replace_after_failures=4), **FOR_EVER)}
    )
    assert world.states()["m-2"] == "serving", "what a gateway said 11 s ago is not known any more"
    world.report(84, gateway="other", failing={"m-2": 4})
    assert world.states()["m-2"] == "draining"


def test_it_is_not_kept_when_demand_returns(world, settings):
    serving(world, settings, 2)
    world.report(71, failing={"m-2": 5})
    world.report(72, queued=32, failing={"m-2": 5})
    assert world.states()["m-2"] == "draining"
    assert world.ordered("launch")[2:] == ["m-3", "m-4", "m-5"]


def test_one_at_a_time_until_the_next_is_ready(world, settings):
    serving(world, settings, 4)
    broken = {"m-1": 9, "m-2": 7}
    world.report(71, failing=broken)
    assert world.states()["m-1"] == "draining"
    reports(world, 72, 80, lambda at: {"m-2": 7 + at})
    assert world.ordered("stop") == ["m-1"]
    world.exited(81, "m-1")
    reports(world, 82, 90, lambda at: {"m-2": 7 + at})
    assert world.states()["m-2"] == "serving", "its like is still coming up"

    world.ready(91, "m-5")
    world.report(92, failing={"m-2": 99})
    assert world.states()["m-2"] == "draining"


def test_when_all_fail_in_the_same_moment_none_is_replaced_and_the_decision_says_why(world, settings):
    serving(world, settings, 3)
    reports(world, 71, 100, lambda at: {f"m-{n}": at - 70 for n in (1, 2, 3)})
    reports(world, 101, 200, lambda at: {f"m-{n}": 30 for n in (1, 2, 3)})

    assert world.ordered("stop") == []
    assert set(world.states().values()) == {"serving"}
    said = [decision.because for decision in world.decisions if "alike" in decision.because]
    assert len(said) == 1
    assert said[0].endswith(
        "all 3 replicas fail their requests alike: the fault is likely not theirs, and none is replaced"
    )


def test_a_single_failure_long_ago_does_not_excuse_the_one_that_goes_on_failing(world, settings):
    serving(world, settings, 2)
    reports(world, 71, 80, lambda at: {"m-1": at - 70, "m-2": 1})
    assert set(world.states().values()) == {"serving"}
    reports(world, 81, 82, lambda at: {"m-1": at - 70, "m-2": 1})
    assert world.states()["m-1"] == "draining"


def test_the_only_replica_is_replaced_too_and_under_back_off(world, settings):
    restarts = Restarts(give_up_after=2, replace_after_failures=3)
    world.configure(0, {M: settings(min_replicas=1, restarts=restarts)})
    world.ready(1, "m-1")
    world.report(5, failing={"m-1": 3})
    assert world.states() == {"m-1": "draining"}
    assert world.ordered("launch") == ["m-1"]
    world.tick(6)
    assert world.ordered("launch") == ["m-1", "m-2"]


def test_while_starts_fail_what_serves_is_left_alone(world, settings):
    serving(world, settings, 3)
    world.exited(75, "m-1", "killed")
    world.exited(76, "m-4", "no weights")
    assert world.view(76).failures == 1
    world.report(76.5, failing={"m-2": 50})
    assert world.states() == {"m-2": "serving", "m-3": "serving"}


@pytest.mark.parametrize("count", [float("nan"), -1])
def test_a_senseless_count_accuses_nobody(world, settings, count):
    serving(world, settings, 2)
    world.report(71, failing={"m-1": count})
    assert set(world.states().values()) == {"serving"}


# ---- settings that processes are started with ----


def hashed(settings, command_hash, **more):
    return replace(settings(**{"min_replicas": 2, **FOR_EVER, **more}), command_hash=command_hash)


def renewed(world, settings, **limits):
    """Two serve that were started one way; at t=70 they are to be started another way."""
    world.configure(0, {M: hashed(settings, "old")}, **limits)
    for n in (1, 2):
        world.ready(1, f"m-{n}", 9000 + n)
    world.run(2, 69, in_flight=2, loads={"m-1": 1, "m-2": 2})
    world.configure(70, {M: hashed(settings, "new")}, **limits)


def test_replicas_started_otherwise_are_replaced_one_by_one_and_two_serve_at_every_moment(world, settings):
    renewed(world, settings)
    assert world.orders[-1] == (70, "launch", "m-3")
    world.run(71, 80, in_flight=2, loads={"m-1": 1, "m-2": 2, "m-3": 0})
    assert world.ordered("launch") == ["m-1", "m-2", "m-3"]
    assert world.states() == {"m-1": "serving", "m-2": "serving", "m-3": "requested"}

    world.ready(81, "m-3")
    assert world.states() == {"m-1": "draining", "m-2": "serving", "m-3": "serving", "m-4": "requested"}
    world.report(82, in_flight=2, loads={"m-1": 0, "m-2": 2, "m-3": 0, "m-4": 0})
    assert world.orders[-1] == (82, "stop", "m-1")
    world.exited(83, "m-1")
    world.ready(84, "m-4")
    assert world.states() == {"m-2": "draining", "m-3": "serving", "m-4": "serving"}
    world.run(85, 200, in_flight=0)
    assert world.ordered("launch") == ["m-1", "m-2", "m-3", "m-4"]


def test_settings_of_the_brains_alone_replace_nothing(world, settings):
    renewed(world, settings)
    world.ready(71, "m-3")
    world.exited(72, "m-1")
    world.ready(73, "m-4")
    world.exited(74, "m-2")
    world.configure(75, {M: hashed(settings, "new", max_replicas=7, drain_deadline=3)})
    world.run(76, 90)
    assert world.ordered("launch") == ["m-1", "m-2", "m-3", "m-4"]


def test_settings_that_do_not_start_leave_the_old_ones_serving(world, settings):
    renewed(world, settings)
    for at in range(71, 700):
        newest = world.ordered("launch")[-1]
        if newest in world.states():
            world.exited(at, newest, "exited with code 1")
        world.report(at, in_flight=2, loads={"m-1": 1, "m-2": 2})
        world.tick(at)
    assert world.states()["m-1"] == world.states()["m-2"] == "serving"
    assert world.ordered("stop") == []
    assert len(world.ordered("launch")) < 12


def test_without_room_for_one_beside_an_old_one_goes_first(world, settings):
    renewed(world, settings, max_replicas=2)
    assert world.states() == {"m-1": "draining", "m-2": "serving"}
    world.run(71, 75, in_flight=2, loads={"m-1": 0, "m-2": 2})
    assert world.ordered("stop") == ["m-1"]
    assert world.ordered("launch") == ["m-1", "m-2"]
    world.exited(76, "m-1")
    assert world.ordered("launch") == ["m-1", "m-2", "m-3"]
    world.run(77, 90, in_flight=2, loads={"m-2": 2, "m-3": 0})
    assert world.states() == {"m-2": "serving", "m-3": "requested"}
    world.ready(91, "m-3")
    assert world.states() == {"m-2": "draining", "m-3": "serving"}


def test_the_room_that_an_old_one_made_is_for_its_successor_and_for_no_other_model(world, settings):
    """Three GPUs are in use. Model ``a`` wants a second replica all the while, and would get the first that is free."""
    a, caps = ModelId("a"), {"max_gpus": 3}
    other = settings(min_replicas=2, gpus=1)
    world.configure(
        0,
        {
            a: replace(other, scaling=replace(other.scaling, min_replicas=1)),
            M: hashed(settings, "old", gpus=1),
        },
        **caps,
    )
    for name in ("a-1", "m-1", "m-2"):
        world.ready(1, name)
    world.run(2, 69, in_flight=2, loads={"a-1": 1, "m-1": 1, "m-2": 1})
    world.configure(70, {a: other, M: hashed(settings, "new", gpus=1)}, **caps)
    assert world.ordered("launch") == ["a-1", "m-1", "m-2"]
    world.run(71, 75, in_flight=2, loads={"a-1": 1, "m-1": 0, "m-2": 0})
    (gone,) = world.ordered("stop")
    world.exited(76, gone)

    assert world.orders[-1] == (76, "launch", "m-3")
    world.run(77, 79, in_flight=2, loads={"a-1": 1, "m-1": 1, "m-2": 1, "m-3": 0})
    assert world.ordered("launch") == ["a-1", "m-1", "m-2", "m-3"]


def test_gpus_that_nobody_counted_are_not_asked_for_twice(world, settings):
    """Without ``fleet.max_gpus`` a second one might be launched in vain, again and again."""
    world.configure(0, {M: hashed(settings, "old", min_replicas=1, gpus=1)})
    world.ready(1, "m-1")
    world.run(2, 69, in_flight=0)
    world.configure(70, {M: hashed(settings, "new", min_replicas=1, gpus=1)})
    assert world.states()["m-1"] == "draining"


def test_what_is_no_longer_wanted_at_all_is_only_drained(world, settings):
    renewed(world, settings)
    world.configure(71, {M: hashed(settings, "newer", min_replicas=1, max_replicas=1)})
    world.ready(72, "m-4")
    assert world.ordered("stop")[0] == "m-3", "it was on its way up under settings of yesterday"
    for n in (1, 2, 3):
        world.exited(73, f"m-{n}")
    world.run(74, 80)
    assert world.states() == {"m-4": "serving"}
    assert world.ordered("launch") == ["m-1", "m-2", "m-3", "m-4"]


def test_an_old_one_that_drains_is_not_wanted_back(world, settings):
    world.configure(0, {M: hashed(settings, "old", min_replicas=2)})
    for n in (1, 2):
        world.ready(1, f"m-{n}", 9000 + n)
    world.run(2, 69, in_flight=2, loads={"m-1": 1, "m-2": 1})
    world.configure(70, {M: hashed(settings, "old", min_replicas=1, max_replicas=1)})
    assert world.states()["m-2"] == "draining"
    world.configure(71, {M: hashed(settings, "new", min_replicas=2)})
    assert world.states()["m-2"] == "draining"
    assert world.ordered("launch")[-1] == "m-3"


def test_what_a_gateway_said_that_is_gone_is_forgotten_with_it():
    """Gateways come and go under new names for months."""
    book = FailureBook()
    for number in range(3):
        failing = (ReplicaLoad(ReplicaId("m-1"), 1, 100, 7),)
        book.hear(DemandReport(f"gateway-{number}", 1, (), failing), 300.0 * number)
    book.forget_gone(1_200.0)
    assert repr(book) == "<FailureBook 1 runs>"
    book.forget_gone(1_201.0)
    assert not book
