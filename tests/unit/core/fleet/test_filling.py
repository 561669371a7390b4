"""How many wait or run, against what is known exactly."""

from math import exp, factorial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.fleet.answering import Answers, Point
from tidegate.core.fleet.filling import Filled, fill

SEATS = 20
SERVERS = Answers((Point(0.0, 0.0, 1.0), Point(SEATS, SEATS / 2.0, 1.0)), slack_s=1.0)
"""Twenty that each take two seconds on average."""


def late_by_erlang(comes_per_s, slack_s):
    """Of M/M/20, the share that waits longer."""
    load = 2.0 * comes_per_s
    last = load**SEATS / factorial(SEATS) * SEATS / (SEATS - load)
    busy = last / (sum(load**n / factorial(n) for n in range(SEATS)) + last)
    return busy * exp(-(SEATS / 2.0 - comes_per_s) * slack_s)


def test_empty_replicas_fill_as_a_capacitor_does():
    """Two seconds are the time constant: after those the share 1 - 1/e of the ten that will be there."""
    filled = Filled(0.0)
    for after_s in (2.0, 4.0, 20.0):
        filled, _ = fill(Filled(0.0), SERVERS, 5.0, after_s, came=False)
        assert filled.mean == pytest.approx(10.0 * (1.0 - exp(-after_s / 2.0)), abs=0.01)
    assert filled.variance == pytest.approx(10.0, rel=0.01), "a Poisson number"


def test_what_arrivals_are_known_leaves_half_of_the_chance():
    filled, _ = fill(Filled(0.0), SERVERS, 5.0, 60.0, came=True)
    assert filled.variance == pytest.approx(5.0, rel=0.01)


@pytest.mark.parametrize("load, within", [(0.6, 0.01), (0.8, 0.04), (0.9, 0.12)])
def test_for_hours_somewhat_fewer_are_late_than_erlang_says(load, within):
    """A normal number has no long tail. Of 20 servers at 0.9, 20 % would wait longer than a second; here it is 9 %."""
    filled, _ = fill(Filled(load * SEATS), SERVERS, load * SEATS / 2.0, 3_600.0, came=False)
    _, share = fill(filled, SERVERS, load * SEATS / 2.0, 60.0, came=False)

    in_time = 1.0 - late_by_erlang(load * SEATS / 2.0, 1.0)
    assert in_time - 0.001 <= share <= in_time + within


def test_a_line_grows_by_what_does_not_fit_and_is_worked_off_by_what_is_free():
    line, share = fill(Filled(SEATS), SERVERS, 15.0, 60.0, came=True)
    assert line.mean == pytest.approx(SEATS + 60 * 5.0, rel=0.02)
    assert share < 0.1, "ten in line are a second, which is reached after two"

    gone, _ = fill(line, SERVERS, 5.0, 30.0, came=True)
    assert gone.mean == pytest.approx(line.mean - 30 * 5.0, rel=0.05)


def test_who_runs_at_replicas_that_leave_is_no_load_of_the_others():
    assert Filled(30.0, 9.0).without(0.5, SEATS).mean == pytest.approx(20.0), (
        "half of those that run; ten waited"
    )
    assert Filled(0.0).without(1.0, SEATS).mean == 0.0


@given(
    there=st.floats(0, 1_000),
    variance=st.floats(0, 1_000),
    comes=st.floats(0, 100),
    span_s=st.floats(0.01, 100),
    came=st.booleans(),
)
def test_whatever_comes_the_share_is_one_and_more_there_is_never_better(there, variance, comes, span_s, came):
    after, share = fill(Filled(there, variance), SERVERS, comes, span_s, came=came)
    fuller, less = fill(Filled(there + 5.0, variance), SERVERS, comes, span_s, came=came)

    assert 0.0 <= share <= 1.0
    assert after.mean >= 0.0 <= after.variance
    assert less <= share + 1e-3
    assert fuller.mean >= after.mean - 0.1, "to within what counts as still"
