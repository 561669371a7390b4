"""llm-d's latency law, as published: the worked cases of its own guide, and the layers around the formula."""

import pytest

from tidegate.core.fleet.scaling.policies import POLICIES, Demand, Situation
from tidegate.core.scaling_settings import Scaling, ScalingPolicy, SloKeda


def law(standing=6, **changes):
    settings = {"smoothing_s": 1.0, "up_window_s": 0.0, "down_window_s": 0.0, **changes}
    scaling = Scaling(ScalingPolicy.SLO_KEDA, 1, 100, slo_keda=SloKeda(**settings))
    return POLICIES[ScalingPolicy.SLO_KEDA](scaling, standing, 0.0)


def seen(live, serving=None, ttft=None, tpot=None, *, standing=None, least=1, most=100, may_shrink=True):
    return Situation(
        demand=Demand(concurrency=1.0, complete_since_s=0.0, ttft_p90_s=ttft, tpot_p90_s=tpot),
        standing=live if standing is None else standing,
        min_replicas=least,
        max_replicas=most,
        floor=1,
        floor_by="in_use",
        live=live,
        serving=live if serving is None else serving,
        may_shrink=may_shrink,
    )


UNBOUNDED = {"up_share": 100.0, "down_pods": 100, "clamp_ratio": 100.0}


@pytest.mark.parametrize(
    "live, serving, saturation, asked",
    [
        (6, 6, 1.2, 14),  # 6 + ceil(6 * (1.2 / 0.55 - 1))
        (6, 3, 1.2, 7),  # half of them come up: credited
        (6, 3, 0.70, 4),  # above the threshold, and yet fewer: the published law has no floor there
        (6, 6, 0.50, 6),  # within the band
        (8, 8, 0.30, 6),  # 8 - floor(8 * (1 - 0.30 / 0.40))
        (8, 4, 0.30, 6),  # no credit on the way down
    ],
)
def test_the_formula(live, serving, saturation, asked):
    found = law(live, **UNBOUNDED).propose(seen(live, serving, ttft=3.0 * saturation), 0.0)

    assert found.asked == asked


def test_guarded_it_never_asks_for_fewer_on_the_way_up():
    found = law(6, is_guarded=True, **UNBOUNDED).propose(seen(6, 3, ttft=2.1), 0.0)

    assert found.asked == 6


def test_the_worse_of_the_two_promises_counts():
    assert "saturation 0.50" in law().propose(seen(6, ttft=0.3, tpot=0.05), 0.0).because
    assert "saturation 0.90" in law().propose(seen(6, ttft=2.7, tpot=0.05), 0.0).because


def test_one_wild_sample_counts_for_twice_the_promise_at_most():
    assert "saturation 2.00" in law().propose(seen(6, ttft=270.0), 0.0).because


def test_the_signal_is_a_mean_over_45_seconds():
    scaler = law(smoothing_s=45.0)
    scaler.propose(seen(6, ttft=0.3), 0.0)
    scaler.propose(seen(6, ttft=0.3), 15.0)

    assert "saturation 0.40" in scaler.propose(seen(6, ttft=3.0), 30.0).because
    assert "saturation 1.00" in scaler.propose(seen(6, ttft=3.0), 75.0).because


def test_between_two_evaluations_nothing_changes():
    scaler = law()

    assert scaler.propose(seen(6, ttft=1.5), 0.0).wanted == 6
    assert scaler.propose(seen(6, ttft=30.0), 14.0).wanted == 6
    assert scaler.propose(seen(6, ttft=30.0), 15.0).wanted > 6


def test_nothing_known_counts_as_idle_unless_it_is_guarded():
    assert law(8, **UNBOUNDED).propose(seen(8), 0.0).asked == 0
    assert law(8, is_guarded=True, **UNBOUNDED).propose(seen(8), 0.0).wanted == 8


def test_up_by_the_larger_of_double_and_four_in_a_minute():
    scaler = law(3)

    assert scaler.propose(seen(3, ttft=30.0), 0.0).wanted == 7
    assert scaler.propose(seen(7, 3, ttft=30.0), 15.0).wanted == 7
    assert scaler.propose(seen(7, 7, ttft=30.0), 60.0).wanted == 14


def test_down_by_one_in_two_minutes():
    scaler = law(8)

    assert scaler.propose(seen(8, ttft=0.1), 0.0).wanted == 7
    assert scaler.propose(seen(7, ttft=0.1), 15.0).wanted == 7
    assert scaler.propose(seen(7, ttft=0.1), 120.0).wanted == 6


def test_up_only_when_30_seconds_agree_and_down_only_when_180_do():
    scaler = law(4, up_window_s=30.0, down_window_s=180.0)
    assert scaler.propose(seen(4, ttft=1.5), 0.0).wanted == 4
    assert scaler.propose(seen(4, ttft=6.0), 15.0).wanted == 4
    assert scaler.propose(seen(4, ttft=6.0), 30.0).wanted == 4
    assert scaler.propose(seen(4, ttft=6.0), 45.0).wanted > 4

    scaler = law(8, up_window_s=30.0, down_window_s=180.0)
    assert scaler.propose(seen(8, ttft=1.5), 0.0).wanted == 8
    assert scaler.propose(seen(8, ttft=0.1), 165.0).wanted == 8
    assert scaler.propose(seen(8, ttft=0.1), 195.0).wanted == 7


def test_a_change_of_a_tenth_is_ignored():
    found = law(21, **UNBOUNDED).propose(seen(21, ttft=1.8), 0.0)

    assert found.asked == 23
    assert found.wanted == 21


def test_what_is_asked_beyond_the_maximum_is_for_the_clamp_to_refuse():
    found = law(6).propose(seen(6, ttft=6.0, most=8), 0.0)

    assert found.wanted == found.asked == 22
    assert found.held_by is None


def test_missing_reports_forbid_shrinking_here_too():
    assert law(8).propose(seen(8, ttft=0.1, may_shrink=False), 0.0).wanted == 8
