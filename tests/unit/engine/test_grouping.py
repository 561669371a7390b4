"""Static and dynamic batching: a group is a rectangle of its longest prompt and its longest answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.engine.batch import Engine
from tidegate.engine.grouping import Grouping
from tidegate.engine.latency import LinearLaw
from tidegate.engine.sequence import Limits, Sequence

PER_TOKEN = LinearLaw(a=1, b=0, c=0, d=0, e=1000, f=0)
"""A millisecond for each token of a prompt, and one for each step that decodes."""


def grouped(*sequences, size, timeout_s=None, law=PER_TOKEN, **limits):
    engine = Engine(Limits(**limits), law, Grouping(size, timeout_s))
    for at_s, sequence in sequences:
        engine.add(sequence, at_s)
    return engine


def test_every_prompt_is_padded_to_the_longest_and_all_end_with_the_longest_answer():
    short, long = Sequence("short", 10, 2), Sequence("long", 90, 5)
    engine = grouped((0.0, short), (0.0, long), size=2)
    engine.advance(10.0)

    assert engine.step_tokens == 2 * 90 + 2 * 4
    assert [one.first_token_s for one in (short, long)] == pytest.approx([0.180, 0.180])
    assert [one.finished_s for one in (short, long)] == pytest.approx([0.184, 0.184])
    assert engine.tokens_out(short, 10.0) == 2


def test_the_next_group_waits_until_the_whole_of_the_one_before_has_ended():
    first = [Sequence(n, 10, tokens) for n, tokens in enumerate((1, 50))]
    second = [Sequence(n, 10, 1) for n in (2, 3)]
    engine = grouped(*((0.0, one) for one in first + second), size=2)
    engine.advance(10.0)

    assert second[0].scheduled_s == first[1].finished_s == pytest.approx(0.020 + 0.049)


def test_a_group_takes_no_more_than_fits_at_its_full_size():
    wide, tall = Sequence("wide", 60, 1), Sequence("tall", 1, 60)  # 120 tokens each as a group of two
    engine = grouped((0.0, wide), (0.0, tall), size=2, timeout_s=0.0, kv_blocks=8, block_tokens=16)
    engine.advance(10.0)

    assert engine.preemptions == 0
    assert 0.0 == wide.scheduled_s < wide.finished_s == tall.scheduled_s


def test_a_group_has_no_more_adapters_than_slots():
    some = [Sequence(n, 4, 1, (), adapter) for n, adapter in enumerate(("red", "blue", "red"))]
    engine = grouped(*((0.0, one) for one in some), size=3, timeout_s=0.0, max_adapters=1)
    engine.advance(10.0)

    assert some[0].finished_s <= some[1].scheduled_s < some[2].scheduled_s


def test_nothing_is_found_in_the_cache_of_a_group():
    some = [Sequence(n, 32, 1, (1, 2)) for n in range(2)]
    engine = grouped((0.0, some[0]), (5.0, some[1]), size=1)
    engine.advance(10.0)

    assert some[1].cached_tokens == 0
    assert engine.step_tokens == 64


arrivals = st.lists(
    st.tuples(st.floats(0, 0.5), st.integers(1, 100), st.integers(1, 40)), min_size=1, max_size=25
)


@given(arrivals, st.integers(1, 6), st.floats(0, 1), st.integers(0, 30), st.none() | st.floats(0, 5))
def test_leaps_and_steps_give_the_same_groups_and_nobody_is_lost(asked, size, timeout_s, blocks, forget_s):
    def run(by_steps):
        engine = Engine(Limits(kv_blocks=12 + blocks), PER_TOKEN, Grouping(size, timeout_s))
        made, now_s = [], 0.0
        for number, (gap_s, prompt, output) in enumerate(asked):
            now_s += gap_s
            made.append(Sequence(number, prompt, output))
            if forget_s is not None and now_s - gap_s <= forget_s < now_s:
                engine.catch_up(forget_s)
                engine.forget()
            engine.add(made[-1], now_s)
        while by_steps and engine.wake_s is not None:
            engine.advance(engine.wake_s)
        engine.advance(1e9)
        return engine, made

    leapt, by_leaps = run(by_steps=False)
    stepped, by_steps = run(by_steps=True)

    assert (leapt.steps, leapt.step_tokens) == (stepped.steps, stepped.step_tokens)
    for one, other in zip(by_leaps, by_steps, strict=True):
        assert one.finished_s == pytest.approx(other.finished_s)
        assert one.queued_s <= one.scheduled_s < one.first_token_s <= one.finished_s
        assert leapt.tokens_out(one, 1e9) == one.output_tokens
    assert leapt.pool.free == leapt.pool.total
    assert leapt.preemptions == 0 or forget_s is not None
