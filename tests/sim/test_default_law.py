"""The default law in the small: short windows, starts of a second or two, few requests. The first hour with Tidegate."""

import pytest

from sim.worlds import run, steady, world
from tidegate.core.scaling_settings import Scaling

LAW = Scaling().policy
ONE = (500, 100)
"""Its answer takes about a second."""


def small(**more):
    """As in a trial on one machine: eight slots, up to three replicas, zero when idle."""
    settings = {
        "policy": LAW,
        "concurrency_target": None,
        "slots": 8,
        "cold_s": 2.0,
        "max_replicas": 3,
        "window_s": 1.0,
        "scale_down_delay_s": 2.0,
        "settle_s": 300.0,
    }
    return world(**(settings | more))


def steps(rows, **more):
    """Each number that was decided on, with its moment; nobody is lost on the way."""
    done, figures = run(rows, small(**more))
    assert figures.completed == figures.requests == len(rows)
    return [(at_s, said.desired) for at_s, said in done.decisions if said.desired != said.before]


def numbers(found):
    return [number for _, number in found]


def test_the_first_request_starts_one_replica_at_once_and_after_the_last_answer_there_is_none():
    found = steps([(10.0, *ONE)])

    assert numbers(found) == [1, 0]
    assert found[0][0] == pytest.approx(10.0, abs=1.0)
    # 2 s to start, 1 s to answer, 1 s of window, 2 s of delay; and a report and a tick.
    assert found[1][0] == pytest.approx(16.0, abs=3.0)


def test_a_first_start_that_takes_longer_than_somebody_thought_is_not_doubled():
    """One second was expected of it and it takes forty: another would not be there sooner."""
    assert numbers(steps([(10.0, *ONE)], cold_s=40.0, expected_s=1.0)) == [1, 0]


def test_twenty_four_at_once_are_three_replicas_and_then_none():
    rows = [(10.0, *ONE)] + [(20.0, 500, 1500)] * 24
    found = steps(rows, scale_down_delay_s=30.0)

    assert numbers(found)[:2] == [1, 3]
    assert found[1][0] == pytest.approx(20.0, abs=1.0)
    assert numbers(found)[-1] == 0


def test_an_idle_fleet_goes_at_once_and_not_one_by_one():
    """It has been asked for nothing for the whole delay, so there is nothing that half of it could be needed for."""
    rows = [(10.0, 500, 1500)] * 24
    found = steps(rows)

    assert numbers(found) == [1, 3, 0]


def test_few_requests_keep_one_replica_and_no_more():
    """One in ten seconds for ten minutes, a second each, and a delay of half a minute."""
    found = steps(steady(0.1, 600, *ONE), scale_down_delay_s=30.0)

    assert numbers(found) == [1, 0]
    assert found[1][0] == pytest.approx(590 + 1 + 1 + 30, abs=3.0)


def test_long_answers_alone_do_not_hold_a_fleet_that_has_room():
    """Two answers of five minutes are left of a crowd. Nothing has ended for minutes, so nobody speaks of latencies."""
    rows = [(0.0, 500, 1500)] * 16 + [(30.0, 500, 40_000)] * 2
    found = steps(rows, min_replicas=1, slots=8, scale_down_delay_s=10.0, max_replicas=2)

    assert numbers(found) == [1, 2, 1]
    assert found[2][0] < 200.0
