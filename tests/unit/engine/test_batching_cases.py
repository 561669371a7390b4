"""The worked cases of batching come out exactly. Times in milliseconds, as the cases have them."""

import json
from pathlib import Path

import pytest

from tidegate.engine.batch import Engine
from tidegate.engine.grouping import Grouping
from tidegate.engine.sequence import Limits, Sequence

CASE = json.loads(Path(__file__).with_name("worked_cases.json").read_text())["batching"]


class ServedIn:
    """A step takes as long as a whole request, whoever is in it."""

    def __init__(self, took):
        self._took = took

    def mixed_s(self, sequences, kv_tokens, chunks):
        return self._took

    def decode_s(self, sequences, kv_tokens, steps):
        return steps * self._took

    def decode_steps(self, sequences, kv_tokens, span_s):
        return max(1, -(-span_s // self._took))


def waits(engine, output_tokens):
    sequences = [Sequence(number, 1, output_tokens) for number, _ in enumerate(CASE["arrivals_ms"])]
    for sequence, at in zip(sequences, CASE["arrivals_ms"], strict=True):
        engine.add(sequence, at)
    engine.advance(10_000)
    return [sequence.scheduled_s - sequence.queued_s for sequence in sequences]


def test_static_batching_waits_for_a_full_group():
    engine = Engine(Limits(), ServedIn(100), Grouping(CASE["batch_size"]))
    assert waits(engine, 1) == CASE["static"]["waits_ms"]


def test_dynamic_batching_waits_for_a_full_group_or_the_timeout():
    timeout = CASE["dynamic"]["timeout_ms"]
    engine = Engine(Limits(), ServedIn(100), Grouping(CASE["batch_size"], timeout))
    found = waits(engine, 1)

    assert found == CASE["dynamic"]["waits_ms"]
    starts = [at + wait for at, wait in zip(CASE["arrivals_ms"], found, strict=True)]
    assert starts == CASE["dynamic"]["starts_ms"]
    assert sum(found) / len(found) == CASE["dynamic"]["mean_wait_ms"]


def test_continuous_batching_waits_for_a_slot_only():
    steps = CASE["continuous"]["service_ms"] // 100
    engine = Engine(Limits(max_sequences=CASE["continuous"]["slots"]), ServedIn(100))
    assert waits(engine, steps) == CASE["continuous"]["waits_ms"]


def test_a_static_group_that_never_fills_never_starts():
    engine = Engine(Limits(), ServedIn(100), Grouping(4))
    engine.add(Sequence("alone", 1, 1), 0.0)

    assert engine.wake_s is None
    assert not engine.advance(1e6).ended
    assert engine.waiting == 1


def test_a_dynamic_group_says_when_it_will_start():
    engine = Engine(Limits(), ServedIn(100), Grouping(4, timeout_s=150))
    engine.add(Sequence("alone", 1, 1), 20.0)
    assert engine.wake_s == 170.0


def test_a_group_of_none_is_refused():
    with pytest.raises(ValueError, match="a group of 0; it must be at least 1"):
        Grouping(0)
