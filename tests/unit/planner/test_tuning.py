"""Choosing among what was tried, and writing it down."""

from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config import parse
from tidegate.core.scaling_settings import Promise, Scaling, ScalingPolicy
from tidegate.planner.frontier import HeldOut, able, frontier, thinned
from tidegate.planner.policy_file import written
from tidegate.planner.search import Space
from tidegate.planner.trial import Settings


def kept(hours, share):
    return SimpleNamespace(spent=hours, attainment=share)


def tried(hours, share, number=0, held_out=1.0):
    """``held_out`` is what it keeps of the part that is not tuned on."""
    return SimpleNamespace(number=number, score=kept(hours, share), settings=kept(hours, held_out))


def held_out(told):
    """Judges settings by what the test says of them, and notes in ``told`` whom it was asked about."""

    def judge_all(row):
        told.extend(row)
        return iter(row)

    return HeldOut(judge_all)


points = st.lists(
    st.tuples(st.floats(0.1, 100), st.floats(0, 1)).map(lambda pair: tried(*pair)), min_size=1, max_size=40
)


@given(points)
def test_nothing_tried_beats_the_frontier_and_it_only_gets_better_for_more(all_tried):
    found = frontier(all_tried)
    hours, shares = ([getattr(one.score, name) for one in found] for name in ("spent", "attainment"))

    assert hours == sorted(hours)
    assert shares == sorted(shares)
    for one in all_tried:
        assert any(
            best.score.spent <= one.score.spent and best.score.attainment >= one.score.attainment - 1e-3
            for best in found
        )


def test_of_those_that_keep_the_goal_on_both_parts_the_cheapest_is_taken():
    """Traffic that rises late: five of ten settings are right for its calm first part, and nothing beats the first."""
    found = [
        tried(5, 0.97, 0, 0.80),
        tried(7, 1.00, 1, 0.866),
        tried(8, 1.00, 2, 0.98),
        tried(9, 0.995, 3, 0.993),
        tried(10, 1.00, 4, 0.999),
    ]
    told = []

    assert [one.number for one in frontier(found)] == [0, 1]
    assert held_out(told).choose(able(found, 0.99), 0.99).number == 3
    assert held_out(told).choose(able(found, 0.999), 0.999).number == 4


def test_where_none_keeps_the_goal_on_both_the_one_that_keeps_most_of_the_part_held_out_is_taken():
    found = [tried(7, 1.00, 0, 0.80), tried(8, 0.992, 1, 0.91), tried(9, 1.0, 2, 0.91), tried(3, 0.5, 3, 1.0)]

    assert held_out([]).choose(able(found, 0.99), 0.99).number == 1


def test_where_none_keeps_the_goal_on_the_part_tuned_on_the_one_that_keeps_most_there_is_taken():
    assert [one.number for one in able([tried(5, 0.97, 0), tried(7, 0.98, 1), tried(9, 0.9, 2)], 0.99)] == [1]


def test_no_more_is_judged_than_decides_and_nothing_twice():
    found = [tried(hours, 1.0, hours, held_out=0.0 if hours < 3 else 1.0) for hours in range(40)]
    told = []
    rest = held_out(told)
    rest.choose(able(found, 0.99), 0.99)
    rest.judge([found[2], found[30]])

    assert [settings.spent for settings in told] == [*range(8), 30]
    assert sorted(rest.scores) == [*range(8), 30]


def test_a_long_frontier_is_thinned():
    found = [tried(number, number / 100) for number in range(1, 60)]
    shown = thinned(found, 6)

    assert shown[0] is found[0]
    assert shown[-1] is found[-1]
    assert len(shown) == 6


class Proposing:
    """A trial that proposes the most, or the least, of everything."""

    def __init__(self, *, most):
        self.most = most

    def suggest_categorical(self, name, among):
        return among[0]

    def suggest_int(self, name, least, most):
        return most if self.most else least

    def suggest_float(self, name, least, most, log=False):
        return most if self.most else least


@pytest.mark.parametrize("peak, own, least", [(1, 1, 2), (1, 8, 8), (7, 8, 14), (0, 1, 2)])
def test_a_file_that_is_found_can_always_grow(peak, own, least):
    """A short run that one replica could serve was tuned to ``max_replicas: 1``, for ever."""
    scenario = SimpleNamespace(models={"m": SimpleNamespace(fleet=SimpleNamespace(slots=32))})
    ground = SimpleNamespace(scenario=scenario, model="m", most_needed=peak)
    space = Space(ground, [ScalingPolicy.TIDAL], Settings(ScalingPolicy.TIDAL, 1, own, 30.0, 300.0, None))

    assert space.suggest(Proposing(most=False)).max_replicas == least
    assert space.suggest(Proposing(most=True)).max_replicas > least


@pytest.mark.parametrize("policy", [ScalingPolicy.CONCURRENCY, ScalingPolicy.TOKENS, ScalingPolicy.KPA])
def test_what_is_written_is_read_back_as_it_was_found(policy):
    settings = Settings(policy, 2, 9, 45.0, 127.0, 17.0 if policy is ScalingPolicy.KPA else None, 0.62)
    document = {"models": {"m": {"engine": "emulated", "slots": 32, "scaling": {"policy": "thresholds"}}}}
    text = written(document, "m", settings, Promise(2.0, 0.05), ["found by nobody"])
    scaling = parse(text, "tuned.yaml").models["m"].fleet.scaling

    assert text.startswith("# found by nobody\n")
    assert Settings.of(scaling) == Settings(policy, 2, 9, 45.0, 127.0, settings.concurrency_target)
    assert scaling.promise.ttft_s == pytest.approx(1.24)
    assert scaling.promise.tpot_s == pytest.approx(0.031)
    assert yaml.safe_load(text)["models"]["m"]["slots"] == 32


def test_another_law_does_not_inherit_the_constants_of_the_one_before():
    before = Scaling(ScalingPolicy.KPA, law=(("utilization", 0.5),))
    same = Settings.of(before).put_into(before)
    other = Settings(ScalingPolicy.TOKENS, 0, 3, 10.0, 60.0, None, 0.5).put_into(before)

    assert same.law == before.law
    assert other.law == ()
    assert other.promise == Promise(before.promise.ttft_s / 2, before.promise.tpot_s / 2)
