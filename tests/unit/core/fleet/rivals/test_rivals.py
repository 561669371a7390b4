"""Other systems' laws, each with the numbers that its own source works out."""

import pytest

from tidegate.core.fleet.scaling.policies.rivals.behaviour import Behaviour, Rates, external_average
from unit.core.fleet.rivals.told import Traffic, law, steady

# ---- Knative ----


def test_kpa_divides_the_stable_mean_by_seven_tenths_of_the_limit():
    traffic = steady(in_flight=28)

    assert law("kpa", 4).propose(traffic.seen(4), traffic.now_s).wanted == 4
    traffic.go(60, in_flight=29)
    assert law("kpa", 1).propose(traffic.seen(1, standing=1), traffic.now_s).asked == 5


def test_kpa_panics_at_twice_what_is_ready_and_keeps_the_peak_for_a_minute():
    traffic = steady(in_flight=14)
    scaler = law("kpa", 2)
    scaler.propose(traffic.seen(2), traffic.now_s)
    traffic.go(80, in_flight=14)  # its panic from beginning with two is over
    assert scaler.propose(traffic.seen(2), traffic.now_s).wanted == 2

    traffic.go(7, in_flight=14, queued=16)
    asked = scaler.propose(traffic.seen(2), traffic.now_s)
    assert asked.wanted == 5  # 30 / 7 by the panic window; the stable one has 2.2
    assert "panic" in asked.because

    traffic.go(58, in_flight=10)
    assert scaler.propose(traffic.seen(5), traffic.now_s).wanted == 5
    traffic.go(4, in_flight=10)
    assert scaler.propose(traffic.seen(5), traffic.now_s).wanted == 2


def test_kpa_at_most_halves_and_begins_in_panic_when_it_is_restarted():
    traffic = steady(in_flight=7)
    scaler = law("kpa", 8, now_s=traffic.now_s)

    assert scaler.propose(traffic.seen(8), traffic.now_s).wanted == 8
    traffic.go(62, in_flight=7)
    assert scaler.propose(traffic.seen(8), traffic.now_s).wanted == 4


def test_kpa_has_none_after_an_idle_window_and_the_grace_period():
    traffic = steady(60, in_flight=3)
    scaler = law("kpa", 1)
    traffic.go(61)
    assert scaler.propose(traffic.seen(1), traffic.now_s).wanted == 1
    traffic.go(29)
    assert scaler.propose(traffic.seen(1), traffic.now_s).wanted == 1
    traffic.go(2)
    assert scaler.propose(traffic.seen(1), traffic.now_s).wanted == 0


# ---- Kubernetes ----


@pytest.mark.parametrize(
    "serving, coming, load, asked",
    [
        (4, 0, 32, 4),  # 0.8 a slot: on target
        (4, 0, 35, 4),  # within a tenth
        (4, 0, 40, 5),  # 1.25 times
        (4, 0, 16, 2),
        (2, 2, 32, 4),  # twice the target, half of them not ready: they count as 0, which is on target
        (2, 2, 40, 5),
        (2, 2, 24, 4),  # 1.5 times the target turns into fewer than there are: kept
    ],
)
def test_hpa_counts_replicas_that_are_not_ready_as_idle_on_the_way_up(serving, coming, load, asked):
    traffic = steady(in_flight=load)

    assert law("hpa", serving + coming).propose(traffic.seen(serving, coming=coming), 120.0).asked == asked


def test_hpa_at_most_doubles_or_adds_four_in_a_period():
    traffic = steady(in_flight=20, queued=380)

    assert law("hpa", 2).propose(traffic.seen(2), traffic.now_s).wanted == 6
    assert law("hpa", 20).propose(traffic.seen(20), traffic.now_s).wanted == 40


def test_hpa_shrinks_to_the_most_of_five_minutes():
    scaler, traffic = law("hpa", 4), steady(in_flight=32)
    scaler.propose(traffic.seen(4), traffic.now_s)
    traffic.go(290, in_flight=8)
    assert scaler.propose(traffic.seen(4), traffic.now_s).wanted == 4
    traffic.go(15, in_flight=8)
    assert scaler.propose(traffic.seen(4), traffic.now_s).wanted == 1


