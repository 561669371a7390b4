"""Laws of generators: moments in order, rates as asked, prefixes that grow."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice import SeededDice
from tidegate.workload.curves import RateCurve, clipped, daily, flash_crowd, ramp, steady, steps
from tidegate.workload.gaps import EvenGaps, GammaGaps, PoissonGaps, WeibullGaps
from tidegate.workload.generate import arrival_times
from tidegate.workload.lengths import Histogram, Uniform
from tidegate.workload.mix import Shares, labelled
from tidegate.workload.sessions import Chat, chats

# Below a request in thirty years a rate is no rate: sums of such numbers are not floats any more.
rates = st.floats(1e-9, 50) | st.just(0.0)
curves = st.lists(st.tuples(st.floats(1, 100), rates, rates), min_size=1, max_size=6).map(
    lambda parts: joined([(for_s, r0, r1) for for_s, r0, r1 in parts])
)
spreads = st.tuples(st.integers(1, 900), st.integers(0, 900)).map(lambda pair: Uniform(pair[0], sum(pair)))
seeds = st.integers(0, 2**32)


def joined(parts):
    knots, now_s = [], 0.0
    for for_s, before, after in parts:
        knots += [(now_s, before), (now_s + for_s, after)]
        now_s += for_s
    return RateCurve(tuple(knots))


def area(curve, until_s):
    return clipped(curve, until_s).expected if until_s > 0 else 0.0


@given(curves, st.lists(st.floats(0, 1), max_size=10))
def test_the_running_total_at_each_moment_is_the_position_asked_for(curve, ratios):
    positions = sorted(ratio * curve.expected * 0.999 for ratio in ratios)
    moments = list(curve.moments(positions))

    assert len(moments) == len(positions) or curve.expected == 0.0
    assert moments == sorted(moments)
    assert all(curve.start_s <= moment <= curve.end_s for moment in moments)
    for moment, position in zip(moments, positions, strict=False):
        assert area(curve, moment) == pytest.approx(position, rel=1e-6, abs=1e-6)


@given(curves)
def test_positions_past_the_end_are_never_reached(curve):
    assert list(curve.moments([curve.expected * 1.001 + 1e-9])) == []


@given(curves, curves, st.floats(0.1, 3.0), st.floats(0.1, 3.0))
def test_curves_add_and_stretch(one, other, rate, time):
    assert (one + other).expected == pytest.approx(one.expected + other.expected, rel=1e-9, abs=1e-9)
    assert one.scaled(rate=rate, time=time).expected == pytest.approx(
        one.expected * rate * time, rel=1e-9, abs=1e-9
    )


@given(
    curve=st.sampled_from(
        [
            steady(4.0, 500.0),
            ramp(1.0, 9.0, 400.0),
            steps([(100.0, 2.0), (50.0, 0.0), (200.0, 8.0)]),
            daily(0.02, peak_ratio=1.9),
            flash_crowd(1.0, 30.0, for_s=1_200.0, at_s=200.0),
        ]
    ),
    gaps=st.sampled_from(
        [PoissonGaps(), GammaGaps.with_cv(0.5), GammaGaps.with_cv(2.0), WeibullGaps.with_cv(2.0)]
    ),
    seed=seeds,
)
def test_a_generators_mean_rate_is_its_curves(curve, gaps, seed):
    count = len(arrival_times(curve, SeededDice(seed), gaps))

    # A renewal count's variance tends to cv^2 times its mean; cv is 2 at most here. Six deviations and
    # a dozen requests for the skew leave less than one run in a million outside.
    assert abs(count - curve.expected) < 6 * 2 * math.sqrt(curve.expected) + 12


@given(st.floats(0.1, 20.0), st.floats(1.0, 200.0), seeds)
def test_even_gaps_are_even(per_s, for_s, seed):
    moments = arrival_times(steady(per_s, for_s), SeededDice(seed), EvenGaps())

    assert abs(len(moments) - per_s * for_s) <= 1
    gaps = [after - before for before, after in pairwise(moments)]
    assert gaps == pytest.approx([1.0 / per_s] * len(gaps), rel=1e-6)


@given(
    question=spreads,
    answer=spreads,
    turns=st.integers(1, 6),
    systems=st.lists(st.integers(0, 3_000), min_size=1, max_size=3),
    seed=seeds,
)
def test_each_turns_prompt_begins_with_the_full_blocks_of_the_one_before(
    question, answer, turns, systems, seed
):
    chat = Chat(
        question, answer, Uniform(turns, turns), system_prompts=tuple(systems), max_prompt_tokens=20_000
    )
    trace = chats(chat, steady(0.2, 50.0), SeededDice(seed))
    before = {}
    for row in trace:
        assert len(row.prefix_hashes) == math.ceil(row.prompt_tokens / 512)
        assert row.prompt_tokens <= 20_000
        if row.session in before:
            last = before[row.session]
            full = last.prefix_hashes[: last.prompt_tokens // 512]
            assert row.prefix_hashes[: len(full)] == full
            assert row.prompt_tokens > last.prompt_tokens + last.output_tokens
        before[row.session] = row
    shared = max(systems) // 512 * len(systems)
    used = [block for row in before.values() for block in row.prefix_hashes]
    assert all(used.count(block) == 1 for block in used if block >= shared)


@given(seeds, st.integers(1, 30), st.floats(0, 3))
def test_a_session_keeps_its_names(seed, adapters, exponent):
    chat = Chat(Uniform(10, 20), Uniform(1, 5), Uniform(1, 4))
    dice = SeededDice(seed)
    shares = Shares.zipf([None, *(f"lora-{number}" for number in range(adapters))], exponent)
    trace = labelled(
        chats(chat, steady(0.5, 60.0), dice), dice, adapters=shares, tenants=Shares.of({"a": 3, "b": 1})
    )

    assert len({row.session for row in trace}) == len(
        {(row.session, row.adapter, row.tenant) for row in trace}
    )
    assert {row.adapter for row in trace} <= set(shares.names)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.floats(0, 5)), min_size=1, max_size=6),
    seeds,
)
def test_a_histogram_gives_only_what_is_in_a_bin_that_has_weight(bins, seed):
    bins = tuple(sorted((low, low + width, weight) for low, width, weight in bins))
    if not sum(weight for *_, weight in bins) > 0:
        with pytest.raises(ValueError, match="above 0"):
            Histogram(bins)
        return
    dice = SeededDice(seed)
    for _ in range(20):
        drawn = Histogram(bins).draw(dice)
        assert any(low <= drawn <= high and weight > 0 for low, high, weight in bins)
