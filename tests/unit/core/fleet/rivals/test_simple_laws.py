"""Token demand, queue drain time, promise, several laws at once, and the schedule."""

from dataclasses import replace

import pytest

from tidegate.core.fleet.scaling.forecast import EVERY_S, Forecast
from tidegate.core.fleet.scaling.policies import POLICIES, Demand, Situation, policy_for
from tidegate.core.fleet.scaling.schedule import floor_at, week_s
from tidegate.core.scaling_settings import (
    DAY_S,
    LawSettings,
    Promise,
    Scaling,
    ScalingPolicy,
    Schedule,
    ScheduledFloor,
)
from unit.core.fleet.rivals.told import law, steady

HOUR_S = 3600.0
MONDAY_S = 4 * DAY_S
"""The first Monday of 1970, at midnight."""


def test_long_prompts_ask_for_more_replicas_than_short_ones_at_the_same_rate():
    def asked(prompt):
        traffic = steady(per_s=10.0, in_flight=10, prompt=prompt, output=100)
        return law("tokens", 1).propose(traffic.seen(1), traffic.now_s).asked

    assert asked(512) <= 3
    assert asked(8_192) >= 10


def test_a_hundred_long_answers_need_ten_times_the_decoding_of_a_hundred_short_ones():
    from tidegate.core.fleet.scaling.policies.tokens import busy_s

    seen = steady().seen(1, slots=1)
    decode = [busy_s(seen, 1.0, output) - busy_s(seen, 1.0, 0.0) for output in (100.0, 1_000.0)]

    assert decode[1] / decode[0] == pytest.approx(10.0, rel=0.05)


def test_a_backlog_is_to_be_gone_in_the_drain_time():
    """10 s each at 10 slots and 30 s to drain: 300 waiting need 10 replicas, beside one for what comes."""
    traffic = steady(300, in_flight=10, queued=300, per_s=1.0)

    assert law("queue", 1).propose(traffic.seen(1), traffic.now_s).asked == 11
    assert law("queue", 1, drain_s=60.0).propose(traffic.seen(1), traffic.now_s).asked == 6


def test_a_backlog_of_which_none_has_ended_asks_for_its_slots():
    assert law("queue", 0).propose(steady(5, queued=25).seen(0), 5.0).wanted == 3


def test_the_wait_at_the_head_of_the_queue_counts_before_it_has_ended():
    traffic = steady(in_flight=20, queued=4)
    waited = traffic.seen(2, oldest_wait_s=3.0)

    assert law("slo", 2).propose(traffic.seen(2), 0.0).wanted == 2
    assert law("slo", 2).propose(waited, 0.0).wanted == 4  # 1.5 of the promise, 0.8 of it is wanted


def test_on_the_way_up_it_never_asks_for_fewer_than_there_are():
    traffic = steady(in_flight=20)

    assert law("slo", 6).propose(traffic.seen(3, coming=3, ttft_p90_s=1.7), 0.0).wanted == 6


def test_a_latency_that_nobody_has_measured_shrinks_nothing():
    scaler, traffic = law("slo", 3), steady(in_flight=2, per_s=0.1)
    for at in range(0, 600, 5):
        assert scaler.propose(traffic.seen(3), float(at)).wanted == 3


def test_one_goes_when_the_survivors_have_the_slots():
    scaler, traffic = law("slo", 3), steady(in_flight=4, per_s=0.1)
    answers = [scaler.propose(traffic.seen(3, ttft_p90_s=0.2), float(at)).wanted for at in range(0, 70, 5)]

    assert answers[:12] == [3] * 12
    assert answers[12] == 2


def test_of_several_laws_the_largest_number_counts_with_its_reason():
    scaling = Scaling(
        ScalingPolicy.CONCURRENCY, 0, 100, concurrency_target=10.0, also=(LawSettings(ScalingPolicy.QUEUE),)
    )
    traffic = steady(300, in_flight=10, queued=300, per_s=1.0)
    both = policy_for(scaling, 1, 0.0).propose(traffic.seen(1), traffic.now_s)
    alone = POLICIES[ScalingPolicy.CONCURRENCY](scaling, 1, 0.0).propose(traffic.seen(1), traffic.now_s)

    assert both.wanted == alone.wanted == 31
    assert both.because.startswith("concurrency: ")
    assert both.inputs["queue"] == 11


