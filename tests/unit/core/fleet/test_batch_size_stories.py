"""An engine that was started with a smaller batch than is counted on, over time: its own pages show it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.events import EngineReported
from tidegate.core.fleet.batchsize import PAGES, BatchSize
from tidegate.core.scaling_settings import ScalingPolicy
from tidegate.core.settings import Variant
from tidegate.core.types import ModelId, ReplicaId

M = ModelId("m")
SAID = "an engine runs 16 requests at once while others wait in it, but its slots are 64; make them equal"


def page(world, at, running, waiting, kv=0.3, name="m-1"):
    world.on(EngineReported(ReplicaId(name), running, waiting, kv), at)


@pytest.fixture
def one(world, settings):
    """m-1 serves; it was given 64 slots, and its engine was started by somebody else with a batch of 16."""
    spec = settings(slots=64, min_replicas=1, window_s=1)
    world.configure(0, {M: replace(spec, command_hash="by somebody else")})
    world.report(0)
    world.ready(1, "m-1")
    return world


def crowded(world, since, count=PAGES, running=16, waiting=40, there=56, kv=0.3):
    """The gateway has so many at m-1, and the engine's page says that of them."""
    for at in range(since, since + count):
        world.report(at, in_flight=there, loads={"m-1": there})
        page(world, at, running, waiting, kv)
    world.report(since + count, in_flight=there, loads={"m-1": there})


def test_auto_takes_what_the_engine_runs_at_once_and_it_is_said_once(one):
    crowded(one, 2, PAGES - 1, kv=0.2)
    assert one.desired() == 1  # 56 in flight fit into 64 slots, and into its memory
    crowded(one, 2 + PAGES - 1, 1, kv=0.2)
    assert one.desired() == 4
    told = [each.because for each in one.decisions if SAID in each.because]
    assert len(told) == 1
    crowded(one, 40)
    assert len([each for each in one.decisions if SAID in each.because]) == 1
    view = one.view(60)
    assert (view.replicas[0].batch, view.mismatch) == (16, SAID)


def test_a_target_that_was_set_stands_and_the_warning_names_it(one, settings):
    spec = settings(slots=64, min_replicas=1, window_s=1, concurrency_target=32)
    one.configure(1, {M: replace(spec, command_hash="by somebody else")})
    crowded(one, 2)
    assert one.desired() == 2
    assert "its slots are 64 and its concurrency_target 32; make them equal" in one.view(30).mismatch


@pytest.mark.parametrize(
    "policy, before, after",
    [(ScalingPolicy.QUEUE, 1, 4), (ScalingPolicy.KPA, 2, 5), (ScalingPolicy.TIDAL, 3, 5)],
)
def test_every_law_that_counts_slots_is_told_of_the_smaller_batch(new_world, settings, policy, before, after):
    for waiting, asked in ((0, before), (40, after)):
        world = new_world()
        world.configure(0, {M: settings(slots=64, min_replicas=1, window_s=1, policy=policy)})
        world.report(0)
        world.ready(1, "m-1")
        crowded(world, 2, 60, waiting=waiting)
        assert world.desired() == asked


def test_an_engine_that_fills_its_slots_is_as_it_should_be(one):
    crowded(one, 2, 60, running=64, waiting=1, there=65)
    assert (one.view(62).replicas[0].batch, one.view(62).mismatch) == (64, "")


def test_who_waits_for_memory_says_nothing_of_the_batch(one):
    one.report(2, in_flight=56, loads={"m-1": 56})
    for at in range(2, 60):
        page(one, at, 20, 30, kv=0.97)
    assert one.view(60).mismatch == ""


def test_requests_that_only_the_page_knows_do_not_wait(one):
    """Some engines count as waiting what has long been answered: five run, and five are there."""
    crowded(one, 2, 60, running=5, waiting=3, there=5)
    assert one.view(62).replicas[0].batch is None


def test_numbers_that_change_from_page_to_page_say_nothing():
    batch = BatchSize()
    for at in range(200):
        batch.note(EngineReported(ReplicaId("m-1"), 10 + at % 7, 2, None), 30)
    assert batch.size is None


def test_a_larger_batch_than_was_thought_ends_the_warning(one):
    crowded(one, 2)
    assert one.view(30).mismatch == SAID
    page(one, 31, 48, 0)
    assert one.view(31).mismatch == ""
    assert one.view(31).replicas[0].batch is None


def test_another_price_leaves_an_engine_what_it_is(one, settings):
    spec = replace(settings(slots=64, min_replicas=1, window_s=1), command_hash="by somebody else")
    small = Variant("small", slots=16, price_per_h=1.0)
    one.configure(1, {M: replace(spec, price_per_h=4.0, variants=(small,))})
    crowded(one, 2)
    assert one.view(30).mismatch == f"default: {SAID}"
    one.configure(40, {M: replace(spec, price_per_h=4.0, variants=(replace(small, price_per_h=2.0),))})
    assert one.view(40).mismatch == f"default: {SAID}"
    one.configure(50, {M: spec})
    assert one.view(50).mismatch == SAID


def test_another_command_is_another_engine_whose_batch_is_not_known(one, settings):
    crowded(one, 2)
    spec = settings(slots=64, min_replicas=1, window_s=1)
    one.configure(40, {M: replace(spec, command_hash="another")})
    assert one.view(40).mismatch == ""


pages = st.tuples(
    st.sampled_from([None, 0, 8, 16, 64]), st.sampled_from([None, 0, 4]), st.sampled_from([None, 0.2, 0.95])
)


@given(st.lists(pages, max_size=100))
def test_a_size_is_never_below_what_has_been_seen_to_run(seen):
    batch, most = BatchSize(), 0
    for running, waiting, kv in seen:
        before = batch.size
        assert batch.note(EngineReported(ReplicaId("m-1"), running, waiting, kv), 40) == (
            batch.size != before
        )
        most = max(most, running or 0)
        assert batch.size in (None, most)
