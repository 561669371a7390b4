"""Laws of the engine, whatever it is given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.engine.batch import Engine
from tidegate.engine.kernels import BLOCK_LAYERS, ONCE_LAYERS, KernelLaw, Shape
from tidegate.engine.latency import LinearLaw, Slowed
from tidegate.engine.sequence import Limits, Sequence

LAW = LinearLaw(a=6.37, b=0.011, c=0.0415, d=5.47, e=15.6, f=0.78)

arrivals = st.lists(
    st.tuples(
        st.floats(0, 3, allow_nan=False),  # after the one before
        st.integers(1, 300),  # prompt tokens
        st.integers(1, 120),  # output tokens
        st.integers(0, 3),  # which shared beginning
        st.sampled_from([None, None, "red", "blue", "green"]),  # adapter
    ),
    min_size=1,
    max_size=40,
)
limits = st.builds(
    lambda sequences, extra, blocks, block, caching, reserve, adapters, host, ahead: Limits(
        max_sequences=sequences,
        max_step_tokens=sequences + extra,
        kv_blocks=blocks + 420 // block + 1,
        block_tokens=block,
        prefix_caching=caching,
        reserve_prompt=reserve,
        max_adapters=adapters,
        host_blocks=host,
        host_block_load_s=0.001,
        async_scheduling=ahead,
    ),
    st.integers(1, 12),
    st.integers(1, 200),
    st.integers(0, 120),
    st.sampled_from([1, 3, 16, 64]),
    st.booleans(),
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from([0, 5, 50]),
    st.booleans(),
)


def sequences_of(arrivals, block_tokens):
    now_s, made = 0.0, []
    for number, (gap_s, prompt, output, shared, adapter) in enumerate(arrivals):
        now_s += gap_s
        blocks = (prompt + output) // block_tokens
        names = [(shared, block) for block in range(min(blocks, 100 // block_tokens))]
        names += [(1000 + number, block) for block in range(len(names), blocks)]
        made.append((now_s, Sequence(number, prompt, output, tuple(map(hash, names)), adapter)))
    return made


def run_by_leaps(limits, arrivals):
    engine, made = Engine(limits, LAW), sequences_of(arrivals, limits.block_tokens)
    for now_s, sequence in made:
        engine.add(sequence, now_s)
    engine.advance(1e9)
    return engine, [sequence for _, sequence in made]


def run_by_steps(limits, arrivals, look=lambda engine: None):
    engine, made = Engine(limits, LAW), sequences_of(arrivals, limits.block_tokens)
    for now_s, sequence in made:
        while engine.now_s < now_s and (engine.running or engine.waiting):
            engine.step()
            look(engine)
        engine.add(sequence, now_s)
    while engine.running or engine.waiting:
        engine.step()
        look(engine)
    return engine, [sequence for _, sequence in made]


@given(limits, arrivals)
def test_leaps_and_steps_give_the_same_schedule(limits, arrivals):
    leapt, by_leaps = run_by_leaps(limits, arrivals)
    stepped, by_steps = run_by_steps(limits, arrivals)

    assert (leapt.steps, leapt.step_tokens, leapt.preemptions) == (
        stepped.steps,
        stepped.step_tokens,
        stepped.preemptions,
    )
    for leap, step in zip(by_leaps, by_steps, strict=True):
        assert leap.scheduled_s == pytest.approx(step.scheduled_s, abs=1e-9)
        assert leap.first_token_s == pytest.approx(step.first_token_s, abs=1e-9)
        assert leap.finished_s == pytest.approx(step.finished_s, abs=1e-9)
        assert (leap.cached_tokens, leap.preemptions) == (step.cached_tokens, step.preemptions)


@given(limits, arrivals)
def test_used_and_free_blocks_are_all_blocks(limits, arrivals):
    def look(engine):
        assert engine.pool.free >= 0
        held = sum(engine.blocks_held())
        shared = engine.pool.shared_uses()
        assert held - shared + engine.pool.free == engine.pool.total

    engine, _ = run_by_steps(limits, arrivals, look)
    assert engine.pool.free == engine.pool.total


@given(limits, arrivals)
def test_every_sequence_ends_with_all_its_tokens(limits, arrivals):
    engine, sequences = run_by_leaps(limits, arrivals)

    for sequence in sequences:
        assert sequence.queued_s <= sequence.scheduled_s < sequence.first_token_s <= sequence.finished_s
        assert engine.tokens_out(sequence, engine.now_s) == sequence.output_tokens


@given(limits, arrivals, st.floats(0, 40), st.integers(0, 39))
def test_an_abort_gives_every_block_back_and_harms_nobody(limits, arrivals, after_s, whom):
    engine, made = Engine(limits, LAW), sequences_of(arrivals, limits.block_tokens)
    for now_s, sequence in made:
        engine.add(sequence, now_s)
    engine.advance(after_s)
    gone = made[whom % len(made)][1]
    engine.abort(gone)
    engine.advance(1e9)

    assert engine.pool.free == engine.pool.total
    assert all(sequence.finished_s for _, sequence in made if sequence is not gone)


@given(limits, arrivals, st.floats(0, 40), st.floats(0, 10))
def test_a_lost_cache_costs_time_and_no_token(limits, arrivals, after_s, first_request_s):
    engine = Engine(limits, LAW, first_request_s=first_request_s)
    made = sequences_of(arrivals, limits.block_tokens)
    for now_s, sequence in made:
        engine.add(sequence, now_s)
    engine.catch_up(after_s)
    engine.forget()
    assert engine.pool.free == engine.pool.total
    engine.advance(1e9)

    assert engine.pool.free == engine.pool.total
    for _, sequence in made:
        assert sequence.first_token_s <= sequence.finished_s
        assert engine.tokens_out(sequence, engine.now_s) == sequence.output_tokens


@given(limits, arrivals, st.floats(0.001, 10))
def test_what_is_done_once_is_paid_once(limits, arrivals, first_request_s):
    plain, cold = (Engine(limits, LAW, first_request_s=extra_s) for extra_s in (0.0, first_request_s))
    for engine in (plain, cold):
        for _, sequence in sequences_of(arrivals, limits.block_tokens):
            engine.add(sequence, 0.0)  # all at once: what follows is the same, only later
        engine.advance(1e9)

    assert cold.steps == plain.steps
    assert cold.busy_s == pytest.approx(plain.busy_s + first_request_s)
    assert cold.now_s == pytest.approx(plain.now_s + first_request_s)


@given(limits, arrivals, st.lists(st.floats(0, 100), max_size=30).map(sorted))
def test_what_is_told_does_not_depend_on_when_one_looks(limits, arrivals, looks):
    patient, expected = run_by_leaps(limits, arrivals)
    engine, made = Engine(limits, LAW), sequences_of(arrivals, limits.block_tokens)
    moments = sorted([(at, 1, None) for at in looks] + [(at, 0, s) for at, s in made], key=lambda m: m[:2])
    started, ended = [], []
    for now_s, _, sequence in moments:
        if sequence:
            engine.add(sequence, now_s)
            continue
        told = engine.advance(now_s)
        assert all(s.first_token_s <= now_s for s in told.started)
        assert all(s.finished_s <= now_s for s in told.ended)
        started += told.started
        ended += told.ended
    told = engine.advance(1e9)
    started += told.started
    ended += told.ended

    assert engine.steps == patient.steps
    assert sorted(s.key for s in started) == sorted(s.key for s in ended) == list(range(len(made)))
    for (_, sequence), other in zip(made, expected, strict=True):
        assert sequence.finished_s == pytest.approx(other.finished_s, abs=1e-9)


@given(limits, arrivals)
def test_following_the_wake_ups_misses_nothing(limits, arrivals):
    engine, made = Engine(limits, LAW), sequences_of(arrivals, limits.block_tokens)
    for now_s, sequence in made:
        while (wake_s := engine.wake_s) is not None and wake_s < now_s:
            told = engine.advance(wake_s)
            assert all(s.first_token_s == wake_s for s in told.started)
            assert all(s.finished_s == wake_s for s in told.ended)
        engine.add(sequence, now_s)
    while (wake_s := engine.wake_s) is not None:
        told = engine.advance(wake_s)
        assert all(s.finished_s == wake_s for s in told.ended)
    assert all(sequence.finished_s for _, sequence in made)


@given(st.integers(1, 4000), st.integers(1, 4000))
def test_the_first_token_of_a_longer_prompt_is_never_sooner(a, b):
    def first_token_s(prompt):
        engine, sequence = Engine(Limits(max_step_tokens=512, max_sequences=8), LAW), Sequence("s", prompt, 2)
        engine.add(sequence, 0.0)
        engine.advance(1e9)
        return sequence.first_token_s

    short, long = sorted((a, b))
    assert first_token_s(short) <= first_token_s(long)


@given(st.integers(1, 100), st.integers(1, 100))
def test_the_gap_between_tokens_grows_with_the_batch(a, b):
    def gap_s(batch):
        engine, sequences = Engine(Limits(), LAW), [Sequence(n, 10, 50) for n in range(batch)]
        for sequence in sequences:
            engine.add(sequence, 0.0)
        engine.advance(1e9)
        return (sequences[0].finished_s - sequences[0].first_token_s) / 49

    small, large = sorted((a, b))
    assert gap_s(small) <= gap_s(large)
    assert small == large or gap_s(small) < gap_s(large)


laws = st.one_of(
    st.just(LAW),
    st.just(Slowed(LAW, 3.0)),
    st.dictionaries(
        st.tuples(st.sampled_from([1, 4, 300]), st.integers(1, 2000)),
        st.floats(1e-5, 1e-2),
        min_size=1,
        max_size=12,
    ).map(
        lambda points: KernelLaw(
            Shape(layers=3, hidden=64, host_s=1e-3),
            {name: {1: 1e-5, 512: 1e-4} for name in (*BLOCK_LAYERS, *ONCE_LAYERS)},
            {(0, 0, *point): took_s for point, took_s in points.items()},
            {"lm_head": {1: 1e-4}},
        )
    ),
)


@given(laws, st.integers(1, 300), st.integers(0, 400_000), st.integers(1, 3000), st.floats(1e-6, 100))
def test_decoding_in_one_go_takes_as_long_as_step_by_step(law, sequences, kv_tokens, steps, span_s):
    singles = [law.mixed_s(sequences, kv_tokens + n * sequences, []) for n in range(min(steps, 300))]
    assert law.decode_s(sequences, kv_tokens, len(singles)) == pytest.approx(sum(singles))
    if min(singles) <= 0:
        return  # tables may fall so steeply that they make no sense beyond their ends

    took_s = law.decode_s(sequences, kv_tokens, len(singles))
    span_s = min(span_s, took_s)
    fewest = law.decode_steps(sequences, kv_tokens, span_s)
    assert law.decode_s(sequences, kv_tokens, fewest) >= span_s * (1 - 1e-9)
    assert fewest == 1 or law.decode_s(sequences, kv_tokens, fewest - 1) < span_s * (1 + 1e-9)


@given(limits, arrivals, st.lists(st.floats(0, 100), max_size=30).map(sorted))
def test_tokens_out_never_fall_and_agree_with_the_moments(limits, arrivals, looks):
    engine, made = Engine(limits, LAW), sequences_of(arrivals, limits.block_tokens)
    for now_s, sequence in made:
        engine.add(sequence, now_s)
    before = dict.fromkeys(range(len(made)), 0)
    for now_s in looks:
        if now_s < made[-1][0]:
            continue
        engine.advance(now_s)
        for _, sequence in made:
            out = engine.tokens_out(sequence, now_s)
            assert before[sequence.key] <= out <= sequence.output_tokens
            assert (out > 0) == (sequence.first_token_s is not None and sequence.first_token_s <= now_s)
            is_finished = sequence.finished_s is not None and sequence.finished_s <= now_s
            assert (out == sequence.output_tokens) == is_finished
            before[sequence.key] = out
