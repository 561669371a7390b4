"""What one replica alone has, in seconds of work that others would do again if it went."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.dispatch.routing.spared import HALF_S, Spared
from unit.core.dispatch.routing_world import chain, seconds_world

HOT = chain(*range(40))
"""4,000 tokens."""


def asked(own):
    return {"tokens": 4_100, "chain": HOT + chain(5_000 + own)}


def alone_s(world, name):
    return world.picker.insight.alone_s(name, world.now_s)


def test_what_nobody_has_asked_for_again_is_no_loss():
    world = seconds_world("a", "b")
    world.serve("a", **asked(1))

    assert alone_s(world, "a") == alone_s(world, "b") == 0.0


def test_a_beginning_that_is_found_here_and_nowhere_else_counts_with_its_prefill():
    world = seconds_world("a", "b")
    world.serve("a", **asked(1))
    prefill_s = world.picker.insight.loads["a"].capacity.prefill_s(4_000, 0.0)
    world.serve("a", **asked(2))

    assert alone_s(world, "a") == pytest.approx(prefill_s, rel=0.02)
    assert alone_s(world, "b") == 0.0


def test_once_another_has_it_no_more_is_added_and_the_rest_fades_by_halves():
    world = seconds_world("a", "b")
    for own in (1, 2):
        world.serve("a", **asked(own))
    world.serve("b", **asked(3))
    before_s = alone_s(world, "a")
    world.serve("a", **asked(4))

    assert alone_s(world, "a") <= before_s
    world.now_s += HALF_S
    assert alone_s(world, "a") == pytest.approx(before_s / 2, rel=0.02)
    world.now_s += 20 * HALF_S
    assert alone_s(world, "a") == 0.0


def test_a_copy_on_a_replica_that_leaves_is_no_copy():
    world = seconds_world("a", "b")
    world.serve("a", **asked(1))
    world.serve("b", **asked(2))
    for seat in world.seats:
        seat.route = replace(seat.route, leaves_at_s=60.0 if seat.replica_id == "b" else None)
    world.tell("seats_are", world.seats, world.now_s)
    world.serve("a", **asked(3))

    assert alone_s(world, "a") > 0.0


def test_an_adapter_counts_where_it_is_on_no_other_gpu():
    world = seconds_world("a", "b")
    for name, adapter in (("a", "red"), ("a", "blue"), ("b", "blue")):
        world.serve(name, adapter=adapter)

    assert alone_s(world, "a") == pytest.approx(world.picker.insight.adapters.disk_s)
    assert alone_s(world, "b") == 0.0


@given(st.lists(st.tuples(st.floats(0.0, 10.0), st.floats(0.0, 600.0)), max_size=20))
def test_never_more_than_all_that_was_spared_and_never_less_than_nothing(spared):
    book, now_s, total_s = Spared(0.0), 0.0, 0.0
    for prefill_s, later_s in spared:
        now_s += later_s
        total_s += prefill_s
        book.add(prefill_s, now_s)

        assert 0.0 <= book.seconds(now_s) <= total_s + 1e-9
        assert book.seconds(now_s + 1.0) <= book.seconds(now_s)
