"""The fluid world: days of traffic in seconds, for judging scaling policies by the hundred.

Requests are an amount that flows through queue and engines, slot by slot; the ``FleetController`` is the one
that serves, hears the same events and is obeyed in the same way. What it leaves out stands in ``pool``.
"""

from tidegate.sim.fluid.load import Load, load_of_rates, load_of_trace
from tidegate.sim.fluid.needing import oracle_of_load
from tidegate.sim.fluid.score import Score, scored
from tidegate.sim.fluid.world import FluidRun, flow

__all__ = ["FluidRun", "Load", "Score", "flow", "load_of_rates", "load_of_trace", "oracle_of_load", "scored"]
