"""What a kind of replica can do: sane before there is data, learned from live traffic, never absurd."""

import pytest

from tidegate.core.capacity import KNOWN_AFTER, SAMPLES_PER_S, Capacity, CapacityBook, Kind

KIND = Kind("m", "vllm", "h100x1")


def taught(capacity, count, seconds, tokens=2_000, begin_s=0.0, settled=True):
    for n in range(count):
        new = tokens * (1 + n % 4) / 2
        took_s = seconds(new)
        capacity.learn_prefill(begin_s + n, 1, new, new * new / 2, took_s, settled=settled)


def test_before_there_is_data_it_is_eight_billion_parameters_on_one_large_gpu():
    capacity = Capacity(KIND)

    assert 8_000 < capacity.prefill_tokens_per_s < 20_000
    assert 0.005 < capacity.step_s(1, 1_000) < 0.03
    assert capacity.prefill_s(1, 0) >= 0.005
    assert capacity.kv_tokens is None  # not known is not zero
    assert not capacity.is_known


def test_a_cached_beginning_still_has_to_be_looked_at():
    capacity = Capacity(KIND)

    assert capacity.prefill_s(1_000, 0) < capacity.prefill_s(1_000, 50_000) < capacity.prefill_s(51_000, 0)


def test_a_replica_four_times_as_fast_as_the_prior_is_known_within_some_samples():
    capacity = Capacity(KIND)
    taught(capacity, 60, lambda new: 0.004 + new * 0.02e-3)

    assert capacity.prefill_s(2_000, 0) == pytest.approx(0.044, rel=0.05)
    assert capacity.prefill_s(500, 0) == pytest.approx(0.014, rel=0.15)


def test_first_seconds_stand_in_for_the_prior_and_are_pushed_aside_by_settled_ones():
    capacity = Capacity(KIND)
    taught(capacity, 50, lambda new: 0.01 + new * 0.4e-3, settled=False)  # five times slower than it will be
    assert capacity.prefill_s(2_000, 0) == pytest.approx(0.81, rel=0.3)
    assert not capacity.is_known

    taught(capacity, KNOWN_AFTER, lambda new: 0.01 + new * 0.08e-3, begin_s=60.0)

    assert capacity.is_known
    assert capacity.prefill_s(2_000, 0) == pytest.approx(0.17, rel=0.1)
    taught(capacity, 50, lambda new: 0.01 + new * 0.4e-3, begin_s=200.0, settled=False)
    assert capacity.prefill_s(2_000, 0) == pytest.approx(0.17, rel=0.1)


def test_decode_steps_are_learned_the_same_way():
    capacity = Capacity(KIND)
    for n in range(200):
        sequences, kv = 1 + n % 50, 1_000.0 * (1 + n % 50)
        capacity.learn_decode(float(n), sequences, kv, 0.02 + 0.0005 * sequences, settled=n >= 50)

    assert capacity.step_s(40, 40_000) == pytest.approx(0.04, rel=0.2)
    assert capacity.drag_s(40, 40_000) == pytest.approx(0.02, rel=0.3)


def test_gaps_that_prompts_made_longer_say_little_and_short_ones_much():
    capacity = Capacity(KIND)
    for n in range(300):
        gap_s = 0.02 if n % 2 else 0.2  # every second request shared its steps with long prompts
        capacity.learn_decode(float(n), 8, 8_000, gap_s)

    assert capacity.step_s(8, 8_000) < 0.06


def test_fifty_samples_a_second_are_enough():
    capacity = Capacity(KIND)
    for n in range(1_000):
        capacity.learn_prefill(n * 0.001, 1, 1_000, 5e5, 0.05)

    assert capacity._settled_prefill.samples == pytest.approx(SAMPLES_PER_S, abs=2)


def test_how_many_tokens_a_text_has_is_learned_by_the_median():
    capacity = Capacity(KIND)
    for n in range(400):
        capacity.learn_tokens(1_000, 100_000 if n % 10 == 0 else 1_300)

    assert capacity.token_scale == pytest.approx(1.3, rel=0.15)


def test_memorys_bound_is_learned_from_prompts_that_had_to_wait():
    capacity = Capacity(KIND)
    capacity.learn_room(80_000, was_short=False)
    assert capacity.kv_tokens is None
    capacity.learn_room(100_000, was_short=True)
    assert capacity.kv_tokens == 100_000

    capacity.learn_room(120_000, was_short=False)  # more did fit
    assert 100_000 < capacity.kv_tokens < 120_000
    capacity.learn_room(60_000, was_short=False)  # less says nothing
    assert capacity.kv_tokens > 100_000


def test_each_kind_has_its_own_and_a_kind_has_one():
    book = CapacityBook()
    first = book.of(KIND)

    assert book.of(Kind("m", "vllm", "h100x1")) is first
    assert book.of(Kind("m", "vllm", "l4x1")) is not first
    assert [capacity.kind.gpu for capacity in book.all()] == ["h100x1", "l4x1"]
