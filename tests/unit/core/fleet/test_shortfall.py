"""The line that there will be when a start that begins now is over. A replica does eight a second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.fleet.coldstart import Readiness
from tidegate.core.fleet.scaling.past import Past, Totals
from tidegate.core.fleet.scaling.policies import Coming, Demand, Situation
from tidegate.core.fleet.scaling.shortfall import growth_per_s, line_then

NOW_S = 1_000.0


def situation(serving, ages_s=(), start_s=120.0):
    """Replicas that serve, and some that were launched so long ago."""
    return Situation(
        demand=Demand(),
        standing=serving + len(ages_s),
        min_replicas=1,
        max_replicas=100,
        live=serving + len(ages_s),
        serving=serving,
        coming=tuple(Coming(NOW_S - age_s, None) for age_s in ages_s),
        readiness=Readiness(start_s, 0.1, 8),
    )


def line(excess, rate, seen, lasted_s=30.0):
    """Where so many come a second, and the line grows accordingly."""
    return line_then(excess, rate - 8.0 * seen.serving, 8.0, lasted_s, seen, NOW_S)


def past(*queued):
    """So many waited at each second."""
    found = Past()
    for second, count in enumerate(queued):
        found.add(float(second), count, 10, Totals())
    return found


def test_a_flood_of_half_a_minute_is_seen_as_long_as_a_start_takes():
    """Four serve and 72 a second come: 40 a second too many, for two minutes, beside 400 who wait."""
    assert line(400, 72, situation(4)) == pytest.approx(400 + 40 * 120)


def test_one_of_five_seconds_is_looked_ahead_for_twenty_and_then_worked_off():
    assert line(400, 72, situation(4), lasted_s=5.0) == pytest.approx(400 + 40 * 20)
    assert line(400, 8, situation(4), lasted_s=5.0) == 0.0


def test_those_that_come_up_take_their_part_from_when_they_serve():
    """Five more that serve in a minute: half of the time is short by 40, and half by nothing."""
    assert line(400, 72, situation(4, [60.0] * 5)) == pytest.approx(400 + 40 * 60, rel=0.1)


def test_enough_on_their_way_leave_nothing_to_be_ordered():
    assert line(400, 72, situation(4, [100.0] * 20)) == 0.0


def test_without_a_line_a_rate_above_what_replicas_do_says_nothing():
    assert line(0, 72, situation(4)) == 0.0


def test_where_nothing_is_known_of_starts_it_is_the_line_of_now():
    assert line(400, 72, situation(4, start_s=None)) == 400


def test_a_line_grows_as_it_did_in_both_of_the_last_five_seconds():
    assert growth_per_s(past(*range(0, 600, 30)), 40.0, 19.0) == pytest.approx(30.0)
    assert growth_per_s(past(*range(0, 600, 30)), 20.0, 19.0) == 20.0  # no more than follows from the rate


def test_a_burst_and_clients_who_wait_for_their_answers_make_a_line_that_does_not_grow():
    for second in range(13, 26):
        assert growth_per_s(past(*[0] * 12, *[200] * 14), 40.0, float(second)) == 0.0


def test_a_line_that_is_worked_off_shrinks_no_faster_than_it_was_seen_to():
    assert growth_per_s(past(*range(600, 0, -30)), -40.0, 19.0) == pytest.approx(-30.0)
    assert growth_per_s(past(*range(600, 0, -30)), -20.0, 19.0) == -20.0


@given(
    excess=st.floats(0, 1e4),
    rate=st.floats(0, 1e3),
    serving=st.integers(0, 20),
    ages_s=st.lists(st.floats(0, 300), max_size=20),
)
def test_one_more_on_its_way_never_makes_the_line_longer(excess, rate, serving, ages_s):
    without = line(excess, rate, situation(serving, ages_s))

    assert 0.0 <= line(excess, rate, situation(serving, [*ages_s, 60.0])) <= without
