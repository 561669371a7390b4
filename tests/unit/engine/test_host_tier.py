"""Blocks that the GPU has no room for live on in host memory. Steps last a second, fetching a block ten."""

from tidegate.engine.batch import Engine
from tidegate.engine.latency import LinearLaw
from tidegate.engine.sequence import Limits, Sequence

EVERY_STEP_1S = LinearLaw(a=1000, b=0, c=0, d=1000, e=0, f=0)


def engine_with(host_blocks):
    limits = Limits(
        max_sequences=4,
        max_step_tokens=100,
        kv_blocks=3,
        block_tokens=4,
        host_blocks=host_blocks,
        host_block_load_s=10.0,
    )
    return Engine(limits, EVERY_STEP_1S)


def run(engine, key, names):
    sequence = Sequence(key, 9, 1, block_hashes=names)
    engine.add(sequence, engine.now_s)
    engine.advance(engine.now_s + 100)
    return sequence


def took_s(sequence):
    return sequence.first_token_s - sequence.queued_s


def test_without_a_host_tier_what_is_evicted_is_lost():
    engine = engine_with(host_blocks=0)
    for names in ((1, 2), (11, 12)):
        run(engine, "filler", names)
    again = run(engine, "again", (1, 2))
    assert (again.cached_tokens, took_s(again)) == (0, 1.0)


def test_what_is_evicted_is_fetched_instead_of_computed():
    engine = engine_with(host_blocks=8)
    for names in ((1, 2), (11, 12)):
        run(engine, "filler", names)
    again = run(engine, "again", (1, 2))
    assert (again.cached_tokens, took_s(again)) == (8, 21.0)
    assert engine.pool.free == engine.pool.total


def test_the_host_keeps_what_was_asked_for_last():
    engine = engine_with(host_blocks=2)
    for names in ((1, 2), (11, 12), (21, 22)):
        run(engine, "filler", names)
    assert engine.pool.host_hits((1, 2)) == 0
    assert engine.pool.host_hits((11, 12)) == 2
