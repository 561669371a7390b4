"""The same seed gives the same run, byte for byte; and what was journalled replays."""

import random

from sim.worlds import run, steady, trace_of, world
from tidegate.runtime.plain_journal import PlainJournal
from tidegate.runtime.replay import journal_files, replay
from tidegate.sim.world import simulate


def burst(seed=3):
    dice = random.Random(seed)
    moments = sorted(dice.uniform(0, 300) for _ in range(900))
    return [(at_s, dice.randrange(10, 3000), dice.randrange(1, 400)) for at_s in moments]


def journal(path, scenario, seed):
    with PlainJournal(path, "test") as kept:
        simulate(trace_of(burst()), scenario, seed, kept)
    return path.read_bytes()


TROUBLED = world(
    min_replicas=0,
    max_replicas=4,
    concurrency_target=8,
    sigma=0.3,
    scale_down_delay_s=20.0,
    faults=("kill:at=120", "slow:at=60,for=60,factor=3", "leave:share=0.1,patience=2"),
)


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    once = journal(tmp_path / "a.jsonl", TROUBLED, 7)
    again = journal(tmp_path / "b.jsonl", TROUBLED, 7)

    assert once == again
    assert once.count(b"\n") > 1_000


def test_another_seed_draws_other_starts(tmp_path):
    assert journal(tmp_path / "a.jsonl", TROUBLED, 7) != journal(tmp_path / "b.jsonl", TROUBLED, 8)


def test_without_a_journal_everything_comes_out_the_same(tmp_path):
    rows = burst()
    with PlainJournal(tmp_path / "j.jsonl", "test") as kept:
        _, journalled = run(rows, TROUBLED, 7, kept)
    _, silent = run(rows, TROUBLED, 7)

    assert journalled == silent


def test_a_journal_of_a_simulation_replays_through_fresh_brains(tmp_path):
    path = tmp_path / "j.jsonl"
    journal(path, TROUBLED, 7)

    found = replay(journal_files(path))

    assert found.is_faithful
    assert {name.split(".")[0] for name in found.by_event} == {"dispatch", "fleet"}


def test_silence_costs_next_to_nothing():
    day_s = 86_400.0
    done, _ = run([*steady(5, 10), (day_s, 100, 10)], world(min_replicas=1))

    assert done.simulated_s > day_s
    assert done.turns < 4 * day_s / 8  # a report of an idle gateway each 8 s, and what follows from it
