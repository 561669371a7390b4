"""The worked scaling cases come out exactly: through a policy alone and through the whole controller."""

import json
from pathlib import Path

import pytest

from tidegate.core.effects import Decision, Demote, Launch, Promote, PublishRoutes
from tidegate.core.events import (
    DemandReported,
    FleetConfigured,
    ReplicaAdopted,
    SignalsReported,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.fleet.scaling.policies import POLICIES, Demand, Situation
from tidegate.core.fleet.scaling.policies.concurrency import replicas_for
from tidegate.core.lifecycle import State
from tidegate.core.scaling_settings import Scaling, ScalingPolicy, Thresholds
from tidegate.core.settings import FleetLimits, FleetModel, Pool
from tidegate.core.types import (
    Address,
    DemandReport,
    LatencySummary,
    ModelDemand,
    ModelId,
    ReplicaId,
    ReplicaLoad,
)

CASES = json.loads(Path(__file__).with_name("worked_cases.json").read_text())
SIZING = CASES["sizing_by_concurrency"]
WINDOW = CASES["window_and_scale_down_delay"]
STEPS = CASES["thresholds_with_cooldowns"]
POOL = CASES["warm_pool"]
M = ModelId("m")


def report(queued=0, in_flight=0, latency=LatencySummary()):  # noqa: B008
    demand = ModelDemand(M, queued, in_flight, queued + in_flight, 0, 0, 0, 0, 0, 0.0, None, latency)
    return DemandReported(DemandReport("gateway", 1, (demand,), ()))


class Driven:
    """A controller of one model, and the number that stands after each tick."""

    def __init__(self, scaling, slots=8):
        self.brain = FleetController()
        self.decision = None
        self.on(FleetConfigured({M: FleetModel("llamacpp", slots=slots, scaling=scaling)}, FleetLimits()), 0)

    def on(self, event, at):
        for effect in self.brain.on(event, float(at)):
            if isinstance(effect, Decision):
                self.decision = effect

    def second(self, at, **demand):
        """One sample and one tick."""
        self.on(report(**demand), at)
        self.on(Tick(), at)
        return self.decision.desired


@pytest.mark.parametrize("row", SIZING["rows"], ids=lambda row: f"{row['in_flight']} in flight")
def test_sizing_by_concurrency(row):
    target = SIZING["concurrency_target"]
    scaling = Scaling(
        ScalingPolicy.CONCURRENCY,
        min_replicas=SIZING["min_replicas"],
        max_replicas=SIZING["max_replicas"],
        concurrency_target=target,
    )
    assert replicas_for(row["in_flight"], target) == row["unclamped"]

    driven = Driven(scaling, slots=target)
    driven.second(0, in_flight=row["in_flight"])

    decision = driven.brain.state(0.0).models[0].decision
    assert decision.desired == row["replicas"]
    assert decision.inputs["asked"] == row["unclamped"]
    assert decision.chosen.queued == row["queued"]


@pytest.mark.parametrize("row", WINDOW["rows"], ids=lambda row: f"{row['window']}+{row['scale_down_delay']}")
def test_window_and_scale_down_delay(row):
    driven = Driven(
        Scaling(
            ScalingPolicy.CONCURRENCY,
            min_replicas=WINDOW["min_replicas"],
            max_replicas=WINDOW["max_replicas"],
            concurrency_target=WINDOW["concurrency_target"],
            window_s=row["window"],
            scale_down_delay_s=row["scale_down_delay"],
        )
    )
    replicas = [driven.second(at, in_flight=load) for at, load in enumerate(WINDOW["in_flight"])]

    assert sum(replicas) == row["replica_ticks"]
    assert replicas == row.get("replicas", replicas)
    if row.get("bridges_the_gap"):
        assert replicas[2:10] == [max(replicas)] * 8


def scaling_by_thresholds():
    config = STEPS["defaults"] | STEPS["config"]
    return Scaling(
        policy=ScalingPolicy.THRESHOLDS,
        min_replicas=config["min_replicas"],
        max_replicas=config["max_replicas"],
        thresholds=Thresholds(
            max_queue_depth=config["max_queue_depth"],
            max_latency_p95_ms=config["max_latency_p95_ms"],
            max_gpu_utilization=config["max_gpu_utilization"],
            min_queue_depth=config["min_queue_depth"],
            min_gpu_utilization=config["min_gpu_utilization"],
            scale_up_cooldown_s=config["scale_up_cooldown"],
            scale_down_cooldown_s=config["scale_down_cooldown"],
        ),
    )


def test_the_defaults_of_the_threshold_law_are_the_worked_ones():
    worked, ours = STEPS["defaults"], Thresholds()
    assert ours.max_queue_depth == worked["max_queue_depth"]
    assert ours.max_latency_p95_ms == worked["max_latency_p95_ms"]
    assert ours.max_gpu_utilization == worked["max_gpu_utilization"]
    assert ours.min_queue_depth == worked["min_queue_depth"]
    assert ours.min_gpu_utilization == worked["min_gpu_utilization"]
    assert ours.scale_up_cooldown_s == worked["scale_up_cooldown"]
    assert ours.scale_down_cooldown_s == worked["scale_down_cooldown"]


def test_thresholds_with_cooldowns_as_a_law():
    scaling = scaling_by_thresholds()
    law = POLICIES[scaling.policy](scaling, scaling.min_replicas, 0.0)
    standing, replicas = scaling.min_replicas, []
    for row in STEPS["rows"]:
        demand = Demand(
            queued=row["queue_depth"],
            in_flight=row["active_requests"],
            concurrency=row["queue_depth"] + row["active_requests"],
            complete_since_s=0.0,
            latency_p95_s=row["latency_p95_ms"] / 1000,
            gpu_utilization=row["gpu_utilization"],
        )
        seen = Situation(demand, standing, scaling.min_replicas, scaling.max_replicas)
        standing = seen.within(law.propose(seen, float(row["t"])).wanted)
        replicas.append(standing)

    assert replicas == [row["replicas"] for row in STEPS["rows"]]


def test_thresholds_with_cooldowns_through_the_controller():
    driven = Driven(scaling_by_thresholds())
    rows = {row["t"]: row for row in STEPS["rows"]}
    replicas = []
    for at in range(max(rows) + 1):
        row = rows.get(at)
        if row is None:
            # Between the rows: a report in which nothing is above a maximum or below a minimum.
            driven.on(SignalsReported(M, gpu_utilization=0.5), at)
            driven.second(at, queued=20, latency=LatencySummary(1, e2e_p95_s=1.0))
            continue
        driven.on(SignalsReported(M, gpu_utilization=row["gpu_utilization"]), at)
        latency = LatencySummary(
            1, e2e_p50_s=row["latency_p50_ms"] / 1000, e2e_p95_s=row["latency_p95_ms"] / 1000
        )
        replicas.append(
            driven.second(at, queued=row["queue_depth"], in_flight=row["active_requests"], latency=latency)
        )

    assert replicas == [row["replicas"] for row in STEPS["rows"]]


class Pooled:
    """A controller of one model whose replicas are named as in the case, and carry one request each."""

    def __init__(self, names):
        scaling = Scaling(
            ScalingPolicy.CONCURRENCY, 0, 9, window_s=0.1, scale_down_delay_s=0, concurrency_target=1
        )
        pool = Pool(POOL["min_warm"], POOL["max_warm"], POOL["warm_instance_ttl"])
        spec = FleetModel("llamacpp", scaling=scaling, pool=pool)
        self.brain, self.at, self.table, self.did = FleetController(), 0.0, None, []
        for name in names:
            self.on(ReplicaAdopted(ReplicaId(name), ModelId("inst"), Address("h", 1)))
        self.on(FleetConfigured({ModelId("inst"): spec}, FleetLimits()))

    def on(self, event):
        self.at += 1.0
        self.did = self.brain.on(event, self.at)
        for effect in self.did:
            if isinstance(effect, PublishRoutes):
                self.table = effect.table

    def load(self, requests, busy=()):
        """So many requests, at these replicas; twice, so that the window has passed."""
        did = []
        for _ in range(2):
            demand = ModelDemand(ModelId("inst"), 0, requests, requests, 0, 0, 0, 0, 0, 0.0, self.at)
            loads = tuple(
                ReplicaLoad(r.replica_id, int(r.replica_id in busy), 9 * (r.replica_id in busy))
                for r in self.table.routes
            )
            self.on(DemandReported(DemandReport("gateway", self.table.version, (demand,), loads)))
            did += self.did
        return did

    def warm(self):
        replicas = self.brain.state(self.at).models[0].replicas
        return [r.replica_id for r in sorted(replicas, key=lambda r: r.since_s) if r.state is State.WARM]

    def active(self):
        return [
            r.replica_id for r in self.brain.state(self.at).models[0].replicas if r.state is State.SERVING
        ]


def test_warm_pool():
    """The case begins with three warm ones beside the least of two: they have served and are idle again."""
    busy = POOL["steps"][0]["warm"]
    fleet = Pooled(busy)
    while busy:
        fleet.load(len(busy), busy)
        busy = busy[1:]
    fleet.load(0)
    assert fleet.warm() == POOL["steps"][0]["warm"]
    assert fleet.active() == POOL["steps"][0]["active"]

    for step in POOL["steps"][1:]:
        if step["do"] == "activate":
            busy = [*fleet.active()]
            did = fleet.load(len(busy) + 1, busy)
            assert [e.replica_id for e in did if isinstance(e, Promote)] == [step["gives"]]
        else:
            idle = step["do"].removeprefix("deactivate ")
            busy = [name for name in fleet.active() if name != idle]
            did = fleet.load(len(busy), busy)
            assert [e.replica_id for e in did if isinstance(e, Demote)] == [idle]
        assert fleet.warm() == step.get("warm", fleet.warm())
        assert len(fleet.active()) == step.get("active_count", len(fleet.active()))


def test_an_empty_pool_activates_nothing_and_a_full_one_takes_nothing_in():
    fleet = Pooled([])
    did = fleet.load(1)
    assert not [e for e in did if isinstance(e, Promote)]

    names = [f"inst-{number}" for number in range(6)]
    fleet = Pooled(names)
    fleet.load(6, names)
    did = fleet.load(0) + fleet.load(0)
    assert len([e for e in did if isinstance(e, Demote)]) == POOL["max_warm"]
    assert not [e for e in did if isinstance(e, Launch)]
    assert len(fleet.warm()) == POOL["max_warm"]