# ---- the forecast ----


def foreseen(now_s, days=2.5):
    """A forecaster that has seen a rise from 8 to 20 requests a second at each noon, and it is six minutes before one."""
    forecast = Forecast()
    first_s = now_s - days * DAY_S + 360.0
    for step in range(int((days * DAY_S - 360.0) / EVERY_S)):
        at_s = first_s + step * EVERY_S
        forecast.add(20.0 if (at_s - now_s - 360.0) % DAY_S < 6 * HOUR_S else 8.0, at_s)
        forecast.floor(600.0, at_s)
    return forecast


@pytest.mark.parametrize("policy", [ScalingPolicy.CONCURRENCY, ScalingPolicy.QUEUE, ScalingPolicy.KPA])
def test_a_forecast_is_a_floor_beside_any_law(policy):
    """Six minutes before a rise that comes each day, and starts that take some minutes: the law by itself has seen nothing."""
    traffic = steady(300, in_flight=3, per_s=8.0, prompt=1000, output=200)
    traffic_knows = {"forecast": foreseen(traffic.now_s)}
    scaling = Scaling(policy, 1, 50, concurrency_target=10.0)
    expected = LawSettings(ScalingPolicy.FORECAST, (("lead_s", 600.0),))

    def proposed(also):
        law_of_them = policy_for(replace(scaling, also=also), 1, traffic.now_s)
        return law_of_them.propose(traffic.seen(1, **traffic_knows), traffic.now_s)

    alone, both = proposed(()), proposed((expected,))
    assert alone.wanted <= 3
    assert both.wanted == 10
    assert both.because.startswith("forecast: 20.00 requests/s are expected within 600 s, from earlier days")
    assert both.inputs["forecast_sets_floor"] == 1.0
    assert both.inputs[policy.value] == alone.wanted


def test_a_forecast_that_has_not_proven_itself_asks_for_nobody():
    traffic = steady(300, in_flight=1, per_s=1.0, prompt=1000, output=200)
    young = foreseen(traffic.now_s, days=0.9)
    said = law("forecast", 1).propose(traffic.seen(1, forecast=young), traffic.now_s)

    assert said.asked == 0
    assert said.because == "no forecast has proven itself; not below 1 while requests wait or run"


def test_before_a_rise_from_nothing_what_a_request_takes_is_as_it_was():
    """Nobody has asked for half an hour."""
    traffic = steady(300, in_flight=1, per_s=1.0, prompt=1000, output=200)
    floor = law("forecast", 1, lead_s=2_400.0)
    assert floor.propose(traffic.seen(1), traffic.now_s).asked == 0
    traffic.go(1_800)
    knows = foreseen(traffic.now_s)

    assert floor.propose(traffic.seen(0, forecast=knows), traffic.now_s).asked >= 2
    fresh = law("forecast", 0, lead_s=2_400.0).propose(traffic.seen(0, forecast=knows), traffic.now_s)
    assert (fresh.asked, fresh.because) == (0, "how long its requests are is not known")


# ---- the schedule ----


def test_office_hours_begin_as_much_earlier_as_a_start_takes():
    office = Schedule((ScheduledFloor(4, 8 * HOUR_S, 18 * HOUR_S, (0, 1, 2, 3, 4)),))

    def floor(day, hour, lead_s=120.0):
        return floor_at(office, MONDAY_S + day * DAY_S + hour * HOUR_S, lead_s)

    assert floor(0, 7.9) == (0, MONDAY_S + 8 * HOUR_S - 120)
    assert floor(0, 7.97)[0] == 4
    assert floor(4, 17.99) == (4, MONDAY_S + 4 * DAY_S + 18 * HOUR_S)
    assert floor(4, 18.0)[0] == 0
    assert floor(5, 12)[0] == 0
    assert floor(6, 23.999)[0] == 0


