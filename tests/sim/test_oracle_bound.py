"""No simulated fleet that keeps its promise to everybody costs less than the oracle says it must."""

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from sim.worlds import GPU, mixed, run, steady, world
from tidegate.core.scaling_settings import ScalingPolicy
from tidegate.engine.latency import LinearLaw
from tidegate.sim.needs import least_work_s, oracle_of
from tidegate.sim.oracle import regret
from tidegate.sim.scenario import Slo

SLOW = LinearLaw(a=60, b=2, c=2, d=50, e=400, f=100)
"""A replica is full with a few requests a second."""

waves = st.lists(
    st.tuples(
        st.integers(5, 30), st.sampled_from([0.0, 0.2, 1.0, 2.0]), st.integers(1, 800), st.integers(1, 60)
    ),
    min_size=1,
    max_size=4,
)


def rows_of(waves):
    rows, from_s = [], 0.0
    for span_s, rate, prompt, output in waves:
        if rate:
            rows += steady(rate, span_s, prompt, output, from_s)
        from_s += span_s
    return rows


@settings(max_examples=25, deadline=None)
@given(waves, st.sampled_from([2.0, 10.0, 30.0]), st.integers(0, 3), st.sampled_from([5.0, 60.0]))
@example([(30, 1.0, 10, 10)], 10.0, 1, 5.0)  # it ends in the middle of a slot
def test_a_fleet_that_keeps_the_promise_is_no_cheaper(waves, cold_s, least, delay_s):
    rows = rows_of(waves)
    assume(rows)
    scenario = world(
        law=SLOW,
        slots=4,
        min_replicas=least,
        max_replicas=4,
        running=3,
        cold_s=cold_s,
        scale_down_delay_s=delay_s,
        window_s=5.0,
        concurrency_target=3,
        slo=Slo(ttft_s=60.0, tpot_s=1.0),
    )
    done, figures = run(rows, scenario)
    assume(figures.attainment == 1.0)
    oracle, fixed = oracle_of(done)

    assert figures.replica_hours >= oracle.replica_hours - 1e-9
    assert regret(figures.replica_hours, oracle) >= -1e-9 or oracle.replica_hours == 0.0
    assert figures.max_provisioned >= fixed.replicas or figures.max_provisioned >= max(
        oracle.serving, default=0
    )


@pytest.mark.parametrize("number", [1, 2])
def test_a_fixed_fleet_that_just_does_it_has_little_to_regret(number):
    # 240 rows of 8 sequences at a time: a replica is busy nearly all the time.
    rows = steady(4.0 * number, 300, prompt=200, output=30)
    scenario = world(
        law=SLOW,
        slots=16,
        min_replicas=number,
        max_replicas=number,
        cold_s=100.0,
        slo=Slo(ttft_s=30.0, tpot_s=0.5),
    )
    done, figures = run(rows, scenario)
    oracle, fixed = oracle_of(done)

    assert figures.attainment == 1.0
    assert fixed.replicas <= number
    assert 0.0 <= regret(figures.replica_hours, oracle) < 0.5


@settings(max_examples=10, deadline=None)
@given(
    waves, st.sampled_from([5.0, 20.0]), st.integers(0, 2), st.sampled_from([5.0, 60.0]), st.floats(0.4, 4.0)
)
def test_a_fleet_of_two_variants_that_keeps_the_promise_is_no_cheaper(waves, cold_s, least, delay_s, price):
    rows = rows_of([(span_s, 6 * rate, prompt, output) for span_s, rate, prompt, output in waves])
    assume(rows)
    scenario = mixed(
        slots=(16, 4),
        price=(4.0, price),
        policy=ScalingPolicy.CONCURRENCY,
        min_replicas=least,
        max_replicas=4,
        cold_s=cold_s,
        scale_down_delay_s=delay_s,
        window_s=5.0,
        concurrency_target=6.0,
        slo=Slo(ttft_s=90.0, tpot_s=1.0),
    )
    done, figures = run(rows, scenario)
    assume(figures.attainment == 1.0)
    oracle, fixed = oracle_of(done)

    assert oracle.cost is not None
    assert figures.cost >= oracle.cost - 1e-9
    assert fixed.counts.keys() == {"default", "small"}


def test_of_a_quiet_model_with_a_busy_time_the_cheapest_is_cheaper_than_any_fixed_fleet():
    rows = steady(0.5, 300) + steady(15, 300, from_s=300) + steady(0.5, 300, from_s=600)
    settings = {"policy": ScalingPolicy.CONCURRENCY, "min_replicas": 1, "max_replicas": 4, "window_s": 10.0}
    done, figures = run(rows, mixed(**settings, slo=Slo(ttft_s=60.0, tpot_s=1.0)))
    oracle, fixed = oracle_of(done)

    assert figures.attainment > 0.99
    assert fixed.price_per_h <= 4.0, "one large one does it"
    assert 0.0 < oracle.cost < 0.9 * fixed.price_per_h * figures.simulated_s / 3600
    assert regret(figures.replica_hours, oracle, figures.cost) == pytest.approx(
        figures.cost / oracle.cost - 1.0
    )


requests = st.lists(
    st.tuples(st.floats(0, 2), st.integers(1, 3000), st.integers(1, 60)), min_size=1, max_size=30
)


@given(requests, st.sampled_from([GPU, SLOW, LinearLaw(a=30, b=0.06, c=0.05, d=30, e=127, f=37, g=5.7)]))
def test_no_engine_works_for_less_time(gaps, law):
    rows, at_s = [], 0.0
    for gap_s, prompt, output in gaps:
        at_s += gap_s
        rows.append((at_s, prompt, output))
    scenario = world(law=law, slots=6, min_replicas=1, max_replicas=1)
    least_s = sum(least_work_s(law, 6, prompt, 0, output) for _, prompt, output in rows)
    done, _ = run(rows, scenario)

    assert done.simulated_s >= least_s
