from dataclasses import replace

import msgspec
import pytest

from browser.fake_fleet import FakeFleet, model, replica
from tidegate.config.settings import ModelSettings
from tidegate.core.effects import Decision, Launch, Record
from tidegate.core.events import DemandReported, FleetConfigured, ReplicaSeen, ScaledByHand
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Gpu, Node
from tidegate.core.outcomes import Outcome
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import DispatchConfig, FleetLimits, FleetModel, SpillBounds
from tidegate.core.types import (
    DEFAULT_FLOW,
    Address,
    DemandReport,
    LatencySummary,
    ModelDemand,
    ReplicaLoad,
)
from tidegate.dashboard import LatencyWindow, Ledger, decision_page, fleet_page
from tidegate.dashboard.history import RATE_SPAN_POINTS, SPAN_POINTS, History
from tidegate.dashboard.page import SpillPage

QWEN = ModelSettings(
    model="qwen",
    dispatch=DispatchConfig(),
    fleet=FleetModel(engine="vllm", slots=8, scaling=Scaling(min_replicas=0, max_replicas=4)),
    spec=None,
)


def report(*, in_flight=10, queued=3, loads=()):
    demand = ModelDemand(
        model="qwen",
        queued=queued,
        in_flight=in_flight,
        peak=queued + in_flight,
        queued_tokens=900,
        in_flight_tokens=4000,
        arrivals_total=50,
        ended_total=37,
        output_tokens_total=5000,
        oldest_wait_s=1.5,
        last_active_s=99.0,
        latency=LatencySummary(5, 0.2, 0.4, 2.0, 3.0),
    )
    return DemandReport(gateway="gw", route_version=1, models=(demand,), replicas=tuple(loads))


def test_a_real_controller_and_a_real_report_become_the_page():
    controller = FleetController()
    controller.on(FleetConfigured({"qwen": QWEN.fleet}, FleetLimits()), 100.0)
    effects = controller.on(DemandReported(report()), 101.0)
    first, second = (effect for effect in effects if isinstance(effect, Launch))
    (made,) = (effect for effect in effects if isinstance(effect, Decision))
    controller.on(ReplicaSeen(first.replica_id, Seen.READY, Address("127.0.0.1", 9001)), 102.0)
    told = report(loads=[ReplicaLoad(first.replica_id, 8, 3200)])

    page = fleet_page(
        controller.state(103.0),
        Ledger.of(told),
        {"qwen": QWEN},
        gateway="http://g",
        outcomes={"completed": 1},
    )

    (qwen,) = page.models
    assert (qwen.id, qwen.desired, qwen.in_flight, qwen.max_replicas) == ("qwen", 2, 10, 4)
    assert (qwen.queue.requests, qwen.queue.tokens, qwen.queue.oldest_wait_s) == (3, 900, 1.5)
    assert qwen.latency.ttft_p95_s == 0.4
    serving, starting = qwen.replicas
    assert (serving.id, serving.address, serving.in_flight, serving.tokens) == (
        first.replica_id,
        "127.0.0.1:9001",
        8,
        3200,
    )
    assert serving.leaves_at_s is None
    assert (starting.id, starting.address, starting.slots) == (second.replica_id, None, 8)
    assert msgspec.json.decode(msgspec.json.encode(page))["models"][0]["replicas"][0]["state"] == "serving"
    shown = decision_page(101.0, made)
    assert (shown.before, shown.desired, shown.because) == (0, 2, made.because)
    assert (shown.fewer.replicas, shown.more.replicas) == (1, 3)


def test_what_is_spilt_and_what_was_set_by_hand_stand_on_the_page():
    spilling = replace(QWEN, dispatch=DispatchConfig(spill=SpillBounds(max_cost_per_h=5.0)))
    controller = FleetController()
    controller.on(FleetConfigured({"qwen": QWEN.fleet}, FleetLimits()), 100.0)
    controller.on(ScaledByHand("qwen", 2, 60.0, at_least=True), 101.0)
    told = report()
    counts = {"spilt_total": 9, "spilt_in_flight": 2, "spilt_cost_total": 1.5, "spilt_cost_last_h": 0.75}
    told = replace(told, models=(replace(told.models[0], **counts),))

    (qwen,) = fleet_page(controller.state(102.0), Ledger.of(told), {"qwen": spilling}, gateway="").models
    assert qwen.spill == SpillPage(2, 9, 1.5, 0.75, 5.0)
    shown = msgspec.json.decode(msgspec.json.encode(qwen))
    assert shown["hand"] == {
        "replicas": 2,
        "since_s": 101.0,
        "until_s": 161.0,
        "at_least": True,
        "asked": None,
    }
    (plain,) = fleet_page(controller.state(102.0), Ledger.of(told), {"qwen": QWEN}, gateway="").models
    assert plain.spill is None


