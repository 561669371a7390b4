"""Predictions beside measurements: of the next minute, and of a whole course that has been."""

from dataclasses import replace
from itertools import pairwise
from math import sin

import pytest

from benchmarks.fleet.engines import MODEL, fleet
from sim.worlds import M, mixed
from tidegate.core.capacity import Capacity
from tidegate.core.events import DemandReported
from tidegate.core.fleet.answering import Alike, Traffic, full_replica
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.predicting import attainment, traffic_of
from tidegate.core.scaling_settings import LawSettings, Promise, Scaling, ScalingPolicy
from tidegate.sim.fluid.reporting import figures_of
from tidegate.sim.kernel import SeededDice
from tidegate.sim.scenario import Slo
from tidegate.sim.summary import kept_rows, summarize
from tidegate.sim.world import simulate
from tidegate.workload.curves import RateCurve, steady, steps
from tidegate.workload.generate import generated
from tidegate.workload.lengths import Independent, LogNormal


def test_it_is_near_what_the_simulator_measures():

    trace = generated(
        steady(20.0, 180), Independent(LogNormal(1000, 0.8), LogNormal(200, 0.6)), SeededDice(3)
    )
    for replicas, within in ((3, 0.1), (4, 0.07)):
        scenario = fleet(Scaling(min_replicas=replicas, max_replicas=replicas), slo=Slo(2.0, 0.025))
        capacity = Capacity.told(figures_of(MODEL, scenario.models[MODEL]))
        predicted = attainment(
            [Alike(replicas, capacity, 64)], Traffic(20.0, 1000.0, 200.0), Promise(2.0, 0.025)
        )
        assert predicted == pytest.approx(summarize(simulate(trace, scenario)).attainment, abs=within)


@pytest.mark.parametrize(
    "per_s, large, small, tpot_s",
    [(12.0, 1, 2, 0.02), (18.0, 1, 4, 0.02), (24.0, 1, 4, 0.02), (36.0, 2, 4, 0.02), (18.0, 1, 4, 0.05)],
)
def test_replicas_of_two_variants_are_each_predicted_as_what_they_are(per_s, large, small, tpot_s):
    """A token takes 22 ms at a small one and 7 to 11 at a large one, which gets the more of the requests."""
    trace = generated(
        steady(per_s, 240), Independent(LogNormal(800, 0.6), LogNormal(200, 0.5)), SeededDice(3)
    )
    both = large + small
    scenario = mixed(
        large=large, small=small, slo=Slo(2.0, tpot_s), min_replicas=both, max_replicas=both, cold_s=1.0
    )
    setup = scenario.models[M]
    crew = [
        Alike(number, Capacity.told(figures_of(M, its)), its.fleet.slots)
        for number, its in ((large, setup), (small, setup.variants["small"]))
    ]
    measured = summarize(simulate(trace, scenario)).attainment
    predicted = attainment(crew, Traffic(per_s, 800.0, 200.0), Promise(2.0, tpot_s))
    assert predicted == pytest.approx(measured, abs=0.08)


# ---- the next minute, from what a gateway has learned and counted by then ----

BUSY = "llama-3.1-8b-h100x1", 16, (1000.0, 200.0), Promise(2.0, 0.1)
"""Bound by its slots: 9.3 requests a second at 8.6 ms a token."""
TIGHT = "llama-3.1-70b-h100x4", 32, (1500.0, 150.0), Promise(3.0, 0.035)
"""Bound by its pace: a token takes 35 ms where replicas are nearly full."""


class EachMinute:
    """A journal that predicts the next minute at each full one, as a controller would."""

    def __init__(self, crew_of, promise):
        self._crew_of, self._promise = crew_of, promise
        self._book, self._next_s = DemandBook(), 60.0
        self.said = []

    def turn(self, brain, now_s, event, effects):
        if not isinstance(event, DemandReported):
            return
        self._book.hear(event.report, now_s)
        if now_s >= self._next_s:
            self._next_s += 60.0
            demand = self._book.demand(MODEL, 60.0, now_s)
            kept = attainment(self._crew_of(demand.capacity), traffic_of(demand, now_s), self._promise)
            self.said.append((now_s, kept))


def carried(world, replicas):
    """Requests a second that so many replicas answer."""
    name, slots, lengths, _ = world
    capacity = Capacity.told(figures_of(MODEL, fleet(Scaling(), name=name, slots=slots).models[MODEL]))
    return replicas * full_replica(Traffic(1.0, *lengths), capacity, slots).requests_per_s


def trace_of(curve, lengths, seed=3):
    prompt, output = lengths
    return generated(curve, Independent(LogNormal(prompt, 0.8), LogNormal(output, 0.6)), SeededDice(seed))


