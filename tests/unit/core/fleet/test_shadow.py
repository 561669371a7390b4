"""A second policy on live traffic: it is scored, and nothing comes of it."""

import itertools
from dataclasses import replace

import pytest

from benchmarks.fleet.engines import MODEL, fleet
from tidegate.core.effects import Launch, Shadowed
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.sim.fluid import flow, load_of_rates, scored
from tidegate.sim.kernel import SeededDice
from tidegate.workload.curves import steps

ACTING = Scaling(ScalingPolicy.CONCURRENCY, 1, 8, concurrency_target=20, window_s=30, scale_down_delay_s=60)


class Kept:
    """A journal in memory."""

    def __init__(self):
        self.said, self.launches = [], 0

    def turn(self, brain, now_s, event, effects):
        self.said += [(now_s, effect) for effect in effects if isinstance(effect, Shadowed)]
        self.launches += sum(isinstance(effect, Launch) for effect in effects)


def day(shadow, scaling=ACTING):
    """Twenty minutes with a rise in the middle."""
    curve = steps([(400, 4), (400, 24), (400, 4)])
    load = load_of_rates(curve.rate_after, lambda _: (1000.0, 200.0), curve.end_s, 2.0, SeededDice(3))
    scenario = fleet(scaling, cold_start_s=30)
    setup = scenario.models[MODEL]
    shadowed = replace(setup, fleet=replace(setup.fleet, shadow=shadow))
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
