"""Who gets the room when there is not enough for everybody."""

from tidegate.core.fleet.scaling.limits import grant
from tidegate.core.fleet.scaling.wishes import Wish
from tidegate.core.fleet.sizes import Size
from tidegate.core.settings import FleetLimits
from tidegate.core.types import ModelId


def wish(name, wanted, *, held=0, low=0, high=10, gpus=1, can_start=True, asleep=0, is_owed=False):
    return Wish(ModelId(name), wanted, low, high, held, Size(gpus, 0.0), can_start, asleep, is_owed=is_owed)


def shares(wishes, *, max_gpus, leaving=(), starts_left=100):
    grants = grant(wishes, FleetLimits(max_gpus=max_gpus), leaving, starts_left)
    return {model: (granted.desired, granted.held_by) for model, granted in grants.items()}


def test_a_first_replica_for_everybody_comes_before_a_third_for_somebody():
    wishes = [wish("a", 9, held=2), wish("b", 0), wish("c", 1)]
    assert shares(wishes, max_gpus=3) == {"a": (2, "fleet.max_gpus"), "b": (0, None), "c": (1, None)}


def test_what_is_left_goes_to_whoever_has_least():
    wishes = [wish("a", 9), wish("b", 9), wish("c", 2)]
    assert shares(wishes, max_gpus=8) == {
        "a": (3, "fleet.max_gpus"),
        "b": (3, "fleet.max_gpus"),
        "c": (2, None),
    }


def test_a_running_replica_is_not_stopped_for_a_minimum_that_is_still_to_be_started():
    wishes = [wish("a", 4, held=4), wish("b", 2, low=2)]
    assert shares(wishes, max_gpus=4) == {"a": (4, None), "b": (0, "fleet.max_gpus")}


def test_a_sleeper_does_not_push_out_who_uses_its_gpu():
    wishes = [wish("a", 1, held=1, asleep=1), wish("b", 1, held=1)]
    assert shares(wishes, max_gpus=1) == {"a": (0, "fleet.max_gpus"), "b": (1, None)}
    assert shares(wishes, max_gpus=2, starts_left=0) == {"a": (1, None), "b": (1, None)}


def test_a_model_whose_starts_fail_does_not_keep_room_from_others():
    wishes = [wish("a", 2, can_start=False), wish("b", 3)]
    assert shares(wishes, max_gpus=4) == {"a": (1, "fleet.max_gpus"), "b": (3, None)}


def test_a_lowered_cap_takes_from_all_in_turn_and_down_to_the_minimum_last():
    wishes = [wish("a", 4, held=4, low=3), wish("b", 4, held=4)]
    assert shares(wishes, max_gpus=4) == {"a": (3, "fleet.max_gpus"), "b": (1, "fleet.max_gpus")}


def test_what_is_leaving_still_takes_its_room():
    wishes = [wish("a", 3, held=1)]
    assert shares(wishes, max_gpus=3, leaving=[Size(1, 0.0)]) == {"a": (2, "fleet.max_gpus")}


def test_starts_are_counted_only_beyond_what_is_held():
    wishes = [wish("a", 5, held=3), wish("b", 2, held=2)]
    assert shares(wishes, max_gpus=99, starts_left=1) == {
        "a": (4, "fleet.max_starts_per_hour"),
        "b": (2, None),
    }


def test_the_room_that_a_replica_made_for_its_successor_is_nobody_else_s():
    wishes = [wish("a", 2, held=0, low=1), wish("b", 4, held=2, is_owed=True)]
    assert shares(wishes, max_gpus=3) == {"a": (0, "fleet.max_gpus"), "b": (3, "fleet.max_gpus")}
    assert shares(wishes, max_gpus=4) == {"a": (1, "fleet.max_gpus"), "b": (3, "fleet.max_gpus")}
