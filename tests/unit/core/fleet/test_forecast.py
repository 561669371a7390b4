"""A floor from the days before: believed when it has proven itself, demoted when it has not, and never wild."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.fleet.scaling.forecast import BAND, DAY_S, Forecast

LEAD_S = 900.0
STEP_S = 60.0


def fed(rate, days, forecast=None, since_days=0.0):
    forecast = forecast or Forecast(0.05)
    for step in range(int(since_days * DAY_S / STEP_S), int((since_days + days) * DAY_S / STEP_S)):
        forecast.add(rate(step * STEP_S), LEAD_S, step * STEP_S)
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
    assert forecast.floor(LEAD_S, now_s) == pytest.approx(tide(now_s + LEAD_S), rel=0.1)
    assert tide(now_s) < 0.7 * tide(now_s + LEAD_S)


def test_where_days_have_nothing_in_common_it_is_demoted():
    """Two days of the tide make it believed; then the tide goes the other way round."""
    forecast = fed(tide, 2)
    assert forecast.is_believed
    fed(lambda at_s: 12.0 - tide(at_s + DAY_S / 2) / 2 if int(at_s // 3600) % 2 else 1.0, 1, forecast, 2)

    assert not forecast.is_believed


def test_twice_the_traffic_of_yesterday_is_expected_to_stay_that():
    forecast = fed(tide, 2)
    fed(lambda at_s: 1.5 * tide(at_s), 0.3, forecast, 2)
    now_s = 2.3 * DAY_S

    assert forecast.floor(LEAD_S, now_s) == pytest.approx(1.5 * tide(now_s + LEAD_S), rel=0.15)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(0.0, 1e6), min_size=300, max_size=400))
def test_it_stays_within_the_band_of_the_last_hour(rates):
    forecast = Forecast(0.05)
    for number, rate in enumerate(rates * 3):
        forecast.add(rate, LEAD_S, number * 300.0)
    forecast.is_believed = True
    floor = forecast.floor(LEAD_S, len(rates) * 3 * 300.0)

    assert floor is None or 0.0 <= floor <= BAND * max(rates) + 1e-9