def minutes(world, replicas, curve, seed=3):
    """Of each minute but the first, what was predicted at its beginning and what was kept of it then."""
    name, slots, lengths, promise = world
    slo = Slo(promise.ttft_s, promise.tpot_s)
    scaling = Scaling(min_replicas=replicas, max_replicas=replicas)
    said = EachMinute(lambda capacity: [Alike(replicas, capacity, slots)], promise)
    trace = trace_of(curve, lengths, seed)
    run = simulate(trace, fleet(scaling, name=name, slots=slots, slo=slo), 1, said)
    kept = list(zip(trace.arrived_s, kept_rows(run, run.tally.tpot_s(trace.output_tokens)), strict=True))
    for (from_s, predicted), (until_s, _) in pairwise([*said.said, (curve.end_s, None)]):
        those = [is_kept for at_s, is_kept in kept if from_s <= at_s < until_s]
        if until_s - from_s > 30.0:
            yield predicted, sum(those) / len(those)


@pytest.mark.parametrize("replicas", [1, 4, 12])
@pytest.mark.parametrize("load", [0.6, 0.8, 1.05])
def test_with_learned_capacity_each_minute_is_predicted_whether_it_fits_or_not(replicas, load):
    """All of it, or none: whoever comes a minute after a line has formed is late."""
    rate = load * carried(BUSY, replicas)
    for predicted, measured in minutes(BUSY, replicas, steady(rate, 130 if replicas == 12 else 190)):
        assert predicted == pytest.approx(measured, abs=0.07 if replicas == 1 else 0.05)


@pytest.mark.parametrize("replicas", [4, 12])
def test_at_95_percent_of_what_several_replicas_carry_chance_makes_nobody_late(replicas):
    for predicted, measured in minutes(BUSY, replicas, steady(0.95 * carried(BUSY, replicas), 130)):
        assert predicted == pytest.approx(measured, abs=0.05)


def test_at_95_percent_of_what_one_replica_carries_a_minute_is_luck_and_many_are_not():
    rate = 0.95 * carried(BUSY, 1)
    both = [one for seed in range(8) for one in minutes(BUSY, 1, steady(rate, 310), seed)]
    predicted, measured = (sum(column) / len(both) for column in zip(*both, strict=True))

    assert predicted == pytest.approx(measured, abs=0.1)


@pytest.mark.parametrize("load, within", [(0.6, 0.05), (0.8, 0.05), (0.95, 0.1)])
def test_a_pace_that_a_part_keeps_is_predicted_too(load, within):
    both = list(minutes(TIGHT, 4, steady(load * carried(TIGHT, 4), 250)))
    predicted, measured = (sum(column) / len(both) for column in zip(*both, strict=True))

    assert predicted == pytest.approx(measured, abs=within)


@pytest.mark.parametrize("replicas", [1, 4, 12])
def test_after_a_step_what_is_there_and_what_has_come_say_how_it_goes_on(replicas):
    """The minute in which it comes is not foreseen, and the one after it is known for what it is."""
    full = carried(BUSY, replicas)
    _, step, after = minutes(BUSY, replicas, steps([(120, 0.5 * full), (130, 1.3 * full)]))

    assert step[0] > 0.95 > step[1]
    assert after[0] == pytest.approx(after[1], abs=0.05)


# ---- whole courses ----

SINE = RateCurve(tuple((10.0 * n, 2.0 + 1.6 * sin(n / 10)) for n in range(73)))
STEP = steps([(240, 0.8), (240, 3.2), (240, 1.2)])


@pytest.mark.parametrize("curve", [SINE, STEP], ids=["sine", "step"])
@pytest.mark.parametrize("law", [ScalingPolicy.CONCURRENCY, ScalingPolicy.TIDAL])
@pytest.mark.parametrize("world, within", [(BUSY, 0.05), (TIGHT, 0.07)], ids=["busy", "tight"])
def test_what_is_said_of_the_acting_policy_is_near_what_its_run_kept(world, within, law, curve):
    """Of 1 to 8 replicas that take 30 s to start; the curve is in terms of what one carries."""
    name, slots, lengths, promise = world
    scaling = Scaling(law, 1, 8, promise=promise)
    slo = Slo(promise.ttft_s, promise.tpot_s)
    scenario = fleet(scaling, name=name, slots=slots, slo=slo, cold_start_s=30.0)
    setup = scenario.models[MODEL]
    looked_at = replace(setup, fleet=replace(setup.fleet, shadow=(LawSettings(ScalingPolicy.RAY),)))
    trace = trace_of(curve.scaled(rate=carried(world, 1)), lengths)
    figures = summarize(simulate(trace, replace(scenario, models={MODEL: looked_at})))

    assert figures.attainment < 0.97
    assert figures.shadows[0].acting_attainment == pytest.approx(figures.attainment, abs=within)
