"""Laws of what is reported: said twice it is said once."""

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tidegate.core.events import (
    DemandReported,
    EngineReported,
    FleetConfigured,
    ReplicaAdopted,
    SignalsReported,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import (
    Address,
    DemandReport,
    LatencySummary,
    ModelDemand,
    ModelId,
    ReplicaId,
    ReplicaLoad,
)

M = ModelId("m")
STANDS = 4
HERE = Address("127.0.0.1", 9000)


def fleet(policy):
    """Four replicas of eight slots."""
    brain = FleetController()
    for number in range(STANDS):
        brain.on(ReplicaAdopted(ReplicaId(f"m-{number}"), M, HERE), 0.0)
    scaling = Scaling(policy, 1, 12, window_s=10.0, scale_down_delay_s=20.0, concurrency_target=8.0)
    brain.on(FleetConfigured({M: FleetModel("engine", slots=8, scaling=scaling)}, FleetLimits()), 0.0)
    return brain


def said(second, load, came):
    """A second's report, and each ten seconds the engines' pages and the latencies of a minute."""
    queued, in_flight = max(0, load - 8 * STANDS), min(load, 8 * STANDS)
    demand = ModelDemand(
        model=M,
        queued=queued,
        in_flight=in_flight,
        peak=load,
        queued_tokens=600 * queued,
        in_flight_tokens=600 * in_flight,
        arrivals_total=came,
        ended_total=max(0, came - load),
        output_tokens_total=100 * max(0, came - load),
        oldest_wait_s=0.0,
        last_active_s=float(second) if load else None,
        prompt_tokens_total=500 * came,
    )
    replicas = tuple(ReplicaLoad(ReplicaId(f"m-{n}"), in_flight // STANDS, 0) for n in range(STANDS))
    events = [DemandReported(DemandReport("gateway", 1, (demand,), replicas))]
    if second % 10 == 0:
        use = in_flight / (8 * STANDS)
        events += [
            EngineReported(load.replica_id, load.in_flight, queued // STANDS, use) for load in replicas
        ]
        ttft_s = 0.2 + 0.1 * queued
        latency = LatencySummary(60, ttft_s, ttft_s, 5.0, 5.0, ttft_p90_s=ttft_s, tpot_p90_s=0.05)
        events.append(SignalsReported(M, use, latency))
    return events


def told(policy, loads, *, times):
    """What was decided, second by second, and what the law had before it."""
    brain, came, decided = fleet(policy), 0, []
    second = 0
    for load in loads:
        for _ in range(30):
            second += 1
            came += load // 4
            for event in said(second, load, came):
                for _ in range(times):
                    brain.on(event, float(second))
            brain.on(Tick(), float(second))
            decision = brain.state(float(second)).models[0].decision
            decided.append(decision and (decision.desired, decision.held_by, decision.inputs))
    return decided


@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.generate])  # shrinking takes minutes
@given(
    st.sampled_from([ScalingPolicy.TIDAL, ScalingPolicy.CONCURRENCY, ScalingPolicy.THRESHOLDS]),
    st.lists(st.sampled_from([0, 4, 8, 20, 32, 60, 92]), min_size=2, max_size=10),
    st.integers(2, 3),
)
def test_what_is_reported_twice_counts_once(policy, loads, times):
    """Reports, the engines' pages and latencies, each as it was in the same second."""
    assert told(policy, loads, times=times) == told(policy, loads, times=1)