def test_an_external_average_is_divided_by_its_target_unless_the_present_number_is_near():
    assert external_average(250, 100, 1) == 3
    assert external_average(310, 100, 3) == 3
    assert external_average(340, 100, 3) == 4
    assert external_average(0, 100, 3) == 0


def test_a_behaviour_counts_what_it_has_added_within_the_period():
    behaviour, traffic = Behaviour(Rates(up_pods=4, up_period_s=60.0)), steady()

    assert behaviour.settle(100, traffic.seen(3), 0.0) == 7
    assert behaviour.settle(100, traffic.seen(7), 15.0) == 7
    assert behaviour.settle(100, traffic.seen(7), 60.0) == 14


# ---- KEDA ----


def test_keda_http_takes_the_larger_of_concurrency_and_rate():
    traffic = steady(in_flight=100, queued=150, per_s=12.0)

    assert law("keda-http", 2).propose(traffic.seen(2), traffic.now_s).asked == 3
    assert law("keda-http", 2, rate_target=3.0).propose(traffic.seen(2), traffic.now_s).asked == 4


def test_keda_http_lifts_the_first_one_at_once_and_drops_it_300_s_after_the_last_request():
    traffic = steady(1, queued=1)
    assert law("keda-http", 0).propose(traffic.seen(0), traffic.now_s).wanted == 1

    scaler = law("keda-http", 1)
    traffic.go(290)
    assert scaler.propose(traffic.seen(1), traffic.now_s).wanted == 1
    traffic.go(15)
    assert scaler.propose(traffic.seen(1), traffic.now_s).wanted == 0


def test_token_keda_takes_the_larger_of_prefill_seconds_and_full_caches():
    """40,000 tokens wait: 2.51 s at 15,928 a second, and 1.5 s are tolerated."""
    traffic = steady(queued=8, per_s=2.0, prompt=5_000)
    full = [(10, 0, 0.9)] * 2

    prefill = law("token-keda", 1).propose(traffic.seen(1, engines=full[:1]), traffic.now_s)
    decode = law("token-keda", 2).propose(steady(in_flight=20).seen(2, engines=full), 120.0)

    assert prefill.asked == 2
    assert decode.asked == 3  # 1.8 / 0.8


def test_token_keda_adds_one_in_three_minutes_and_removes_one_in_five():
    scaler, traffic = law("token-keda", 1), steady(queued=80, per_s=2.0, prompt=5_000)
    assert scaler.propose(traffic.seen(1), 120.0).wanted == 2
    traffic.go(170, queued=80, per_s=2.0, prompt=5_000)
    assert scaler.propose(traffic.seen(2), 290.0).wanted == 2
    traffic.go(15, queued=80, per_s=2.0, prompt=5_000)
    assert scaler.propose(traffic.seen(2), 305.0).wanted == 3

    traffic = steady(in_flight=1)
    assert scaler.propose(traffic.seen(3, engines=[(1, 0, 0.1)]), 320.0).wanted == 3
    assert scaler.propose(traffic.seen(3, engines=[(1, 0, 0.1)]), 620.0).wanted == 2
    assert scaler.propose(traffic.seen(2, engines=[(1, 0, 0.1)]), 635.0).wanted == 2


# ---- AIBrix ----


@pytest.mark.parametrize(
    "live, serving, usage, asked",
    [
        (6, 6, 0.90, 11),  # the average is multiplied by the count
        (4, 4, 0.54, 4),  # within a tenth
        (2, 2, 1.00, 4),
        (2, 2, 1.50, 4),  # at most doubled
        (4, 2, 1.00, 4),  # half come up and count as idle: on target
        (8, 8, 0.05, 4),  # at most halved
        (4, 4, 0.20, 2),
    ],
)
def test_aibrix_goes_by_the_mean_cache(live, serving, usage, asked):
    seen = steady().seen(serving, coming=live - serving, engines=[(1, 0, usage)] * serving)

    assert law("aibrix-apa", live).propose(seen, 0.0).asked == asked


def test_aibrix_shrinks_to_the_most_of_five_minutes():
    scaler, traffic = law("aibrix-apa", 4), steady()
    for at in range(0, 800, 10):
        usage = 0.5 if at < 100 else 0.1
        wanted = scaler.propose(traffic.seen(4, engines=[(1, 0, usage)] * 4), float(at)).wanted
        if wanted < 4:
            break

    assert wanted == 3
    assert 400 <= at <= 520  # 180 s until the mean is below, 300 s of delay after it


