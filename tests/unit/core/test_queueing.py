"""Waiting formulas against what is known exactly."""

from math import exp

import pytest

from tidegate.core.queueing import busy_share, late_share, mean_wait_s, normal_share, wait_quantile_s


def test_one_server_is_the_m_m_1_queue():
    assert busy_share(0.8, 1) == pytest.approx(0.8)
    assert mean_wait_s(0.8, 1, 2.0) == pytest.approx(2.0 / 0.2)
    assert late_share(5.0, 0.8, 1, 2.0) == pytest.approx(0.8 * exp(-0.5))


def test_many_servers_are_somewhat_above_erlangs_formula():
    # Erlang C for 4 servers at 0.8 is 0.5964, for 16 at 0.9 is 0.4476.
    assert busy_share(0.8, 4) == pytest.approx(0.5964, abs=0.05)
    assert busy_share(0.9, 16) == pytest.approx(0.4476, abs=0.17)


def test_a_quantile_is_where_the_late_share_is_the_rest():
    wait_s = wait_quantile_s(0.95, 0.9, 3, 1.5)
    assert late_share(wait_s, 0.9, 3, 1.5) == pytest.approx(0.05)


def test_nothing_is_late_where_nothing_waits_and_all_where_no_time_is_left():
    assert late_share(1.0, 0.0, 2, 1.0) == 0.0
    assert late_share(-0.1, 0.5, 2, 1.0) == 1.0
    assert wait_quantile_s(0.5, 0.2, 4, 1.0) == 0.0


def test_the_normal_share():
    assert normal_share(0.0) == 0.5
    assert normal_share(1.96) == pytest.approx(0.975, abs=1e-3)
