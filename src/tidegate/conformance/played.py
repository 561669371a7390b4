"""A story of requests, played by the simulator: dispatcher, controller and engines, and the law inside."""

from __future__ import annotations

from dataclasses import replace

from tidegate.conformance.course import Course
from tidegate.conformance.fitted import scaling_for
from tidegate.conformance.story import Flow, Simulated, World
from tidegate.core.scaling_settings import ScalingPolicy
from tidegate.core.settings import DispatchConfig, FleetLimits, FleetModel
from tidegate.core.types import ModelId
from tidegate.engine.catalogue import PROFILES
from tidegate.engine.coldstart import ColdStart
from tidegate.sim.faults import Fault
from tidegate.sim.provision import Phase
from tidegate.sim.run import Run
from tidegate.sim.scenario import ModelSetup, Scenario, Slo
from tidegate.sim.world import simulate
from tidegate.workload.builder import TraceBuilder

M = ModelId("m")
PROFILE = PROFILES["llama-3.1-8b-h100x1"]


def play(told: Simulated, policy: ScalingPolicy) -> Course:
    """The whole story."""
    trace = TraceBuilder()
    for flow in told.flows:
        for at_s in _moments(flow):
            trace.add(at_s, flow.prompt, flow.output)
    # What one replica carries, in the words of the other stories: its slots, and 5 s for each.
    world = World(
        least=told.least, most=told.most, slots=told.slots, delay_s=told.delay_s, load_s=told.load_s
    )
    fleet = FleetModel(
        "emulated",
        slots=told.slots,
        scaling=scaling_for(policy, world),
        expected_start_s=told.load_s,
        drain_deadline_s=600.0,
    )
    setup = ModelSetup(
        dispatch=DispatchConfig(),
        fleet=fleet,
        limits=replace(PROFILE.limits, max_sequences=told.slots),
        law=PROFILE.law,
        cold_start=ColdStart(engine_start_s=told.load_s),
        running=told.serving,
    )
    promise = fleet.scaling.promise
    scenario = Scenario(
        models={M: setup},
        fleet=FleetLimits(max_starts_per_hour=100_000),
        slo=Slo(promise.ttft_s, promise.tpot_s),
        faults=tuple(Fault.parse(text) for text in told.faults),
        request_timeout_s=told.deadline_s,
        settle_s=told.settle_s,
    )
    return _course(simulate(trace.build(), scenario))


def _moments(flow: Flow) -> list[float]:
    if not flow.per_s:
        return [flow.at_s]
    return [flow.at_s + n / flow.per_s for n in range(int((flow.until_s - flow.at_s) * flow.per_s))]


def _course(run: Run) -> Course:
    course = Course()
    steps: list[tuple[float, int | None, int | None]]
    steps = [(at_s, decision.desired, None) for at_s, decision in run.decisions]
    counts = run.provision.counts[Phase.SERVING]
    steps += [(at_s, None, serving) for at_s, serving in zip(run.provision.at_s, counts, strict=True)]
    desired = serving = 0
    for at_s, wanted, there in sorted(steps, key=lambda step: step[0]):
        desired = desired if wanted is None else wanted
        serving = serving if there is None else there
        course.note(at_s, desired, serving)
    course.decisions = list(run.decisions)
    course.launches = [0.0] * run.launches  # when is not asked in these stories
    course.endings = {outcome.value: count for outcome, count in run.tally.counts().items()}
    return course
