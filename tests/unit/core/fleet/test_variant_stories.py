"""A model that can be run in several ways, over time: which one starts, which one goes, and what is never given up."""

from dataclasses import replace

import pytest

from tidegate.core.effects import Launch
from tidegate.core.events import ReplicaAdopted, ScaledByHand
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Gpu, Node
from tidegate.core.settings import Variant
from tidegate.core.types import Address, ModelId, ReplicaId

M, N = ModelId("m"), ModelId("n")
SMALL = Variant("small", slots=16, gpus=1, kind="l40s", price_per_h=1.20, expected_start_s=60.0)


@pytest.fixture
def mixed(settings):
    """64 slots at 4.00 an hour, or 16 at 1.20: a large one carries as much as four small ones and costs less."""

    def make(*variants, price=4.0, max_wait=600.0, **more):
        more = {"slots": 64, "gpus": 1, "window_s": 1, "scale_down_delay_s": 30, "start": 60.0} | more
        spec = settings(price=price, **more)
        return replace(spec, kind="h100", variants=variants or (SMALL,), max_wait_s=max_wait)

    return make


def launched(world):
    """Each replica's variant, in order of launch."""
    return {
        effect.replica_id: effect.variant or "default"
        for _, _, effects in world.turns
        for effect in effects
        if isinstance(effect, Launch)
    }


def serving(world):
    return sorted(name for name, state in world.states().items() if state == "serving")


def test_a_little_is_carried_by_the_cheapest_that_covers_it_and_much_by_the_cheapest_for_what_it_carries(
    world, mixed
):
    world.configure(0, {M: mixed()})
    world.report(0, queued=5)
    assert launched(world) == {"m-1": "small"}
    world.ready(60, "m-1")
    world.run(61, 62, in_flight=16, queued=15)
    assert launched(world) == {"m-1": "small", "m-2": "small"}, (
        "two small ones for 31 cost less than a large one"
    )
    decision = world.decisions[-1]
    assert (decision.desired, decision.variants) == (2, {"small": 2})
    assert decision.needed == pytest.approx(31 / 64, abs=0.002)
    assert decision.because == (
        "31 queued or in flight at 64 a replica ask for 1; 0.48 needed, in replicas of default: 2 small"
    )
    assert (decision.fewer.cost_per_h, decision.chosen.cost_per_h) == (1.20, 2.40)
    assert (decision.chosen.slots, decision.fewer.queued) == (32, 15)
    world.ready(122, "m-2")
    world.run(123, 124, in_flight=32, queued=88)
    assert list(launched(world).values()) == ["small", "small", "default", "default"]


def test_whoever_is_not_in_the_cheapest_mix_goes_only_once_the_others_serve(world, mixed):
    world.configure(0, {M: mixed()})
    world.report(0, queued=5)
    world.ready(60, "m-1")
    world.run(61, 100, in_flight=16, queued=44)
    assert list(launched(world).values()) == ["small", "default"]
    assert serving(world) == ["m-1"], "the small one serves on while the large one comes up"
    world.ready(101, "m-2")
    world.run(102, 103, in_flight=60, loads={"m-1": 0, "m-2": 60})
    assert serving(world) == ["m-2"]
    assert world.ordered("stop") == ["m-1"]


def test_when_little_is_left_a_small_one_takes_over_from_a_large_one_after_the_delay(world, mixed):
    world.configure(0, {M: mixed()})
    world.report(0, queued=60)
    world.ready(60, "m-1")
    world.run(61, 63, in_flight=60)
    assert launched(world) == {"m-1": "default"}
    world.run(64, 92, in_flight=4)
    assert len(launched(world)) == 1, "not before 30 s of it"
    world.run(93, 95, in_flight=4)
    assert list(launched(world).values()) == ["default", "small"]
    assert serving(world) == ["m-1"]
    world.ready(150, "m-2")
    world.run(151, 153, in_flight=4, loads={"m-1": 0, "m-2": 4})
    assert (serving(world), world.ordered("stop")) == (["m-2"], ["m-1"])


def test_a_variant_whose_starts_fail_does_not_block_the_others(world, mixed):
    world.configure(0, {M: mixed()})
    world.report(0, queued=5)
    world.exited(5, "m-1", "no such image")
    assert launched(world) == {"m-1": "small", "m-2": "default"}
    world.ready(40, "m-2")
    world.report(41, in_flight=5)
    assert world.model_route().can_serve
    # The small one is tried again, at its own pace, while the large one serves.
    for failed in (43, 46, 51, 60):
        world.run(failed - 1, failed, in_flight=5)
        for name in list(launched(world))[2:]:
            world.exited(failed, name, "no such image")
    assert serving(world) == ["m-2"]
    tried = list(launched(world).values())[2:]
    assert set(tried) == {"small"}
    assert 2 <= len(tried) <= 4


