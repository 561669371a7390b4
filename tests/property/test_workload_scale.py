"""Laws of scaling: order stays, and counts are as asked."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dice import SeededDice
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.scale import between, scaled_rate, scaled_time
from tidegate.workload.sharing import sharing

factors = st.floats(0.01, 5.0)
moments = st.lists(st.floats(0, 1e5), max_size=40)


def trace_of(moments, sessions=None):
    """Row numbers stand in the prompt tokens, so that rows can be told apart."""
    builder = TraceBuilder()
    for number, moment in enumerate(sorted(moments)):
        builder.add(
            moment, number, 1, session=sessions and f"s{number % sessions}", prefix_hashes=(0, number // 2)
        )
    return builder.build()


@given(moments, factors, st.integers())
def test_rate_scaling_keeps_order_span_and_gives_the_count_asked_for(moments, factor, seed):
    trace = trace_of(moments)
    scaled = scaled_rate(trace, factor, SeededDice(seed))

    whole, part = int(factor), factor - int(factor)
    assert len(scaled) == len(trace) * whole + round(len(trace) * part)
    assert list(scaled.arrived_s) == sorted(scaled.arrived_s)
    assert list(scaled.prompt_tokens) == sorted(scaled.prompt_tokens)
    if len(scaled):
        assert trace.arrived_s[0] <= scaled.arrived_s[0]
        assert scaled.arrived_s[-1] <= trace.arrived_s[-1]


@given(moments, st.integers())
def test_the_same_rate_is_the_same_trace(moments, seed):
    trace = trace_of(moments)

    assert scaled_rate(trace, 1.0, SeededDice(seed)) == trace


@given(moments, st.floats(0.01, 0.99), st.integers(1, 6), st.integers())
def test_a_lower_rate_keeps_sessions_whole(moments, factor, sessions, seed):
    trace = trace_of(moments, sessions)
    scaled = scaled_rate(trace, factor, SeededDice(seed))

    kept = {row.session for row in scaled}
    assert len(kept) == round(len({row.session for row in trace}) * factor)
    assert list(scaled) == [row for row in trace if row.session in kept]


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=40), st.integers(2, 4), st.integers())
def test_a_multiple_of_the_rate_shares_as_many_prefixes(moments, factor, seed):
    trace = trace_of(moments)
    assume(sum(trace.prompt_tokens))
    scaled = scaled_rate(trace, factor, SeededDice(seed))

    once, often = sharing(trace, (10,)), sharing(scaled, (10,))
    assert often.unique_blocks == once.unique_blocks * factor
    assert often.token_hit_ratio == pytest.approx(once.token_hit_ratio)
    assert often.requests_with_hit_ratio == pytest.approx(once.requests_with_hit_ratio)


@given(moments, factors)
def test_time_scaling_stretches_moments_and_changes_nothing_else(moments, factor):
    trace = trace_of(moments)
    scaled = scaled_time(trace, factor)

    assert list(scaled.arrived_s) == [moment * factor for moment in trace.arrived_s]
    assert scaled.at(trace.arrived_s) == trace


@given(moments, st.floats(0, 1e5))
def test_two_parts_are_the_whole(moments, cut_s):
    trace = trace_of(moments)
    early, late = between(trace, until_s=cut_s), between(trace, from_s=cut_s)

    assert list(early.prompt_tokens) + list(late.prompt_tokens) == list(trace.prompt_tokens)
    assert all(0 <= moment < cut_s for moment in early.arrived_s)
    assert all(moment >= 0 for moment in late.arrived_s)


def test_a_factor_that_moves_requests_beyond_a_hundred_years_is_refused():
    with pytest.raises(ValueError, match=r"after 1e\+11 s, and 3.2e\+09 is the most"):
        scaled_time(trace_of([0.0, 1.0]), 1e11)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf"), float("nan")])
def test_a_factor_that_makes_no_trace_is_refused(factor):
    with pytest.raises(ValueError, match="above 0"):
        scaled_time(trace_of([1.0]), factor)
    with pytest.raises(ValueError, match="above 0"):
        scaled_rate(trace_of([1.0]), factor, SeededDice(0))
