"""Predictions beside measurements."""

import pytest

from benchmarks.fleet.engines import MODEL, fleet
from sim.worlds import M, mixed
from tidegate.core.capacity import Capacity
from tidegate.core.fleet.answering import Alike, Traffic
from tidegate.core.fleet.predicting import attainment
from tidegate.core.scaling_settings import Promise, Scaling
from tidegate.sim.fluid.reporting import figures_of
from tidegate.sim.kernel import SeededDice
from tidegate.sim.scenario import Slo
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate
from tidegate.workload.curves import steady
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
