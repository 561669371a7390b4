"""What a number of replicas is predicted to do to the promise."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.core.capacity import Capacity, Kind
from tidegate.core.fleet.answering import Alike, Traffic, full_replica
from tidegate.core.fleet.predicting import attainment
from tidegate.core.scaling_settings import Promise
from tidegate.core.types import CapacityFigures, ModelId

CAPACITY = Capacity(Kind(ModelId("m"), "vllm"))
"""Of the prior: 12,000 prompt tokens a second, a step of 10 ms and a tenth more for each sequence."""
SLOW = Capacity.told(
    CapacityFigures(ModelId("m"), "vllm", "small/l4x1", (0.03, 0.3, 0.006), (0.05, 0.001, 0.0003), 99, 99)
)
"""A step takes five times as long, and so does a prompt."""
PROMISE = Promise(ttft_s=2.0, tpot_s=0.1)


def kept(replicas, arrivals=10.0, queued=0.0, prompt=1000.0, output=200.0, slots=32, promise=PROMISE):
    crew = [Alike(replicas, CAPACITY, slots)] if replicas else []
    return attainment(crew, Traffic(arrivals, prompt, output, queued), promise)


def test_a_replica_more_than_enough_keeps_all_and_far_too_few_keep_next_to_none():
    full = full_replica(Traffic(10.0, 1000.0, 200.0), CAPACITY, 32)

    assert 5.0 < full.requests_per_s < 10.0
    assert kept(3) > 0.999
    assert kept(1, arrivals=40.0) < 0.1


def test_a_line_that_waits_already_is_late_until_it_is_gone():
    assert kept(3, queued=0) > 0.999
    assert 0.4 < kept(3, queued=150) < 0.95
    assert kept(3, queued=2_000) < 0.05
    assert kept(6, queued=150) > kept(3, queued=150)


def test_what_nobody_serves_is_late_and_where_nothing_comes_there_is_nothing_to_say():
    assert kept(0) == 0.0
    assert kept(2, arrivals=0.0) is None


def test_a_slow_pace_breaks_the_other_half_of_the_promise():
    quick = kept(4, arrivals=12.0, promise=Promise(2.0, 0.1))
    strict = kept(4, arrivals=12.0, promise=Promise(2.0, 0.012))

    assert quick > 0.99 > 0.5 > strict


@example(arrivals=15.0, queued=0.0, prompt=1.0, output=2098.0, slots=13, replicas=29)
@given(
    arrivals=st.floats(0.01, 200),
    queued=st.floats(0, 5_000),
    prompt=st.floats(1, 20_000),
    output=st.floats(1, 4_000),
    slots=st.integers(1, 256),
    replicas=st.integers(1, 50),
)
def test_one_more_replica_never_keeps_less(arrivals, queued, prompt, output, slots, replicas):
    traffic = Traffic(arrivals, prompt, output, queued)
    fewer, more = (
        attainment([Alike(n, CAPACITY, slots)], traffic, PROMISE) for n in (replicas, replicas + 1)
    )

    assert 0.0 <= fewer <= 1.0
    assert more >= fewer - 1e-6


@given(
    arrivals=st.floats(0.01, 200),
    queued=st.floats(0, 5_000),
    prompt=st.floats(1, 20_000),
    output=st.floats(1, 4_000),
    some=st.integers(1, 20),
    others=st.integers(1, 20),
)
def test_replicas_that_are_alike_may_be_counted_in_parts(arrivals, queued, prompt, output, some, others):
    traffic = Traffic(arrivals, prompt, output, queued)
    parts = [Alike(some, CAPACITY, 32), Alike(others, CAPACITY, 32)]

    whole = attainment([Alike(some + others, CAPACITY, 32)], traffic, PROMISE)
    assert attainment(parts, traffic, PROMISE) == pytest.approx(whole, abs=1e-3)


def test_where_nothing_comes_two_kinds_answer_what_waits():
    parts = [Alike(2, CAPACITY, 32), Alike(1, SLOW, 8)]

    assert attainment(parts, Traffic(0.0, 1000.0, 200.0, 10.0), PROMISE) > 0.99


def test_what_comes_goes_to_the_fast_ones_first_and_what_a_slow_one_gets_is_late_there():
    def both(arrivals):
        crew = [Alike(2, CAPACITY, 32), Alike(4, SLOW, 8)]
        return attainment(crew, Traffic(arrivals, 1000.0, 200.0), Promise(2.0, 0.04))

    assert both(4.0) > 0.99
    assert 0.5 < both(14.0) < 0.96


terms = st.tuples(*[st.sampled_from([0.0, 1e-4, 0.05])] * 3)


@given(terms, terms, st.sampled_from([0.0, 0.01, 3.0, 1_000.0]), st.floats(0.0, 100.0))
def test_a_term_that_was_learned_to_be_nothing_is_a_figure_as_any_other_is(prefill, decode, arrivals, queued):
    """Least squares leave a term out where it would be negative: then an empty step takes no time."""
    told = Capacity.told(CapacityFigures(ModelId("m"), "vllm", "", prefill, decode, 99, 99))
    for crew in ([Alike(2, told, 8)], [Alike(2, told, 8), Alike(1, SLOW, 8)]):
        share = attainment(crew, Traffic(arrivals, 1000.0, 200.0, queued), PROMISE)
        assert share is None or 0.0 <= share <= 1.0
