"""What a number of replicas is predicted to do to the promise."""

from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.core.capacity import Capacity, Kind
from tidegate.core.fleet.predicting import Traffic, attainment, full_replica
from tidegate.core.scaling_settings import Promise
from tidegate.core.types import ModelId

CAPACITY = Capacity(Kind(ModelId("m"), "vllm"))
"""Of the prior: 12,000 prompt tokens a second, a step of 10 ms and a tenth more for each sequence."""
PROMISE = Promise(ttft_s=2.0, tpot_s=0.1)


def kept(replicas, arrivals=10.0, queued=0.0, prompt=1000.0, output=200.0, slots=32, promise=PROMISE):
    return attainment(replicas, Traffic(arrivals, prompt, output, queued), CAPACITY, slots, promise)


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
    fewer, more = (attainment(n, traffic, CAPACITY, slots, PROMISE) for n in (replicas, replicas + 1))

    assert 0.0 <= fewer <= 1.0
    assert more >= fewer - 1e-6