def test_a_variant_without_room_is_passed_over_until_there_is_some(world, mixed):
    world.configure(0, {M: mixed(gpus=4)}, max_gpus=3)
    world.report(0, queued=60)
    assert list(launched(world).values()) == ["small", "small", "small"], "a large one takes four GPUs"
    for number in (1, 2, 3):
        world.ready(60, f"m-{number}", 9000 + number)
    world.run(61, 62, in_flight=48, queued=12)
    assert len(launched(world)) == 3
    assert world.decisions[-1].held_by == "fleet.max_gpus"
    assert world.model_route().sheds, "three small ones carry 48 of 60"
    world.configure(63, {M: mixed(gpus=4)}, max_gpus=8)
    world.run(64, 65, in_flight=48, queued=12)
    assert list(launched(world).values())[3:] == ["default"], "cheaper than a fourth small one beside three"
    world.ready(120, "m-4", 9004)
    world.run(121, 122, in_flight=60, loads={"m-1": 0, "m-2": 0, "m-3": 0, "m-4": 60})
    assert serving(world) == ["m-4"]


def test_from_zero_the_soonest_comes_first_when_the_cheapest_would_be_too_late(world, mixed):
    late = replace(SMALL, expected_start_s=300.0)
    world.configure(0, {M: mixed(late, max_wait=120.0)})
    world.report(0, queued=5)
    assert launched(world) == {"m-1": "default"}
    because = world.decisions[-1].because
    assert "default first: small would take 300 s, and requests wait 120 s at most" in because
    world.ready(60, "m-1")
    world.run(61, 62, in_flight=5)
    assert list(launched(world).values()) == ["default", "small"], "which then takes over"


def test_why_one_came_first_is_not_said_any_more_when_there_is_no_other(world, mixed):
    late = replace(SMALL, expected_start_s=300.0)
    world.configure(0, {M: mixed(late, max_wait=120.0)})
    world.report(0, queued=5)
    assert "default first" in world.decisions[-1].because
    world.configure(10, {M: replace(mixed(), variants=())})
    world.report(11, queued=5)
    assert "first" not in world.view(11).decision.because


def test_at_the_most_replicas_a_larger_one_takes_the_place_of_a_small_one_after_the_delay(world, mixed):
    world.configure(0, {M: mixed(max_replicas=1)})
    world.report(0, queued=5)
    world.ready(60, "m-1")
    world.run(61, 90, in_flight=16, queued=40)
    assert launched(world) == {"m-1": "small"}, "one is the most, and it may yet be enough"
    assert world.decisions[-1].held_by == "max_replicas"
    world.run(91, 92, in_flight=16, queued=40)
    assert world.states()["m-1"] == "draining"
    world.run(93, 94, queued=40)
    assert list(launched(world).values()) == ["small", "default"]
    world.exited(95, "m-1")
    world.ready(160, "m-2")
    world.run(161, 200, in_flight=56)
    assert serving(world) == ["m-2"]


def test_the_last_one_that_serves_does_not_go_for_one_that_would_be_too_late_for_whoever_waits(world, mixed):
    """With nobody left the small one would be started again, as the only one in time, and would go again."""
    world.configure(0, {M: mixed(max_replicas=1, start=300.0, max_wait=100.0)})
    world.report(0, queued=5)
    world.ready(60, "m-1")
    world.run(61, 400, in_flight=16, queued=40)
    assert launched(world) == {"m-1": "small"}
    assert serving(world) == ["m-1"]


def test_where_money_leaves_no_room_beside_it_a_swap_shrinks_first_and_never_breaks_the_cap(world, mixed):
    world.configure(0, {M: mixed()}, max_cost_per_h=4.5)
    world.report(0, queued=5)
    world.ready(60, "m-1")
    spent = []
    for at in range(61, 130):
        world.run(at, at, in_flight=16, queued=44)
        for name in set(world.ordered("stop")):
            world.exited(at, name)
        for name, variant in launched(world).items():
            if world.states().get(name) == "requested":
                world.ready(at, name, 9000 + int(name[2:]))
            del variant
        spent.append(world.brain.state(float(at)).spending.per_h)
    assert max(spent) <= 4.5
    assert [launched(world)[name] for name in serving(world)] in (["default"], ["small"] * 3)