# ---- Ray ----


def test_ray_divides_by_two_and_acts_after_30_seconds_of_agreement():
    scaler, traffic = law("ray", 2), steady(in_flight=4, queued=7)
    assert scaler.propose(traffic.seen(2), 120.0).asked == 6
    for at in range(121, 150):
        assert scaler.propose(traffic.seen(2), float(at)).wanted == 2
    assert scaler.propose(traffic.seen(2), 150.0).wanted == 6


def test_ray_begins_its_delay_anew_after_one_contrary_tick():
    scaler, high, low = law("ray", 2), steady(in_flight=20), steady(in_flight=4)
    scaler.propose(high.seen(2), 0.0)
    scaler.propose(low.seen(2), 20.0)
    scaler.propose(high.seen(2), 21.0)

    assert scaler.propose(high.seen(2), 50.0).wanted == 2
    assert scaler.propose(high.seen(2), 51.0).wanted == 10


def test_ray_never_goes_to_zero_from_more_than_one():
    scaler, traffic = law("ray", 3), steady()
    scaler.propose(traffic.seen(3), 0.0)

    assert scaler.propose(traffic.seen(3), 600.0).wanted == 1
    scaler.propose(traffic.seen(1), 601.0)
    assert scaler.propose(traffic.seen(1), 1_201.0).wanted == 0


# ---- SkyServe ----


def test_sky_waits_for_300_seconds_of_periods_in_a_row():
    scaler, traffic = law("sky", 1), steady(per_s=9.0, in_flight=9)
    assert law("sky", 0).propose(traffic.seen(0), traffic.now_s).wanted == 4
    answers = {}
    for _ in range(68):
        answers[traffic.now_s] = scaler.propose(traffic.seen(1), traffic.now_s).wanted
        traffic.go(5, per_s=9.0, in_flight=9)

    assert next(at for at, wanted in answers.items() if wanted == 4) == 400  # the fifteenth period


def test_sky_divides_the_first_minute_by_a_minute():
    traffic = Traffic().go(7, per_s=10.0, queued=5)

    assert law("sky", 0).propose(traffic.seen(0), traffic.now_s).asked == 1


# ---- WVA ----


@pytest.mark.parametrize(
    "pages, wanted",
    [
        ([(1, 0, 0.75)] * 2, 3),  # 0.05 of the cache to spare
        ([(1, 3, 0.30)] * 2, 3),  # 2 of the queue to spare
        ([(1, 9, 0.90)] * 2, 3),  # nobody is left who is not saturated
        ([(1, 0, 0.60)] * 2, 2),  # one fewer would have 1.2
        ([(1, 0, 0.30)] * 2, 1),
        ([(1, 0, 0.30)], 1),  # the last one is not asked
        ([(1, 40, 0.9), (1, 60, 0.9), (1, 0, 0.1)], 3),  # one that is not saturated is not two
    ],
)
def test_wva1_adds_and_removes_one_by_spare(pages, wanted):
    n = len(pages)

    assert law("wva1", n).propose(steady(in_flight=1).seen(n, engines=pages), 0.0).wanted == wanted


def test_wva1_keeps_its_wish_until_it_has_come_true():
    scaler, traffic = law("wva1", 2), steady(in_flight=1)
    assert scaler.propose(traffic.seen(2, engines=[(1, 9, 0.9)] * 2), 0.0).wanted == 3

    waiting = traffic.seen(2, coming=1, engines=[(1, 9, 0.9)] * 2)
    assert scaler.propose(waiting, 60.0).wanted == 3
    assert scaler.propose(traffic.seen(3, engines=[(1, 9, 0.9)] * 3), 120.0).wanted == 4


def test_wva2_buys_the_tokens_that_are_missing():
    """100,000 tokens of cache, 80,000 of them for use; 90,000 + 10 x 2,000 tokens on each of two."""
    traffic = steady(in_flight=1, per_s=1.0, prompt=2_000, output=200)
    scaler = law("wva2", 2, kv_tokens=100_000.0)
    asked = scaler.propose(traffic.seen(2, engines=[(10, 10, 0.9)] * 2), traffic.now_s)

    assert asked.inputs["demand_tokens"] == 220_000
    assert asked.inputs["capacity_tokens"] == 80_000
    assert asked.wanted == 4  # 220,000 / 0.85 is 98,824 more than 2 x 80,000


