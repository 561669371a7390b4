"""The fluid world: what flows in flows out, and laws come out as in the world that moves each request."""

from array import array
from dataclasses import replace

import pytest

from benchmarks.fleet.engines import MODEL, fleet
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import Pool, SpillBounds
from tidegate.planner.trial import Ground, Settings
from tidegate.sim.fluid import Load, flow, load_of_rates, load_of_trace, oracle_of_load, scored
from tidegate.sim.kernel import SeededDice
from tidegate.sim.scenario import Slo
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate
from tidegate.workload.curves import flash_crowd, steady, steps
from tidegate.workload.generate import generated
from tidegate.workload.lengths import Fixed, Independent

LENGTHS = Independent(Fixed(1000), Fixed(200))
GROWING = Scaling(ScalingPolicy.CONCURRENCY, 1, 8, concurrency_target=24, window_s=30, scale_down_delay_s=120)


def loaded(curve, slot_s=2.0):
    return {
        MODEL: load_of_rates(curve.rate_after, lambda _: (1000.0, 200.0), curve.end_s, slot_s, SeededDice(3))
    }


@pytest.mark.parametrize(
    "policy", [ScalingPolicy.CONCURRENCY, ScalingPolicy.THRESHOLDS, ScalingPolicy.KPA, ScalingPolicy.WVA2]
)
def test_every_request_comes_to_exactly_one_end(policy):
    curve = flash_crowd(3.0, 40.0, for_s=900, at_s=200, hold_s=120)
    scaling = Scaling(policy, min_replicas=1, max_replicas=4, window_s=30)
    run = flow(loaded(curve), fleet(scaling))
    found = run.flowed[MODEL]

    assert found.requests == sum(loaded(curve)[MODEL].requests)
    assert found.over == pytest.approx(found.requests, rel=1e-9)
    assert 0 <= found.kept <= min(found.ttft_kept, found.ended) + 1e-6 <= found.requests + 1e-6


def test_a_fleet_within_its_capacity_keeps_the_promise_and_half_of_one_does_not():
    curve = steady(20.0, 900)  # one replica as full as the promise allows answers 8.8 of these a second

    enough = scored(flow(loaded(curve), fleet(Scaling(min_replicas=3, max_replicas=3))))
    too_few = scored(flow(loaded(curve), fleet(Scaling(min_replicas=1, max_replicas=1))))

    assert enough.attainment > 0.999
    assert enough.replica_hours == pytest.approx(0.75, rel=0.03)
    assert too_few.attainment < 0.1
    assert too_few.ttft_attainment < 0.1  # they wait in line; those that run have their pace


def test_a_cold_start_costs_the_requests_that_come_while_it_lasts():
    curve = steps([(300, 4), (900, 24)])
    scores = [
        scored(flow(loaded(curve), fleet(GROWING, cold_start_s=cold_s))).attainment for cold_s in (5, 60, 240)
    ]

    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0.97 > 0.9 > scores[2]


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    curve = steps([(200, 4), (300, 20)])
    one, same = (scored(flow(loaded(curve), fleet(GROWING), seed=1)) for _ in range(2))

    assert one == same
    assert one != scored(flow(loaded(curve), fleet(GROWING), seed=2))


def test_it_agrees_with_the_world_that_moves_each_request():
    trace = generated(steps([(200, 4), (400, 20), (300, 6)]), LENGTHS, SeededDice(7))
    fluid = scored(flow({MODEL: load_of_trace(trace, 2.0)}, fleet(GROWING)))
    exact = summarize(simulate(trace, fleet(GROWING)))

    assert fluid.requests == exact.requests
    assert fluid.replica_hours == pytest.approx(exact.replica_hours, rel=0.10)
    assert fluid.attainment == pytest.approx(exact.attainment, abs=0.03)


def test_short_requests_are_worked_off_as_fast_as_in_the_world_that_moves_each():
    """One replica answers 117 a second of these, and gets 176 for a minute: prompts and slots bound it together."""
    trace = generated(steady(176.0, 60), Independent(Fixed(100), Fixed(12)), SeededDice(5))
    one = fleet(Scaling(min_replicas=1, max_replicas=1))
    fluid = flow({MODEL: load_of_trace(trace, 5.0)}, one)
    exact = simulate(trace, one)

    assert 85 < exact.simulated_s < 100
    assert fluid.simulated_s == pytest.approx(exact.simulated_s, rel=0.1)


def test_the_oracle_spends_no_more_than_any_fleet_that_keeps_the_promise():
    loads = loaded(steps([(600, 4), (600, 30), (600, 4)]))
    scenario = fleet(Scaling(min_replicas=4, max_replicas=4))
    oracle = oracle_of_load(loads[MODEL], scenario.models[MODEL], Slo())
    run = scored(flow(loads, scenario), oracle)

    assert run.attainment > 0.999
    assert run.regret > 0.5  # four all the time, where the night needs one


