"""Predictions beside measurements."""

import pytest

from benchmarks.fleet.engines import MODEL, fleet
from tidegate.core.capacity import Capacity
from tidegate.core.fleet.predicting import Traffic, attainment
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
        predicted = attainment(replicas, Traffic(20.0, 1000.0, 200.0), capacity, 64, Promise(2.0, 0.025))
        assert predicted == pytest.approx(summarize(simulate(trace, scenario)).attainment, abs=within)