def test_each_replica_says_on_which_gpus_it_stands():
    spec = replace(QWEN.fleet, gpus=2)
    nodes = (Node("n1", (Gpu(0), Gpu(1), Gpu(2))),)
    controller = FleetController()
    controller.on(FleetConfigured({"qwen": spec}, FleetLimits(), nodes), 100.0)
    controller.on(DemandReported(report()), 101.0)

    (qwen,) = fleet_page(controller.state(102.0), Ledger.of(report()), {"qwen": QWEN}, gateway="").models
    assert [(replica.node, replica.gpus) for replica in qwen.replicas] == [("n1", (0, 1))]
    assert (qwen.desired, qwen.held_by) == (1, "fleet.gpus")


def test_before_the_first_report_the_page_says_what_the_controller_knows():
    controller = FleetController()
    controller.on(FleetConfigured({"qwen": QWEN.fleet}, FleetLimits()), 100.0)

    (qwen,) = fleet_page(controller.state(100.0), Ledger.of(None), {"qwen": QWEN}, gateway="").models

    assert (qwen.desired, qwen.in_flight, qwen.queue.requests) == (0, 0, 0)
    assert qwen.latency.ttft_p50_s is None


def test_given_latency_goes_before_the_reports_own():
    ledger = Ledger.of(report(), {"qwen": LatencySummary(3, ttft_p50_s=0.9)})

    assert ledger.latency["qwen"].ttft_p50_s == 0.9


def page_at(at_s, arrivals):
    fleet = FakeFleet(model("qwen", replica("qwen-1", in_flight=2), arrivals_total=arrivals, queued=1))
    return replace(fleet.fleet(), at_s=at_s)


def test_rates_are_the_growth_of_totals_over_ten_seconds():
    history = History()
    for second in range(30):
        history.add(page_at(100.0 + second, 4 * second if second < 20 else 76))

    rates = [point.requests_per_s for point in history.all()["qwen"]]
    assert rates[0] is None
    assert rates[1:20] == [4.0] * 19
    assert rates[RATE_SPAN_POINTS + 19 :] == [0.0]
    assert history.newest()["qwen"].demand == 3


def test_a_total_that_began_anew_gives_no_rate():
    history = History()
    history.add(page_at(100.0, 500))
    history.add(page_at(101.0, 3))

    assert history.newest()["qwen"].requests_per_s is None


def test_history_keeps_five_minutes_and_only_models_that_still_exist():
    history = History()
    for second in range(SPAN_POINTS + 50):
        history.add(page_at(float(second), 0))
    assert [point.at_s for point in history.all()["qwen"]][:1] == [50.0]
    assert len(history.all()["qwen"]) == SPAN_POINTS

    history.add(replace(FakeFleet(model("other")).fleet(), at_s=500.0))
    assert list(history.all()) == ["other"]


def ended(model_id, ttft_s):
    return Record(
        request_id="r",
        model=model_id,
        flow=DEFAULT_FLOW,
        outcome=Outcome.COMPLETED,
        replica_id="qwen-1",
        attempts=1,
        queued_s=0.0,
        ttft_s=ttft_s,
        e2e_s=1.0,
        prompt_tokens=5,
        output_tokens=5,
    )


def test_latency_covers_the_last_ten_seconds_and_forgets_what_is_older():
    window = LatencyWindow()
    window.record(ended("qwen", 9.0), 100.0)
    for number in range(1, 101):
        window.record(ended("qwen", number / 100), 105.0)
    window.record(ended("qwen", None), 105.0)

    assert window.summaries(110.0)["qwen"].samples == 101
    later = window.summaries(110.5)["qwen"]
    assert (later.samples, later.ttft_p50_s, later.ttft_p95_s) == (
        100,
        pytest.approx(0.5),
        pytest.approx(0.95),
    )
    assert window.summaries(116.0) == {}