def test_settings_that_change_one_variant_renew_only_its_replicas(world, mixed):
    small = replace(SMALL, command_hash="a")
    world.configure(0, {M: mixed(small)})
    world.report(0, queued=70)
    assert sorted(launched(world).values()) == ["default", "small"]
    for number in (1, 2):
        world.ready(60, f"m-{number}", 9000 + number)
    world.run(61, 62, in_flight=70)
    world.configure(63, {M: mixed(replace(small, command_hash="b"))})
    world.run(63, 64, in_flight=70)
    assert list(launched(world).values()) == ["default", "small", "small"]
    assert serving(world) == ["m-1", "m-2"], "the old one serves until the new one does"
    world.ready(130, "m-3", 9003)
    world.run(131, 132, in_flight=70, loads={"m-1": 60, "m-2": 0, "m-3": 10})
    assert serving(world) == ["m-1", "m-3"]


def test_a_variant_that_is_taken_out_of_the_file_is_replaced_by_what_is_left(world, mixed, settings):
    world.configure(0, {M: mixed()})
    world.report(0, queued=5)
    world.ready(60, "m-1")
    world.configure(61, {M: replace(mixed(), variants=())}, max_gpus=4)
    world.run(61, 62, in_flight=5)
    assert list(launched(world).values()) == ["small", "default"]
    assert serving(world) == ["m-1"]
    world.ready(100, "m-2", 9002)
    world.run(101, 102, in_flight=5, loads={"m-1": 0, "m-2": 5})
    assert serving(world) == ["m-2"]


def test_what_is_adopted_is_of_the_variant_it_was_started_as(world, mixed):
    world.on(ReplicaAdopted(ReplicaId("m-7"), M, Address("127.0.0.1", 9007), variant="small"), 0)
    world.configure(0, {M: mixed()})
    world.run(0, 5, in_flight=5)
    view = world.view(5.0)
    assert [(one.replica_id, one.variant) for one in view.replicas] == [("m-7", "small")]
    assert world.slots() == {"m-7": 16}
    assert [route.gpu for route in world.table.routes] == ["small/l40sx1"]
    assert launched(world) == {}


def test_minimum_and_maximum_count_replicas_of_all_variants(world, mixed):
    world.configure(0, {M: mixed(min_replicas=2, max_replicas=3)})
    world.run(0, 1)
    assert list(launched(world).values()) == ["small", "small"]
    assert world.decisions[-1].held_by == "min_replicas"
    world.report(2, queued=640)
    assert list(launched(world).values()) == ["small", "small", "default"]
    assert world.desired() == 3
    assert world.decisions[-1].held_by == "max_replicas"
    for at in range(3, 200):
        for name, state in world.states().items():
            if state == "requested":
                world.ready(at, name, 9000 + int(name[2:]))
            elif state == "draining":
                world.exited(at, name)
        world.run(at, at, in_flight=64, queued=576)
        assert sum(state == "serving" for state in world.states().values()) <= 3
    assert [launched(world)[name] for name in serving(world)] == ["default"] * 3


def test_a_number_set_by_hand_counts_replicas_of_whatever_variant(world, mixed):
    world.configure(0, {M: mixed()})
    world.report(0, queued=5)
    world.ready(60, "m-1")
    world.run(61, 62, in_flight=5)
    world.on(ScaledByHand(M, 3, 600.0), 63)
    world.run(63, 64, in_flight=5)
    assert launched(world) == {"m-1": "small", "m-2": "default", "m-3": "small"}, (
        "one of demand's three may be large"
    )
    assert world.desired() == 3
    assert "held at 3 by hand" in world.decisions[-1].because
    for number in (2, 3):
        world.ready(70, f"m-{number}", 9000 + number)
    world.run(71, 72, in_flight=70)
    world.on(ScaledByHand(M, 1, 600.0), 73)
    world.run(73, 74, in_flight=70)
    assert serving(world) == ["m-2"], (
        "the dearest for what it carries goes first, and a hand is obeyed at once"
    )


@pytest.mark.parametrize("least", ["min_replicas", "hand"])
@pytest.mark.parametrize("cost_per_h", [8.0, 10.0, 13.0])
def test_a_number_for_which_the_caps_leave_no_room_starts_what_fits_and_keeps_it(
    world, mixed, least, cost_per_h
):
    gpus = Node("local", tuple(Gpu(n, None, "h100" if n < 2 else "l40s") for n in range(4)))
    by_hand = least == "hand"
    spec = mixed(min_replicas=0 if by_hand else 6, max_replicas=6)
    world.configure(0, {M: spec}, [gpus], max_cost_per_h=cost_per_h)
    if by_hand:
        world.on(ScaledByHand(M, 6, 600.0), 0)
    for at in range(1, 120):
        for name, state in world.states().items():
            if state == "requested":
                world.seen(at, name, Seen.STARTING)
            elif state == "starting" and at % 3 == 0:
                world.ready(at, name, 9000 + int(name[2:]))
            elif state in {"stopping", "draining"}:
                world.exited(at, name)
        world.run(at, at)
    assert len(launched(world)) <= 4, "four GPUs, and nobody is given up for who would find no room either"
    assert len(serving(world)) == len(launched(world)) >= 2
    assert world.decisions[-1].held_by in {"fleet.gpus", "fleet.max_cost"}


