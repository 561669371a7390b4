"""Adapters share the batch as far as their slots go. Steps last a second, loading an adapter ten."""

import pytest

from tidegate.engine.batch import Engine
from tidegate.engine.latency import LinearLaw
from tidegate.engine.sequence import Limits, Sequence

EVERY_STEP_1S = LinearLaw(a=1000, b=0, c=0, d=1000, e=0, f=0)


def engine_with(slots):
    limits = Limits(max_sequences=8, max_step_tokens=100, max_adapters=slots, adapter_load_s=10.0)
    return Engine(limits, EVERY_STEP_1S)


def ask(engine, key, adapter, output=3, now_s=0.0):
    sequence = Sequence(key, 4, output, adapter=adapter)
    engine.add(sequence, now_s)
    return sequence


def test_an_adapter_is_loaded_once():
    engine = engine_with(slots=2)
    first = ask(engine, 1, "red")
    engine.advance(50.0)
    again = ask(engine, 2, "red", now_s=50.0)
    engine.advance(100.0)

    assert first.first_token_s == 11.0
    assert again.first_token_s == 51.0


def test_who_finds_no_slot_is_passed_by_others():
    engine = engine_with(slots=1)
    red = ask(engine, 1, "red", output=5)
    blue = ask(engine, 2, "blue")
    plain = ask(engine, 3, None)
    more_red = ask(engine, 4, "red")
    engine.advance(1.0)
    assert (engine.adapters_running, engine.adapters_waiting) == (["red"], ["blue"])

    engine.advance(100.0)
    assert red.scheduled_s == plain.scheduled_s == more_red.scheduled_s == 0.0
    assert blue.scheduled_s == red.finished_s == 15.0
    assert blue.first_token_s == 26.0


def test_who_arrives_later_may_pass_a_queue_that_lacks_slots():
    engine = engine_with(slots=1)
    ask(engine, 1, "red", output=20)
    ask(engine, 2, "blue")
    engine.advance(15.0)
    plain = ask(engine, 3, None, now_s=15.5)
    engine.advance(100.0)
    assert plain.scheduled_s == 16.0


def test_the_adapter_unused_for_longest_goes():
    engine = engine_with(slots=2)
    for number, adapter in enumerate(("red", "blue", "red", "green")):
        ask(engine, number, adapter, now_s=100.0 * number)
        engine.advance(100.0 * number + 50)
    kept, gone = ask(engine, 8, "red", now_s=400.0), ask(engine, 9, "blue", now_s=500.0)
    engine.advance(600.0)
    assert (kept.first_token_s, gone.first_token_s) == (401.0, 511.0)


def test_an_aborted_sequence_gives_its_slot_back():
    engine = engine_with(slots=1)
    red = ask(engine, 1, "red", output=100)
    blue = ask(engine, 2, "blue")
    engine.advance(20.5)
    engine.abort(red)
    engine.advance(100.0)
    assert blue.scheduled_s == 21.0


def test_no_slots_at_all_are_refused():
    with pytest.raises(ValueError, match="max_adapters is 0; it must be at least 1"):
        engine_with(slots=0)
