"""A second policy on live traffic: it is scored, and nothing comes of it."""

import itertools
from dataclasses import replace

import pytest

from benchmarks.fleet.engines import MODEL, fleet
from sim.worlds import M, mixed, run
from sim.worlds import steady as rows_of
from tidegate.core.effects import Launch, Shadowed
from tidegate.core.scaling_settings import LawSettings, Promise, Scaling, ScalingPolicy
from tidegate.sim.fluid import flow, load_of_rates, scored
from tidegate.sim.kernel import SeededDice
from tidegate.sim.scenario import Slo
from tidegate.workload.curves import steps

ACTING = Scaling(ScalingPolicy.CONCURRENCY, 1, 8, concurrency_target=20, window_s=30, scale_down_delay_s=60)


class Kept:
    """A journal in memory."""

    def __init__(self):
        self.said, self.launches = [], 0

    def turn(self, brain, now_s, event, effects):
        self.said += [(now_s, effect) for effect in effects if isinstance(effect, Shadowed)]
        self.launches += sum(isinstance(effect, Launch) for effect in effects)


def named(shadow):
    """A law by itself, or those that are given."""
    return (LawSettings(shadow),) if isinstance(shadow, ScalingPolicy) else shadow


def day(shadow, scaling=ACTING):
    """Twenty minutes with a rise in the middle."""
    curve = steps([(400, 4), (400, 24), (400, 4)])
    load = load_of_rates(curve.rate_after, lambda _: (1000.0, 200.0), curve.end_s, 2.0, SeededDice(3))
    scenario = fleet(scaling, cold_start_s=30)
    setup = scenario.models[MODEL]
    shadowed = replace(setup, fleet=replace(setup.fleet, shadow=named(shadow)))
    kept = Kept()
    run = flow({MODEL: load}, replace(scenario, models={MODEL: shadowed}), journal=kept)
    return scored(run), kept


def test_it_changes_nothing_about_what_is_done():
    without, before = day(None)
    beside, after = day(ScalingPolicy.THRESHOLDS)

    assert beside == without
    assert after.launches == before.launches
    assert not before.said
    assert after.said


def test_the_same_law_as_its_own_shadow_has_no_regret():
    _, kept = day(ScalingPolicy.CONCURRENCY)
    last = kept.said[-1][1]

    assert last.desired == last.acting
    assert last.regret == pytest.approx(0.0, abs=0.1)
    assert last.attainment == pytest.approx(last.acting_attainment, abs=0.05)


def test_a_law_that_keeps_everything_running_costs_more_and_is_told_so():
    _, kept = day(ScalingPolicy.CONCURRENCY, replace(ACTING, min_replicas=4, concurrency_target=4))
    dear = kept.said[-1][1]
    _, kept = day(ScalingPolicy.THRESHOLDS, replace(ACTING, concurrency_target=4))
    other = kept.said[-1][1]

    assert dear.acting_replica_hours > 1.2
    assert other.policy == "thresholds"
    assert other.acting_replica_hours != other.replica_hours
    assert other.regret == pytest.approx(other.acting_cost / other.cost - 1)


def test_it_is_told_when_its_number_changes_and_every_five_minutes():
    _, kept = day(ScalingPolicy.CONCURRENCY)
    moments = [at_s for at_s, _ in kept.said]
    numbers = [said.desired for _, said in kept.said]

    assert max(numbers) > min(numbers)
    assert all(later - sooner <= 302 for sooner, later in itertools.pairwise(moments))


# ---- variants ----

MIXED = Scaling(ScalingPolicy.CONCURRENCY, 1, 8, window_s=10, scale_down_delay_s=60)


def mixed_day(shadow, busy_per_s=20, **more):
    """A quiet quarter of an hour, a busy one, a quiet one: small replicas carry the quiet, large ones the busy one."""
    settings = {"policy": MIXED.policy, "min_replicas": 1, "max_replicas": 8, "scale_down_delay_s": 60.0}
    scenario = mixed(cold_s=20.0, promise=Promise(5.0, 0.1), slo=Slo(5.0, 0.1), **(settings | more))
    setup = scenario.models[M]
    shadowed = replace(setup, fleet=replace(setup.fleet, shadow=named(shadow)))
    rows = rows_of(1, 900) + rows_of(busy_per_s, 900, from_s=900) + rows_of(1, 900, from_s=1800)
    kept = Kept()
    _, figures = run(rows, replace(scenario, models={M: shadowed}), journal=kept)
    return figures, [said for _, said in kept.said]


def test_with_variants_each_replica_counts_as_what_it_is_in_both_fleets():
    figures, said = mixed_day(ScalingPolicy.CONCURRENCY)
    last = said[-1]

    assert last.acting_cost == pytest.approx(figures.cost, rel=0.1)
    assert last.acting_replica_hours == pytest.approx(figures.replica_hours, rel=0.1)
    assert last.acting_attainment == pytest.approx(figures.attainment, abs=0.05)
    assert last.regret == pytest.approx(0.0, abs=0.1), "the same law as its own shadow has no regret"
    assert last.attainment == pytest.approx(last.acting_attainment, abs=0.05)
    assert {one.desired for one in said} >= {1, 2}


def test_a_shadow_that_never_grows_is_told_at_its_own_variants_price_and_pace():
    _, said = mixed_day(ScalingPolicy.CRON, busy_per_s=26, min_replicas=3)
    last = said[-1]

    assert last.desired == 4, (
        "one replica of default is asked for while any request is there: four small ones"
    )
    assert last.cost / last.replica_hours == pytest.approx(1.2, rel=0.05)
    assert last.acting_cost / last.acting_replica_hours > 1.25, "it had a large one in the busy quarter"
    assert last.attainment < last.acting_attainment - 0.05, "four small ones answer 22.5 a second"
