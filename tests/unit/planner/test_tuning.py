"""Choosing among what was tried, and writing it down."""

from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config import parse
from tidegate.core.scaling_settings import Promise, Scaling, ScalingPolicy
from tidegate.planner.frontier import chosen, frontier, thinned
from tidegate.planner.policy_file import written
from tidegate.planner.trial import Settings


def tried(hours, kept):
    return SimpleNamespace(score=SimpleNamespace(replica_hours=hours, attainment=kept))


points = st.lists(
    st.tuples(st.floats(0.1, 100), st.floats(0, 1)).map(lambda pair: tried(*pair)), min_size=1, max_size=40
)


@given(points)
def test_nothing_tried_beats_the_frontier_and_it_only_gets_better_for_more(all_tried):
    found = frontier(all_tried)
    hours, kept = ([getattr(one.score, name) for one in found] for name in ("replica_hours", "attainment"))

    assert hours == sorted(hours)
    assert kept == sorted(kept)
    for one in all_tried:
        assert any(
            best.score.replica_hours <= one.score.replica_hours
            and best.score.attainment >= one.score.attainment - 1e-3
            for best in found
        )


def test_the_cheapest_that_keeps_the_goal_is_taken_or_else_the_one_that_keeps_most():
    found = frontier([tried(5, 0.97), tried(7, 0.991), tried(9, 0.999), tried(8, 0.98)])

    assert [one.score.replica_hours for one in found] == [5, 7, 9]
    assert chosen(found, 0.99).score.replica_hours == 7
    assert chosen(found, 0.9999).score.replica_hours == 9


def test_a_long_frontier_is_thinned_and_keeps_the_taken_one():
    found = [tried(number, number / 100) for number in range(1, 60)]
    kept = thinned(found, 6, found[7])

    assert found[7] in kept
    assert kept[0] is found[0]
    assert kept[-1] is found[-1]
    assert len(kept) <= 7


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
