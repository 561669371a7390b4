"""Stories of one engine. Steps last a second for each decoding sequence's sake, whatever is in them."""

import pytest

from tidegate.engine.batch import Engine
from tidegate.engine.latency import LinearLaw
from tidegate.engine.sequence import Limits, Sequence

EVERY_STEP_1S = LinearLaw(a=1000, b=0, c=0, d=1000, e=0, f=0)


def engine_with(**limits):
    return Engine(
        Limits(**{"max_sequences": 4, "max_step_tokens": 8, "kv_blocks": 100} | limits), EVERY_STEP_1S
    )


def test_a_prompt_longer_than_the_budget_is_computed_in_chunks():
    engine, sequence = engine_with(), Sequence("s", prompt_tokens=20, output_tokens=3)
    engine.add(sequence, 10.0)
    engine.advance(100.0)

    assert sequence.scheduled_s == 10.0
    assert sequence.first_token_s == 13.0  # 8 + 8 + 4 tokens
    assert sequence.finished_s == 15.0


def test_decoding_goes_on_while_a_prompt_is_computed():
    engine = engine_with()
    talker, reader = Sequence("talker", 1, 20), Sequence("reader", 14, 1)
    engine.add(talker, 0.0)
    engine.add(reader, 0.0)
    engine.advance(100.0)

    # Step 1: 1 + 7 tokens; step 2: one decoded and the other 7.
    assert (talker.first_token_s, reader.first_token_s) == (1.0, 2.0)
    assert talker.finished_s == 20.0


def test_who_arrives_during_a_step_waits_for_its_end():
    engine = engine_with()
    first, second = Sequence("first", 4, 5), Sequence("second", 4, 5)
    engine.add(first, 0.0)
    engine.add(second, 0.25)
    engine.advance(100.0)
    assert (first.scheduled_s, second.scheduled_s) == (0.0, 1.0)


def test_composed_ahead_a_step_misses_who_arrives_during_the_one_before():
    engine = engine_with(async_scheduling=True)
    first, second = Sequence("first", 4, 5), Sequence("second", 4, 1)
    engine.add(first, 0.0)
    engine.add(second, 0.25)
    engine.advance(100.0)
    assert (first.scheduled_s, second.scheduled_s) == (0.0, 2.0)

    late = Sequence("late", 4, 1)
    engine.add(late, 200.0)  # nothing runs, so nothing is ahead
    engine.advance(300.0)
    assert late.scheduled_s == 200.0


def test_composed_ahead_a_step_cannot_use_the_slot_that_the_one_before_frees():
    engine = engine_with(async_scheduling=True)
    sequences = [Sequence(number, 1, 3 + number) for number in range(5)]
    for sequence in sequences:
        engine.add(sequence, 0.0)
    engine.advance(100.0)
    assert sequences[0].finished_s == 3.0
    assert sequences[4].scheduled_s == 4.0


def test_the_fifth_of_four_waits_for_the_first_to_end():
    engine = engine_with()
    sequences = [Sequence(number, 1, 3 + number) for number in range(5)]
    for sequence in sequences:
        engine.add(sequence, 0.0)
    engine.advance(1.0)
    assert (engine.running, engine.waiting) == (4, 1)

    engine.advance(100.0)
    assert sequences[4].scheduled_s == sequences[0].finished_s == 3.0


def test_the_last_admitted_is_preempted_and_computes_everything_again():
    engine = engine_with(kv_blocks=4, block_tokens=4, prefix_caching=False)
    first, last = Sequence("first", 4, 9), Sequence("last", 4, 9)
    engine.add(first, 0.0)
    engine.add(last, 0.0)
    engine.advance(4.5)
    assert (engine.running, engine.waiting, engine.pool.free) == (2, 0, 0)

    engine.advance(5.5)  # both need a third block, and there is none
    assert (last.preemptions, engine.waiting, engine.tokens_out(last, 5.5)) == (1, 1, 5)

    engine.advance(100.0)
    assert first.finished_s == 9.0
    assert last.finished_s == 9.0 + 2 + 3  # 9 tokens of prompt in two chunks bring the sixth
    assert last.first_token_s == 1.0


def test_a_shared_prefix_is_computed_once():
    engine = engine_with(block_tokens=4)
    first = Sequence("first", 18, 1, block_hashes=(1, 2, 3, 4))
    second = Sequence("second", 18, 1, block_hashes=(1, 2, 3, 4))
    other = Sequence("other", 18, 1, block_hashes=(1, 7, 8, 9))
    for sequence in (first, second, other):
        engine.add(sequence, engine.now_s)
        engine.advance(engine.now_s + 10)
    assert [sequence.cached_tokens for sequence in (first, second, other)] == [0, 16, 4]


def test_the_last_token_of_a_cached_prompt_is_computed_all_the_same():
    engine = engine_with(block_tokens=4)
    for number in range(2):
        sequence = Sequence(number, 8, 1, block_hashes=(1, 2))
        engine.add(sequence, engine.now_s)
        engine.advance(engine.now_s + 10)
    assert sequence.cached_tokens == 4


