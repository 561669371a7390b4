"""Stories about numbers that somebody sets, and replicas that somebody ends."""

from dataclasses import replace

import pytest

from tidegate.core.events import ReplicaSeen, ScaledByHand
from tidegate.core.lifecycle import Seen
from tidegate.core.scaling_settings import ScalingPolicy, Schedule
from tidegate.core.types import ModelId

M = ModelId("m")
HOUR_S = 3_600.0


@pytest.fixture
def spec(settings):
    return settings(max_replicas=6, window_s=1, scale_down_delay_s=30)


def ready(world, at, *numbers):
    for number in numbers:
        world.ready(at, f"m-{number}", 9000 + number)


def by_hand(world, at, replicas, for_s=HOUR_S, **more):
    return world.on(ScaledByHand(M, replicas, for_s, **more), at)


def ended(world, at, name):
    """As the backend sees it when somebody sends SIGTERM."""
    return world.on(ReplicaSeen(name, Seen.EXITED, detail="ended", by_hand=True), at)


def test_a_number_set_by_hand_holds_for_its_time_and_ends_by_itself(world, spec):
    world.configure(0, {M: spec})
    world.report(0, in_flight=4)
    assert world.desired() == 1
    by_hand(world, 10, 3, for_s=600)
    assert world.ordered("launch") == ["m-1", "m-2", "m-3"]
    decision = world.decisions[-1]
    assert (decision.before, decision.desired, decision.held_by) == (1, 3, "hand")
    assert decision.because.endswith("held at 3 by hand until 00:10")
    assert decision.inputs["asked"] == 1.0
    ready(world, 20, 1, 2, 3)
    world.run(21, 609, in_flight=4)
    assert world.desired() == 3
    world.run(610, 700, in_flight=4)
    assert world.desired() == 1
    assert world.decisions[-1].held_by is None


def test_it_is_a_ceiling_too_and_the_lower_classes_are_told_so(world, spec):
    world.configure(0, {M: spec})
    world.report(0, in_flight=4)
    ready(world, 1, 1)
    by_hand(world, 2, 1)
    world.report(3, in_flight=8, queued=30)
    assert world.desired() == 1
    assert world.model_route().sheds
    by_hand(world, 4, None)
    assert world.desired() == 5
    assert not world.model_route().sheds


def test_when_it_ends_in_the_dark_what_runs_stays_until_something_is_known(world, spec):
    world.configure(0, {M: spec})
    world.report(0, in_flight=4)
    by_hand(world, 1, 3, for_s=60, at_least=True)
    ready(world, 2, 1, 2, 3)
    world.run(3, 30, in_flight=4)
    for at in range(31, 200):
        world.tick(at)
    assert world.desired() == 3
    assert world.decisions[-1].held_by == "no data"
    world.run(200, 300, in_flight=4)
    assert world.desired() == 1


@pytest.mark.parametrize("policy", list(ScalingPolicy))
def test_no_law_asks_for_fewer_than_none_while_a_hand_holds_one(world, spec, policy):
    world.configure(0, {M: replace(spec, scaling=replace(spec.scaling, policy=policy))})
    by_hand(world, 1, 1, at_least=True)
    ready(world, 2, 1)
    world.run(3, 600, every=3.0)
    assert world.desired() == 1
    assert min(decision.inputs["asked"] for decision in world.decisions) >= 0.0


def test_at_least_is_a_floor_and_no_ceiling(world, spec):
    world.configure(0, {M: spec})
    world.report(0, in_flight=4)
    by_hand(world, 1, 2, at_least=True)
    assert world.desired() == 2
    assert "held at at least 2" not in world.decisions[-1].because
    assert "held at 2 or more by hand" in world.decisions[-1].because
    world.report(2, in_flight=8, queued=30)
    assert world.desired() == 5


def test_none_by_hand_refuses_whoever_comes_and_says_until_when(world, spec):
    world.configure(0, {M: spec})
    world.report(0, in_flight=4)
    ready(world, 1, 1)
    by_hand(world, 60, 0, for_s=600)
    world.report(60.5, in_flight=2, loads={"m-1": 2})
    assert world.states()["m-1"] == "draining"
    assert not world.model_route().can_serve, "nobody waits for one that is on its way out"
    world.report(61, in_flight=0, loads={"m-1": 0})
    world.run(62, 64, loads={"m-1": 0})
    world.exited(65, "m-1")
    world.report(66, queued=3)
    route = world.model_route()
    assert (route.can_serve, route.expected_ready_s) == (False, 660.0)
    assert route.because == "it is held at 0 by hand until 00:11"
    world.run(67, 661, queued=3)
    assert world.ordered("launch") == ["m-1", "m-2"]


def test_the_caps_are_stronger_than_a_hand(world, spec):
    world.configure(0, {M: spec}, max_replicas=4)
    by_hand(world, 1, 6)
    assert world.desired() == 4
    assert world.decisions[-1].held_by == "fleet.max_replicas"
    by_hand(world, 2, 60)
    assert world.desired() == 4
    world.configure(3, {M: replace(spec, scaling=replace(spec.scaling, min_replicas=2))}, max_replicas=4)
    by_hand(world, 4, 0)
    assert world.desired() == 2


