"""A floor from the days before: believed when it has proven itself, demoted when it has not, and never wild."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.fleet.scaling.days import DAY_S, PLACE_S, Before
from tidegate.core.fleet.scaling.forecast import EVERY_S, Aside, Forecast
from tidegate.core.fleet.scaling.worth import worth

LEAD_S = 900.0


def fed(rate, days, forecast=None, since_days=0.0):
    """``rate`` as the mean of each five minutes, and a question after each, as the law asks."""
    forecast = forecast or Forecast(0.05)
    for step in range(int(since_days * DAY_S / EVERY_S), int((since_days + days) * DAY_S / EVERY_S)):
        now_s = (step + 1) * EVERY_S
        forecast.add(sum(rate(now_s - EVERY_S + 60 * minute) for minute in range(5)) / 5, now_s)
        forecast.floor(LEAD_S, now_s)
    return forecast


def tide(at_s):
    """Ten a second at noon, one at midnight, and a step at nine."""
    hour = at_s % DAY_S / 3600
    return 5.5 - 4.5 * math.cos(2 * math.pi * hour / 24) + (6.0 if 9 <= hour < 17 else 0.0)


def test_nothing_is_said_on_the_first_day():
    assert not fed(tide, 0.9).is_believed
    assert fed(tide, 0.9).floor(LEAD_S, 0.9 * DAY_S) is None


def test_a_step_that_comes_each_morning_is_expected_on_the_third():
    forecast = fed(tide, 2 + 8.9 / 24)
    now_s = (2 + 8.9 / 24) * DAY_S

    assert forecast.is_believed
    assert forecast.floor(LEAD_S, now_s).requests_per_s == pytest.approx(tide(now_s + LEAD_S), rel=0.1)
    assert tide(now_s) < 0.7 * tide(now_s + LEAD_S)


def test_where_the_tide_no_longer_comes_it_is_demoted():
    """Two days of the tide make it believed; then a holiday begins, on which all is level."""
    forecast = fed(tide, 2)
    assert forecast.is_believed
    fed(lambda at_s: 4.0, 1.5, forecast, 2)

    assert not forecast.is_believed


# ---- how long requests are ----


def essays(at_s):
    """Prompts of 500 tokens, and from nine to noon of 8,000; the answers are 200 long at all hours."""
    return (8_000.0 if 9 <= at_s % DAY_S / 3600 < 12 else 500.0), 200.0


def told_of(lengths, days, forecast=None, since_days=0.0):
    """Two requests a second at all hours, with these lengths."""
    forecast = forecast or Forecast(0.05)
    for step in range(int(since_days * DAY_S / EVERY_S), int((since_days + days) * DAY_S / EVERY_S)):
        now_s = (step + 1) * EVERY_S
        forecast.add(2.0, now_s, lengths(now_s - EVERY_S))
        forecast.floor(LEAD_S, now_s)
    return forecast


def test_long_prompts_at_nine_are_expected_though_no_more_requests_come():
    morning = 2 + 8.8 / 24
    forecast = told_of(essays, morning)
    at_nine = forecast.floor(LEAD_S, morning * DAY_S)

    assert forecast.is_believed
    assert at_nine.requests_per_s == pytest.approx(2.0)
    # They were 8,000 long. Three times what the last hour has asked for is the most that is said.
    assert worth(at_nine.lengths) == pytest.approx(3.0 * worth((500.0, 200.0)), rel=0.001)
    assert at_nine.lengths == (pytest.approx(3_300.0), pytest.approx(200.0))
    assert told_of(lambda _: None, morning).is_believed is False, "a count of requests knows nothing of it"


def test_where_prompts_are_long_no_more_it_is_demoted():
    forecast = told_of(essays, 2.0)
    assert forecast.is_believed
    told_of(lambda _: (500.0, 200.0), 1.5, forecast, 2.0)

    assert not forecast.is_believed


def test_days_of_which_only_requests_are_known_count_as_long_as_those_of_now():
    """A file of a former version has no lengths. The step at nine stays, whatever a request is worth."""
    now_s = (2 + 8.9 / 24) * DAY_S
    former = replace(fed(tide, 2 + 8.9 / 24).remember(now_s), lengths=None)
    forecast = Forecast(0.05)
    forecast.restore(former, now_s)
    for step in range(1, 4):
        forecast.add(tide(now_s), now_s + step * EVERY_S, (16_000.0, 900.0))

    assert forecast.is_believed
    expected = forecast.floor(LEAD_S, now_s + 3 * EVERY_S)
    assert expected.requests_per_s == pytest.approx(tide(now_s + LEAD_S), rel=0.1)
    assert expected.lengths == (16_000.0, 900.0)


# ---- what it adds ----


def test_what_is_held_anyway_is_no_merit_of_the_forecast():
    """The same tide under a law that holds as much again as comes: the step at nine finds room without any forecast."""
    forecast = Forecast(0.05)
    for step in range(int(2 * DAY_S / EVERY_S)):
        now_s = (step + 1) * EVERY_S
        forecast.add(tide(now_s), now_s)
        forecast.floor(LEAD_S, now_s, held=2.0 * tide(now_s))

    assert fed(tide, 2).is_believed
    assert not forecast.is_believed


def two_days(*, acts, looks_on):
    """A law that looks on asks first each time, and holds twice what comes; one that acts asks after it."""
    forecast = Forecast(0.05)
    for step in range(int(2 * DAY_S / EVERY_S)):
        now_s = (step + 1) * EVERY_S
        forecast.add(tide(now_s), now_s)
        if looks_on:
            Aside(forecast).floor(4 * LEAD_S, now_s, 2.0 * tide(now_s) if acts else 0.0)
        if acts:
            forecast.floor(LEAD_S, now_s + 1)
    return forecast


def test_who_looks_on_changes_nothing_of_what_is_proven_and_told():
    beside, alone = two_days(acts=True, looks_on=True), two_days(acts=True, looks_on=False)
    now_s = 2 * DAY_S

    assert alone.is_believed
    assert beside.remember(now_s) == alone.remember(now_s)
    assert (beside.told, beside.told.ahead_s) == (alone.told, LEAD_S)
    assert Aside(beside).floor(LEAD_S, now_s) == beside.floor(LEAD_S, now_s)


def test_where_no_law_that_acts_asks_who_looks_on_has_its_forecast_proven_and_nothing_is_told():
    forecast = two_days(acts=False, looks_on=True)

    assert forecast.is_believed
    assert forecast.told is None


def test_twice_the_traffic_of_yesterday_is_expected_to_stay_that():
    forecast = fed(tide, 2)
    fed(lambda at_s: 1.5 * tide(at_s), 0.3, forecast, 2)
    now_s = 2.3 * DAY_S

    assert forecast.floor(LEAD_S, now_s).requests_per_s == pytest.approx(1.5 * tide(now_s + LEAD_S), rel=0.15)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.floats(0.0, 1e6), min_size=300, max_size=400),
    st.lists(st.floats(0.0, 10.0), min_size=12, max_size=12),
)
def test_it_says_at_most_three_times_the_highest_of_the_last_hour(rates, last_hour):
    """Whatever came on the days before; twelve rates are an hour."""
    forecast = Forecast(0.05)
    days = [*rates, *rates, *rates, *last_hour]
    for number, rate in enumerate(days):
        forecast.add(rate, number * 300.0)
    now_s = len(days) * 300.0
    believed = Forecast(0.05)
    believed.restore(replace(forecast.remember(now_s), is_believed=True), now_s)
    floor = believed.floor(LEAD_S, now_s)

    assert (
        floor is None or 0.0 <= floor.requests_per_s <= 3.0 * max(last_hour) * 1.001
    )  # rates are kept with four digits


def test_on_a_holiday_it_says_at_most_three_times_what_the_last_hour_has_seen():
    """One in five seconds since midnight, where at nine came thirteen a second on the days before: half of that, the least
    that a trend makes of it, would be six."""
    forecast = fed(tide, 2)
    fed(lambda at_s: 0.2, 8.9 / 24, forecast, 2)
    now_s = (2 + 8.9 / 24) * DAY_S

    assert forecast.is_believed
    assert tide(now_s + LEAD_S) > 12.0
    assert forecast.floor(LEAD_S, now_s).requests_per_s == pytest.approx(0.6)


# ---- what came before ----


def test_what_came_yesterday_at_this_hour_is_known_before_it_is_believed():
    forecast = fed(lambda at_s: 2.0 if 9 <= at_s % DAY_S / 3600 < 10 else 0.0, 1.3)
    eight = DAY_S + 8 * 3600.0

    assert not forecast.is_believed
    assert forecast.before(1_800.0, eight) is None
    assert forecast.before(3_600.0, eight) == Before(2.0, 1)


def test_a_quiet_day_between_leaves_what_came_a_week_ago():
    forecast = fed(lambda at_s: 3.0 if at_s < 3_600 else 0.0, 6.9)

    assert forecast.before(900.0, 7 * DAY_S) == Before(3.0, 7)


@given(st.lists(st.tuples(st.floats(0, 8 * DAY_S), st.floats(0, 100)), max_size=50), st.floats(0, 9 * DAY_S))
def test_what_is_said_to_have_come_came(noted, now_s):
    forecast = Forecast()
    for at, rate in sorted(noted):
        if at <= now_s:
            forecast.add(rate, at)

    before = forecast.before(PLACE_S, now_s)

    if before is not None:
        assert any(
            before.requests_per_s == pytest.approx(rate, rel=1e-3) for at, rate in noted if at <= now_s
        )
        assert before.days_ago in (1, 7)