def test_a_batch_night_goes_on_past_midnight_and_past_the_end_of_the_week():
    night = Schedule((ScheduledFloor(2, 22 * HOUR_S, 6 * HOUR_S, (6,)),))

    assert [floor_at(night, MONDAY_S + hour * HOUR_S, 0.0)[0] for hour in (-3, -2, 0, 5.9, 6)] == [
        0,
        2,
        2,
        2,
        0,
    ]


def test_the_largest_of_overlapping_floors_holds():
    both = Schedule((ScheduledFloor(1), ScheduledFloor(3, 9 * HOUR_S, 10 * HOUR_S)))

    assert [floor_at(both, MONDAY_S + hour * HOUR_S, 0.0)[0] for hour in (8, 9, 10)] == [1, 3, 1]
    assert floor_at(both, MONDAY_S + 8 * HOUR_S, 0.0)[1] == MONDAY_S + 9 * HOUR_S


def test_local_time_moves_when_summer_time_begins():
    schedule = Schedule((ScheduledFloor(1),), ahead_s=((0.0, HOUR_S), (MONDAY_S, 2 * HOUR_S)))

    assert week_s(schedule, MONDAY_S - 1) == HOUR_S - 1
    assert week_s(schedule, MONDAY_S) == 2 * HOUR_S


def test_no_law_goes_below_its_floor_or_shrinks_on_missing_data():
    for policy in ScalingPolicy:
        scaling = Scaling(policy, 0, 50)
        made = POLICIES[policy](scaling, 5, 0.0)
        for at in range(0, 4_000, 50):
            traffic = Situation(
                Demand(), 5, 0, 50, floor=2, floor_by="in_use", live=5, serving=5, may_shrink=False
            )
            assert made.propose(traffic, float(at)).wanted >= 5, policy
            calm = Situation(Demand(complete_since_s=0.0), 1, 0, 50, floor=1, floor_by="in_use")
            assert policy_for(scaling, 1, float(at)).propose(calm, float(at)).wanted >= 1, policy


# ---- a concurrency target that is left to the law ----


def test_auto_is_the_batch_size_until_a_minute_has_shown_how_full_a_replica_may_be():
    """64 slots, forty requests in each of two replicas, and 11 s an answer of 100 tokens where 10 s are promised."""
    scaling = Scaling(ScalingPolicy.CONCURRENCY, 1, 50, promise=Promise(2.0, 0.1))
    auto = policy_for(scaling, 2, 0.0)
    traffic = steady(10, in_flight=80, per_s=80 / 11, prompt=100, output=100)
    before = auto.propose(traffic.seen(2, slots=64), traffic.now_s)
    for _ in range(60):
        traffic.go(10, in_flight=80, per_s=80 / 11, prompt=100, output=100)
        after = auto.propose(traffic.seen(2, slots=64), traffic.now_s)

    assert auto.reads_engines
    assert before.inputs["concurrency_target"] == 64.0
    assert before.asked == 2
    assert 20.0 <= after.inputs["concurrency_target"] < 40.0
    assert after.asked > 2
    assert f"at {after.inputs['concurrency_target']:g} a replica ask for {after.asked}" in after.because


def test_auto_goes_by_memory_where_that_is_full_first():
    """A page says that thirty requests take three quarters of it: 36 fill nine tenths."""
    auto = policy_for(Scaling(ScalingPolicy.CONCURRENCY, 1, 50), 2, 0.0)
    traffic = steady(10, in_flight=60, per_s=1.0)
    said = auto.propose(traffic.seen(2, slots=64, engines=((30, 0, 0.75), (30, 0, 0.75))), traffic.now_s)

    assert said.inputs["concurrency_target"] == 36.0


def test_a_target_that_is_set_is_obeyed_and_nobody_reads_pages_for_it():
    fixed = policy_for(Scaling(ScalingPolicy.CONCURRENCY, 1, 50, concurrency_target=10.0), 2, 0.0)
    traffic = steady(600, in_flight=80, per_s=80 / 11, prompt=100, output=100)

    assert not fixed.reads_engines
    assert fixed.propose(traffic.seen(2, slots=64), traffic.now_s).asked == 8