def test_the_law_knows_its_past_when_the_number_ends(world, spec):
    """What was asked for just before counts, so nothing is shrunk for want of a window."""
    world.configure(0, {M: spec})
    by_hand(world, 0, 1, for_s=100)
    world.run(0, 100, in_flight=24)
    world.report(101, in_flight=24)
    assert world.desired() == 3


def test_what_a_former_controller_was_told_is_told_before_the_policy_and_counts_at_once(world, spec):
    world.adopt(0, "m-1")
    world.adopt(0, "m-2")
    world.on(ScaledByHand(M, 4, 300.0), 0)
    world.configure(0, {M: spec})
    assert world.desired() == 4
    assert world.ordered("launch") == ["m-3", "m-4"]
    hand = world.brain.state(0.0).models[0].hand
    assert (hand.replicas, hand.until_s) == (4, 300.0)


def test_a_number_for_a_model_that_is_not_there_changes_nothing(world, spec):
    world.configure(0, {M: spec})
    world.on(ScaledByHand(ModelId("nobody"), 3, HOUR_S), 1)
    assert world.desired() == 0


def test_local_time_and_days_are_said_where_they_are_needed(world, spec):
    there = replace(spec, scaling=replace(spec.scaling, schedule=Schedule((), ((0.0, 2 * HOUR_S),))))
    world.configure(0, {M: there})
    by_hand(world, 60, 1)
    assert world.decisions[-1].because.endswith("by hand until 03:01")
    by_hand(world, 61, 2, for_s=48 * HOUR_S)
    assert world.decisions[-1].because.endswith("by hand until Saturday 02:01")


class TestEnded:
    """A replica that somebody ended."""

    def test_the_law_s_number_is_restored(self, world, spec):
        world.configure(0, {M: spec})
        world.report(0, in_flight=16)
        ready(world, 5, 1, 2)
        ended(world, 10, "m-2")
        world.run(11, 15, in_flight=16)
        assert world.ordered("launch") == ["m-1", "m-2", "m-3"]

    def test_where_it_is_adopted_one_fewer_holds_until_demand_asks_for_more_than_it_did(self, world, spec):
        world.configure(0, {M: replace(spec, adopts_ends=True)})
        world.report(0, in_flight=16)
        ready(world, 5, 1, 2)
        ended(world, 10, "m-2")
        world.run(11, 60, in_flight=16)
        assert world.ordered("launch") == ["m-1", "m-2"]
        assert world.decisions[-1].held_by == "hand"
        assert "held at 1 by hand since one was ended until 01:00" in world.decisions[-1].because
        world.report(61, in_flight=20)
        assert world.desired() == 3
        world.run(62, 120, in_flight=16)
        assert world.desired() == 2, "the number by hand has ended"

    def test_or_until_its_time_is_over(self, world, spec):
        world.configure(0, {M: replace(spec, adopts_ends=True, by_hand_for_s=60.0)})
        world.report(0, in_flight=16)
        ready(world, 5, 1, 2)
        ended(world, 10, "m-2")
        world.run(11, 69, in_flight=16)
        assert world.desired() == 1
        world.run(70, 72, in_flight=16)
        assert world.desired() == 2

    def test_two_that_are_ended_are_two_fewer(self, world, spec):
        world.configure(0, {M: replace(spec, adopts_ends=True)})
        world.report(0, in_flight=24)
        ready(world, 5, 1, 2, 3)
        ended(world, 10, "m-2")
        ended(world, 11, "m-3")
        world.run(12, 60, in_flight=24)
        assert (world.desired(), len(world.ordered("launch"))) == (1, 3)

    def test_a_crash_is_healed_in_any_case(self, world, spec):
        world.configure(0, {M: replace(spec, adopts_ends=True)})
        world.report(0, in_flight=16)
        ready(world, 5, 1, 2)
        world.exited(10, "m-2", "the engine was killed by SIGKILL")
        world.run(11, 15, in_flight=16)
        assert world.desired() == 2

    def test_one_that_was_to_go_anyway_is_no_change_by_hand(self, world, spec):
        world.configure(0, {M: replace(spec, adopts_ends=True)})
        world.report(0, in_flight=16)
        ready(world, 5, 1, 2)
        world.run(6, 60, in_flight=4, loads={"m-1": 4, "m-2": 1})
        assert world.states()["m-2"] == "draining"
        ended(world, 61, "m-2")
        assert world.brain.state(61.0).models[0].hand is None

    def test_a_number_that_was_set_says_what_is_wanted(self, world, spec):
        world.configure(0, {M: replace(spec, adopts_ends=True)})
        by_hand(world, 0, 2)
        ready(world, 5, 1, 2)
        ended(world, 10, "m-2")
        world.run(11, 15, in_flight=4)
        assert world.desired() == 2
        assert world.ordered("launch") == ["m-1", "m-2", "m-3"]


def test_whether_a_hand_holds_the_number_is_known_where_a_cap_leaves_less_of_it(world, spec):
    world.configure(0, {M: spec}, max_replicas=2)
    world.report(0, in_flight=4)
    assert not world.view(0).is_by_hand
    by_hand(world, 10, 1)
    assert (world.view(10).hand.replicas, world.view(10).is_by_hand) == (1, False), "demand asks for the same"
    by_hand(world, 20, 3)
    assert world.view(20).decision.held_by == "fleet.max_replicas"
    assert world.view(20).is_by_hand
    assert "held at 3 by hand" in world.view(20).decision.because
