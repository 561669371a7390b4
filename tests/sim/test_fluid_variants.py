"""The fluid world with replicas of two variants: as the world that moves each request has it."""

import pytest

from sim.worlds import M, mixed
from tidegate.core.scaling_settings import Promise, ScalingPolicy
from tidegate.planner.trial import Ground, Settings
from tidegate.sim.fluid import flow, load_of_rates, load_of_trace, oracle_of_load, scored
from tidegate.sim.fluid.needing import fleet_for
from tidegate.sim.kernel import SeededDice
from tidegate.sim.scenario import Slo
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate
from tidegate.workload.curves import flash_crowd, steady, steps
from tidegate.workload.generate import generated
from tidegate.workload.lengths import Independent, LogNormal

LENGTHS = Independent(LogNormal(800, 0.6), LogNormal(200, 0.5))
RISE = steps([(600, 1.5), (900, 16), (600, 3)])
"""From what one small replica carries to what a large one does, and back."""
WAVE = steps([(150, 10 - abs(n - 9)) for n in range(18)])


def fleet(policy=ScalingPolicy.CONCURRENCY, **more):
    settings = {"min_replicas": 1, "max_replicas": 8, "window_s": 30.0, "scale_down_delay_s": 120.0} | more
    slo = settings.pop("slo", Slo())
    promise = Promise(slo.ttft_s, slo.tpot_s)
    return mixed(policy=policy, cold_s=settings.pop("cold_s", 30.0), slo=slo, promise=promise, **settings)


def loaded(curve):
    return {M: load_of_rates(curve.rate_after, lambda _: (800.0, 200.0), curve.end_s, 2.0, SeededDice(3))}


@pytest.mark.parametrize("policy", [ScalingPolicy.CONCURRENCY, ScalingPolicy.TIDAL])
@pytest.mark.parametrize("curve", [RISE, WAVE])
def test_it_agrees_with_the_world_that_moves_each_request(curve, policy):
    trace = generated(curve, LENGTHS, SeededDice(7))
    fluid = scored(flow({M: load_of_trace(trace, 2.0)}, fleet(policy)))
    exact = summarize(simulate(trace, fleet(policy)))

    assert fluid.requests == exact.requests
    assert fluid.replica_hours == pytest.approx(exact.replica_hours, rel=0.10)
    assert fluid.cost == pytest.approx(exact.cost, rel=0.10)
    assert fluid.attainment == pytest.approx(exact.attainment, abs=0.03)


@pytest.mark.parametrize("policy", [ScalingPolicy.CONCURRENCY, ScalingPolicy.TIDAL, ScalingPolicy.KPA])
def test_every_request_comes_to_exactly_one_end(policy):
    curve = flash_crowd(3.0, 40.0, for_s=900, at_s=200, hold_s=120)
    run = flow(loaded(curve), fleet(policy, min_replicas=0, max_replicas=4))
    found = run.flowed[M]

    assert found.over == pytest.approx(found.requests, rel=1e-9)
    assert 0 <= found.kept <= min(found.ttft_kept, found.ended) + 1e-6 <= found.requests + 1e-6
    assert run.simulated_s < 900 + 700, "nothing is left over at a variant whose replicas have all gone"


def kept_of(per_s, tpot_s):
    """One large replica and four small ones, whose tokens take 22 ms and more, for ten minutes."""
    scenario = fleet(large=1, small=4, min_replicas=5, max_replicas=5, cold_s=1.0, slo=Slo(2.0, tpot_s))
    curve = steady(per_s, 600)
    exact = summarize(simulate(generated(curve, LENGTHS, SeededDice(3)), scenario)).attainment
    return scored(flow(loaded(curve), scenario)).attainment, exact


def test_the_large_one_gets_the_requests_until_the_small_ones_are_as_cheap():
    for per_s in (18.0, 24.0):
        fluid, exact = kept_of(per_s, tpot_s=0.02)
        assert fluid == pytest.approx(exact, abs=0.09), f"{per_s} a second"
    assert kept_of(24.0, tpot_s=0.1)[0] > 0.99, "all of them are in time where 22 ms are"


def test_each_replica_costs_what_its_variant_does():
    small = scored(flow(loaded(steady(1.0, 900)), fleet(large=0, max_replicas=2)))
    large = scored(flow(loaded(steady(1.0, 900)), fleet(small=0, max_replicas=2)))

    assert small.cost / small.replica_hours == pytest.approx(1.2)
    assert large.cost / large.replica_hours == pytest.approx(4.0)


# ---- settings that are tried there ----


def ground(**more):
    return Ground(M, loaded(RISE)[M], fleet(**more))


def test_settings_are_judged_by_money():
    """Two replicas all the time cost twice as much when they are large. The quiet parts need none of that kind."""
    two = Settings.of(fleet(min_replicas=2, max_replicas=2).models[M].fleet.scaling)
    small, large = ground(large=0).judge(two), ground(small=0).judge(two)

    assert small.replica_hours == pytest.approx(large.replica_hours, rel=0.02)
    assert (small.spent, large.spent) == (small.cost, large.cost)
    assert large.spent == pytest.approx(small.spent * 4.0 / 1.2, rel=0.02)
    assert large.attainment > 0.99 > 0.6 > small.attainment
    assert large.regret == pytest.approx(large.cost / (small.cost / (1 + small.regret)) - 1), (
        "one cheapest for both"
    )


def test_the_fleet_that_the_first_minutes_need_is_there_from_the_beginning():
    assert fleet_for(loaded(steady(1.5, 300))[M], fleet().models[M], Slo(), 1, 8) == {"": 0, "small": 1}
    assert fleet_for(loaded(steady(15.0, 300))[M], fleet().models[M], Slo(), 1, 8)[""] >= 1
    assert fleet_for(loaded(steady(15.0, 300))[M], fleet(large=0).models[M], Slo(), 1, 8)[""] == 0


def test_the_cheapest_schedule_costs_no_more_than_any_fleet_that_keeps_the_promise():
    load, setup = loaded(RISE)[M], fleet().models[M]
    oracle = oracle_of_load(load, setup, Slo())
    run = scored(flow({M: load}, fleet(small=0, min_replicas=2, max_replicas=2)), oracle)

    assert run.attainment > 0.99
    assert 0.0 < oracle.cost < run.cost
    assert run.regret == pytest.approx(run.cost / oracle.cost - 1)