def test_a_small_one_that_fails_to_come_up_in_time_is_given_up_and_the_large_one_tried(world, mixed):
    world.configure(0, {M: mixed(start_deadline=100.0)})
    world.report(0, queued=5)
    world.run(1, 99, queued=5)
    assert launched(world) == {"m-1": "small"}
    world.run(100, 101, queued=5)
    assert world.ordered("stop") == ["m-1"]
    assert list(launched(world).values()) == ["small", "default"]


def test_one_that_dies_is_replaced_by_the_cheapest(world, mixed):
    world.configure(0, {M: mixed()})
    world.report(0, queued=5)
    world.ready(60, "m-1")
    world.run(61, 200, in_flight=5)
    world.seen(201, "m-1", Seen.EXITED)
    world.run(202, 203, queued=5)
    assert list(launched(world).values()) == ["small", "small"]


def test_when_the_time_of_a_number_by_hand_is_over_the_cheapest_that_is_enough_is_left(world, mixed):
    world.configure(0, {M: mixed()})
    world.report(0, queued=5)
    world.ready(60, "m-1")
    world.on(ScaledByHand(M, 2, 600.0), 61)
    world.run(62, 64, in_flight=5)
    decision = world.decisions[-1]
    assert (decision.desired, sum(decision.variants.values())) == (2, 2)
    assert "held at 2 by hand until 00:11" in decision.because
    for number in (2, 3):
        world.ready(120, f"m-{number}", 9000 + number)
    world.run(121, 180, in_flight=5)
    assert len(serving(world)) == 2
    world.run(181, 760, in_flight=5)
    assert len(serving(world)) == 1, "its time is over, and one of either kind covers five"


def test_none_by_hand_is_none_of_any_kind(world, mixed):
    world.configure(0, {M: mixed()})
    world.report(0, queued=5)
    world.ready(60, "m-1")
    world.on(ScaledByHand(M, 0, 600.0), 61)
    world.run(62, 120, in_flight=0, loads={"m-1": 0})
    assert set(world.ordered("stop")) == {"m-1"}
    world.exited(121, "m-1")
    world.report(122, queued=5)
    assert not world.model_route().can_serve
    assert list(launched(world)) == ["m-1"]


def test_where_fewer_can_be_started_than_the_minimum_a_decision_says_what_would_come_next(world, mixed):
    one = replace(SMALL, max_replicas=1)
    world.configure(0, {M: replace(mixed(one, min_replicas=4, max_replicas=6), own_max_replicas=1)})
    world.run(0, 1)
    assert sorted(launched(world).values()) == ["default", "small"]
    decision = world.decisions[-1]
    assert decision.desired == sum(decision.variants.values()) == 4


def test_a_mix_of_which_only_a_part_has_room_is_not_begun(world, mixed):
    """Two small ones would cost less than the large one that serves. Beside it there are GPUs for one of them."""
    half = Variant("half", slots=32, gpus=2, kind="l40s", price_per_h=1.0, expected_start_s=60.0)
    world.configure(0, {M: mixed(half, gpus=2, price=2.5)}, max_gpus=4)
    world.adopt(1, "m-1")
    world.run(2, 80, in_flight=34)
    assert launched(world) == {}
    assert serving(world) == ["m-1"]
    assert world.decisions[-1].held_by is None, "nothing is missing"
    world.configure(81, {M: mixed(half, gpus=2, price=2.5)}, max_gpus=6)
    world.run(82, 83, in_flight=34)
    assert list(launched(world).values()) == ["half", "half"]


def test_what_comes_up_already_is_not_given_up_where_nothing_else_has_room(world, mixed):
    """Two are wanted by hand. Two of the other variant would cost less, but each of them takes all GPUs."""
    world.configure(0, {M: mixed(replace(SMALL, gpus=4), gpus=2)}, max_gpus=4)
    world.adopt(1, "m-1")
    world.run(2, 3, in_flight=34)
    world.on(ScaledByHand(M, 2, 3_600.0, False), 4)
    world.run(5, 40, in_flight=34)
    assert len(launched(world)) == 1
    assert world.ordered("stop") == []