def test_wva2_sells_what_seven_tenths_leave():
    traffic = steady(in_flight=1, per_s=1.0, prompt=2_000, output=4_000)
    scaler = law("wva2", 4, kv_tokens=100_000.0)
    seen = traffic.seen(4, slots=64, engines=[(10, 0, 0.3)] * 4)

    # 320,000 less 120,000 / 0.70 is one replica of 80,000, and most of another.
    assert scaler.propose(seen, traffic.now_s).wanted == 3


# ---- Dynamo ----


def test_dynamo_easy_adds_one_when_any_is_full_and_removes_one_when_all_are_empty():
    traffic = steady(in_flight=1, per_s=1.0, prompt=1_000)

    def wanted(pages, **more):
        return law("dynamo-easy", 2).propose(traffic.seen(2, engines=pages, **more), 120.0).wanted

    assert wanted([(1, 9, 0.2), (1, 0, 0.2)]) == 3  # 9,000 of 8,192
    assert wanted([(1, 0, 0.7), (1, 0, 0.1)]) == 2
    assert wanted([(1, 0, 0.5), (1, 0, 0.5)]) == 1
    assert wanted([(1, 9, 0.2), (1, 0, 0.2)], coming=1, standing=3) == 3


def test_dynamo_sla_adds_one_only_when_every_engine_is_late():
    traffic = steady(in_flight=1, per_s=0.5, prompt=4_000, output=100)

    def wanted(pages):
        return law("dynamo-sla", 2).propose(traffic.seen(2, engines=pages), traffic.now_s).wanted

    assert wanted([(1, 9, 0.2), (1, 0, 0.2)]) == 2
    assert wanted([(1, 9, 0.2), (1, 9, 0.2)]) == 3


def test_dynamo_sla_removes_one_only_when_the_survivor_keeps_the_promise():
    """Two replicas with 0.7 of a cache each: together they do not fit into one."""
    traffic = steady(in_flight=1, per_s=0.1, prompt=1_000, output=100)
    for usage, expected in ((0.7, 2), (0.05, 1)):
        seen = traffic.seen(2, engines=[(4, 0, usage)] * 2)
        assert law("dynamo-sla", 2).propose(seen, traffic.now_s).wanted == expected


def test_dynamo_sla_keeps_its_floor_when_nothing_comes():
    """Seven for a busy hour, then silence: the mean of nothing is no number, and the decision is skipped."""
    traffic = steady(200, in_flight=10, per_s=20.0, prompt=4_000, output=100)
    scaler = law("dynamo-sla", 1)
    scaler.propose(traffic.seen(1, engines=[(1, 0, 0.1)]), 0.0)
    floor = scaler.propose(traffic.seen(1, engines=[(1, 0, 0.1)]), traffic.now_s).wanted
    assert floor >= 7

    traffic.go(900)
    assert scaler.propose(traffic.seen(floor, engines=[(0, 0, 0.0)] * floor), traffic.now_s).wanted == floor


# ---- hosted platforms ----


def test_baseten_holds_the_most_of_fifteen_minutes():
    traffic = steady(in_flight=3)
    scaler = law("baseten", 1)
    assert scaler.propose(traffic.seen(1), traffic.now_s).wanted == 5  # 3 / 0.7

    traffic.go(890, in_flight=1)
    assert scaler.propose(traffic.seen(5), traffic.now_s).wanted == 5
    traffic.go(900, in_flight=1)
    assert scaler.propose(traffic.seen(5), traffic.now_s).wanted == 2


def test_fireworks_waits_30_seconds_on_the_way_up_and_ten_minutes_down():
    scaler, high, low = law("fireworks", 2), steady(in_flight=20, queued=12), steady(in_flight=4)
    assert scaler.propose(high.seen(2), 0.0).wanted == 2
    assert scaler.propose(high.seen(2), 29.0).wanted == 2
    assert scaler.propose(high.seen(2), 30.0).wanted == 4

    assert scaler.propose(low.seen(4), 31.0).wanted == 4
    assert scaler.propose(low.seen(4), 620.0).wanted == 4
    assert scaler.propose(low.seen(4), 631.0).wanted == 1