def test_the_next_turn_of_a_chat_finds_the_answer_of_the_last():
    engine = engine_with(block_tokens=4)
    engine.add(Sequence("turn 1", 8, 9, block_hashes=(1, 2, 3, 4)), 0.0)
    engine.advance(50.0)
    second = Sequence("turn 2", 22, 1, block_hashes=(1, 2, 3, 4, 5))
    engine.add(second, 50.0)
    engine.advance(60.0)
    assert second.cached_tokens == 16  # 8 of the prompt, 8 of the 9 of the answer


def test_the_prefix_unused_for_longest_goes_first():
    engine = engine_with(block_tokens=4, kv_blocks=6)
    old = Sequence("old", 9, 1, block_hashes=(1, 2))
    young = Sequence("young", 9, 1, block_hashes=(11, 12))
    filler = Sequence("filler", 8, 1, block_hashes=(21, 22))
    for sequence in (old, young, filler):
        engine.add(sequence, engine.now_s)
        engine.advance(engine.now_s + 10)

    assert engine.pool.hits((11, 12)) == 2
    assert engine.pool.hits((1, 2)) == 1  # its end went, its beginning stays


def test_an_abort_frees_the_slot_for_the_next_step():
    engine = engine_with(max_sequences=1)
    gone, waiting = Sequence("gone", 4, 100), Sequence("waiting", 4, 1)
    engine.add(gone, 0.0)
    engine.add(waiting, 0.0)
    engine.advance(5.5)
    engine.abort(gone)
    engine.abort(gone)  # again does no harm
    engine.advance(10.0)

    assert waiting.scheduled_s == 6.0
    assert gone.finished_s is None
    assert engine.pool.free == engine.pool.total


def test_tokens_come_out_at_the_end_of_their_step():
    engine, sequence = engine_with(), Sequence("s", 4, 5)
    engine.add(sequence, 0.0)
    out = []
    for now_s in (0.5, 1.0, 1.5, 3.0, 4.5, 5.0, 9.0):
        engine.advance(now_s)
        out.append(engine.tokens_out(sequence, now_s))
    assert out == [0, 1, 1, 3, 4, 5, 5]


def test_who_is_aborted_in_the_last_step_is_told_of_no_more():
    engine, sequence = engine_with(), Sequence("s", 4, 1)
    engine.add(sequence, 0.0)
    assert not engine.advance(0.5).started
    engine.abort(sequence)

    told = engine.advance(9.0)
    assert (told.started, told.ended, sequence.finished_s) == ([], [], None)
    assert engine.wake_s is None


def test_what_can_never_fit_is_refused():
    engine = engine_with(kv_blocks=2, block_tokens=4)
    engine.add(Sequence("fits", 4, 5), 0.0)
    with pytest.raises(ValueError, match="too long needs 3 blocks; the cache has 2"):
        engine.add(Sequence("too long", 4, 6), 0.0)


def test_limits_that_cannot_work_say_why():
    with pytest.raises(ValueError, match="max_step_tokens is 3; it must be at least max_sequences"):
        engine_with(max_step_tokens=3)
    with pytest.raises(ValueError, match="kv_blocks is 0; it must be at least 1"):
        engine_with(kv_blocks=0)


def test_one_that_is_preempted_and_back_in_the_next_step_ends_once():
    engine = engine_with(
        max_sequences=2, max_step_tokens=124, kv_blocks=166, block_tokens=3, prefix_caching=False,
        reserve_prompt=False, async_scheduling=True,
    )  # fmt: skip
    first, second = Sequence("first", 43, 83), Sequence("second", 297, 77)
    engine.add(first, 0.0)
    engine.add(second, 0.5)
    ended = []
    while engine.wake_s is not None:
        ended += engine.advance(engine.wake_s).ended

    assert sorted(sequence.key for sequence in ended) == ["first", "second"]
    assert first.preemptions + second.preemptions > 0


def test_the_very_first_sequence_pays_for_what_is_done_once():
    engine = Engine(Limits(max_sequences=4, max_step_tokens=8, kv_blocks=100), EVERY_STEP_1S, None, 5.0)
    first, beside, later = (Sequence(name, 4, 2) for name in ("first", "beside", "later"))
    engine.add(first, 10.0)
    engine.add(beside, 10.0)
    assert engine.wake_s <= 16.0
    engine.advance(50.0)
    engine.add(later, 100.0)
    engine.advance(200.0)

    assert (first.first_token_s, beside.first_token_s) == (16.0, 16.0)
    assert first.finished_s == 17.0
    assert later.first_token_s == 101.0


def test_who_decodes_when_the_cache_is_lost_is_computed_again_and_loses_no_token():
    engine = engine_with(max_step_tokens=100)
    older, younger = Sequence("older", 4, 10, (1, 2)), Sequence("younger", 4, 3)
    engine.add(older, 0.0)
    engine.add(younger, 1.0)
    engine.advance(2.0)
    engine.forget()
    assert engine.pool.free == engine.pool.total
    assert (engine.running, engine.waiting) == (0, 2)

    engine.advance(100.0)
    assert (older.finished_s, younger.finished_s) == (10.0, 4.0)
    assert engine.preemptions == 2