def test_slots_that_would_make_the_gateway_silent_are_refused():
    load = Load(30.0, array("d", [1.0]), array("d", [1000.0]), array("d", [200.0]))
    with pytest.raises(ValueError, match=r"at most 8 s; these have \{30\.0\}"):
        flow({MODEL: load}, fleet(GROWING))


def test_a_load_can_be_cut_and_made_coarser():
    load = Load(2.0, array("d", [1, 2, 3, 4]), array("d", [10, 20, 30, 40]), array("d", [5, 5, 5, 5]))

    assert list(load.between(2.0, 6.0).requests) == [2, 3]
    assert list(load.coarser(4.0).requests) == [3, 7]
    assert load.coarser(4.0).slot_s == 4.0
    assert load.mean_prompt_tokens == 10.0


def test_a_sleeper_that_wakes_in_seconds_bridges_a_cold_start():
    curve = steps([(300, 4), (600, 20)])
    scenario = fleet(GROWING, cold_start_s=200)
    setup = scenario.models[MODEL]
    pooled = replace(
        setup,
        running=1,
        fleet=replace(
            setup.fleet, pool=Pool(max_warm=1, max_sleeping=3, sleep_after_s=1.0, expected_wake_s=4.0)
        ),
        cold_start=replace(setup.cold_start, wake_s=4.0),
    )
    bare = scored(flow(loaded(curve), scenario))
    run = flow(loaded(curve), replace(scenario, models={MODEL: pooled}))

    assert run.flowed[MODEL].over == pytest.approx(run.flowed[MODEL].requests)
    assert scored(run).attainment >= bare.attainment


PRICED = SpillBounds(
    prompt_price=1e-6,
    output_price=1e-5,
    max_cost_per_h=1_000.0,
    max_in_flight=10_000,
    max_wait_s=2.0,
    ttft_s=0.5,
)
"""0.003 for each of these requests."""


def with_upstream(spill, scaling=None, price_per_h=0.0):
    """One replica, or what the scaling says, and an upstream."""
    scenario = fleet(scaling or Scaling(min_replicas=1, max_replicas=1))
    setup = scenario.models[MODEL]
    dispatch, model = replace(setup.dispatch, spill=spill), replace(setup.fleet, price_per_h=price_per_h)
    return replace(scenario, models={MODEL: replace(setup, dispatch=dispatch, fleet=model)})


def spilling(spill, curve=None):
    run = flow(loaded(curve or steady(20.0, 900)), with_upstream(spill))
    return run.flowed[MODEL], scored(run)


def test_what_one_replica_cannot_serve_is_spilt_and_paid_for():
    flowed, score = spilling(PRICED)
    assert flowed.over == pytest.approx(flowed.requests, rel=1e-9)
    assert flowed.spilt_cost == pytest.approx(0.003 * flowed.spilt, rel=0.01)
    assert score.cost == pytest.approx(flowed.spilt_cost)  # replicas cost nothing here
    assert 0.3 < flowed.spilt / flowed.requests < 0.7, "one replica answers about half of them"
    sooner = spilling(replace(PRICED, max_wait_s=0.5))[1]
    assert sooner.attainment > score.attainment, "who waits for 2 s is late already"


def test_money_and_room_bound_it():
    poor, _ = spilling(replace(PRICED, max_cost_per_h=3.0))
    assert poor.spilt == pytest.approx(1_000.0, rel=0.01)
    narrow, _ = spilling(replace(PRICED, max_in_flight=4, tpot_s=0.1))
    # Each is there for 0.5 s and 199 tokens of 0.1 s: four places take one in five seconds.
    assert narrow.spilt == pytest.approx(900 * 4 / 20.4, rel=0.15)


def test_it_is_as_the_world_that_moves_each_request_has_it():
    """Ten minutes of twice what one replica can do; who waits for 2 s is spilt."""
    curve = steady(20.0, 600)
    flowed, _ = spilling(PRICED, curve)
    moved = summarize(simulate(generated(curve, LENGTHS, SeededDice(3)), with_upstream(PRICED)))
    assert moved.spilt / moved.requests == pytest.approx(flowed.spilt / flowed.requests, abs=0.1)


def test_settings_are_judged_by_what_they_spill_too():
    """With a replica at 3 an hour, a thousand spilt requests weigh as much as an hour of it."""
    load = loaded(steady(20.0, 900))[MODEL]
    ground = Ground(MODEL, load, with_upstream(PRICED, GROWING, price_per_h=3.0))
    one = Settings.of(replace(GROWING, min_replicas=1, max_replicas=1))
    three = Settings.of(replace(GROWING, min_replicas=3, max_replicas=3))
    assert ground.judge(one).replica_hours > ground.judge(three).replica_hours
    assert Ground(MODEL, load, with_upstream(PRICED, GROWING)).judge(one).spilt == 0.0
