"""The small parts of the simulator, each by itself."""

import math
from dataclasses import replace

import pytest

from tidegate.core.effects import Decision, Prediction, Record
from tidegate.core.outcomes import Outcome
from tidegate.core.tiers import Tier
from tidegate.core.types import DEFAULT_FLOW, ModelId, ReplicaId, RequestId
from tidegate.sim.chart import nice_slot, step_means
from tidegate.sim.faults import Fault, FaultKind
from tidegate.sim.machines import Inventory
from tidegate.sim.pace import Pace
from tidegate.sim.provision import Phase, Provision, Share
from tidegate.sim.scenario import Machines
from tidegate.sim.scraping import LatencyWindow
from tidegate.sim.summary import scale_steps, spread
from tidegate.sim.svg import nice_top, ticks, time_ticks
from tidegate.sim.tally import Tally

M = ModelId("m")
NOTHING = Prediction(0, 0, 0, 0.0)


def record(row, outcome=Outcome.COMPLETED, ttft_s=0.5, e2e_s=2.0, attempts=1, replica="m-1"):
    replica_id = ReplicaId(replica) if replica else None
    return Record(
        RequestId(str(row)), M, DEFAULT_FLOW, outcome, replica_id, attempts, 0.1, ttft_s, e2e_s, 10, 4
    )


# ---- faults ----


def test_a_fault_is_read_as_it_is_written():
    assert Fault.parse("slow:factor=3,at=600,for=300s") == Fault(
        kind=FaultKind.SLOW, at_s=600.0, for_s=300.0, factor=3.0
    )
    assert Fault.parse("slow:at=10m,for=1.5h") == Fault(kind=FaultKind.SLOW, at_s=600.0, for_s=5400.0)
    assert Fault.parse("leave:share=0,patience=500ms") == Fault(
        kind=FaultKind.LEAVE, share=0.0, patience_s=0.5
    )
    assert Fault.parse("hang:replica=0,health=1").health
    assert Fault.parse("kill") == Fault(kind=FaultKind.KILL)
    assert Fault.parse("hang:at=5").is_on(1e9)
    assert not Fault.parse("hang:at=5,for=2").is_on(7.0)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("explode", "allowed are kill, slow"),
        ("kill:when=3", "fault kill has no 'when'; allowed are at, replica"),
        ("kill:factor=3", "fault kill has no 'factor'; allowed are at, replica"),
        ("no-metrics:replica=1", "fault no-metrics has no 'replica'; allowed are at, for"),
        ("slow:factor=fast", "factor is 'fast'; it must be a number above 0"),
        ("slow:factor=0", "factor is '0'; it must be a number above 0"),
        ("slow:factor=inf", "factor is 'inf'; it must be a number above 0"),
        ("slow:factor=2,factor=3", "fault slow: factor is given twice"),
        ("slow:factor", "factor is ''; it must be a number above 0"),
        ("slow:at=-1", "at is '-1'; it must be seconds such as 600, or a duration such as 10m"),
        ("slow:for=0", "for is '0'; it must be more than 0, in seconds such as 600"),
        ("slow:replica=1.5", "replica is '1.5'; it must be a whole number from 0"),
        ("hang:health=yes", "health is 'yes'; it must be 0 or 1"),
        ("leave:share=2", "share is '2'; it must be a number from 0 to 1"),
    ],
)
def test_a_fault_that_cannot_be_read_says_what_is_allowed(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        Fault.parse(text)


# ---- the bill ----


def test_only_replicas_with_a_machine_are_paid_for():
    bill = Provision()
    share = Share(gpus=2, price_per_h=3.0)
    bill.move(ReplicaId("m-1"), Phase.WAITING, 0.0, share)
    bill.move(ReplicaId("m-1"), Phase.STARTING, 100.0, share)
    bill.move(ReplicaId("m-1"), Phase.SERVING, 400.0, share)
    bill.move(ReplicaId("m-1"), None, 1_900.0, share)

    assert bill.seconds == {
        Phase.WAITING: 100.0,
        Phase.STARTING: 300.0,
        Phase.SERVING: 1_500.0,
        Phase.DRAINING: 0.0,
        Phase.WARM: 0.0,
        Phase.SLEEPING: 0.0,
    }
    assert bill.gpu_seconds == 2 * 1_800.0
    assert bill.money == pytest.approx(1.5)
    assert bill.most == 1


def test_what_is_still_there_at_the_end_is_charged_up_to_it():
    bill = Provision()
    bill.move(ReplicaId("m-1"), Phase.SERVING, 10.0, Share(1, 3_600.0))
    bill.close(25.0)

    assert bill.money == pytest.approx(15.0)
    assert len(bill) == 0


def test_moves_of_one_moment_are_one_step_of_the_chart():
    bill = Provision()
    for number in range(3):
        bill.move(ReplicaId(f"m-{number}"), Phase.SERVING, 5.0, Share(0, 0.0))

    assert list(bill.at_s) == [5.0]
    assert list(bill.counts[Phase.SERVING]) == [3]


# ---- machines ----


def test_a_node_with_the_files_comes_before_one_without():
    inventory = Inventory(Machines(nodes=2, gpus_per_node=4))
    got = []
    inventory.take(2, M, got.append)
    inventory.take(4, ModelId("other"), got.append)
    got[0].has.add(M)
    inventory.give_back(got[1], 4)
    inventory.take(2, M, got.append)

    assert [node.number for node in got] == [1, 2, 1]
    assert got[0].tier_for(M) is Tier.CACHED
    assert got[1].tier_for(M) is Tier.COLD


def test_who_finds_no_room_is_served_in_order_when_there_is_some():
    inventory = Inventory(Machines(nodes=1, gpus_per_node=2))
    order, nodes = [], []
    inventory.take(2, M, nodes.append)
    inventory.take(1, M, lambda node: order.append("first"))

    def leaves(node):
        order.append("never")

    inventory.take(1, M, leaves)
    inventory.take(1, M, lambda node: order.append("second"))
    inventory.withdraw(leaves)
    assert order == []
    inventory.give_back(nodes[0], 2)

    assert order == ["first", "second"]


# ---- what became of requests ----


def test_who_got_no_answer_waited_for_ever():
    tally = Tally(3)
    tally.record(record(0))
    tally.record(record(1, Outcome.REJECTED_FULL, ttft_s=None, replica=None))
    tally.record(record(2, Outcome.FAILED_MIDSTREAM, attempts=3))

    assert list(tally.ttft_s) == [0.5, math.inf, 0.5]
    assert list(tally.e2e_s) == [2.0, math.inf, math.inf]
    assert list(tally.queue_wait_s) == [0.1, math.inf, 0.1]
    assert tally.retries == 2
    assert tally.counts() == {
        Outcome.COMPLETED: 1,
        Outcome.REJECTED_FULL: 1,
        Outcome.FAILED_MIDSTREAM: 1,
    }
    assert list(tally.tpot_s([4, 4, 4])) == [0.5, math.inf, math.inf]


def test_what_the_engine_refused_is_no_answer():
    tally = Tally(1)
    tally.record(replace(record(0), status=400))

    assert tally.counts() == {Outcome.REJECTED_TOO_LARGE: 1}
    assert tally.ttft_s[0] == math.inf


def test_an_answer_of_one_token_has_no_time_between_tokens():
    tally = Tally(1)
    tally.record(record(0, ttft_s=2.0))

    assert list(tally.tpot_s([1])) == [0.0]


def test_a_percentile_among_those_without_an_answer_is_none():
    found = spread([1.0] * 90 + [math.inf] * 10)

    assert found.mean == 1.0
    assert (found.p50, found.p90) == (1.0, 1.0)
    assert found.p95 is None
    assert spread([]).mean is None


def test_gaps_are_counted_by_the_tokens_that_came_after_them():
    pace = Pace()
    pace.add(0.010, 98)
    pace.add(0.200, 2)

    assert pace.percentile(0.5) == pytest.approx(0.010, rel=0.01)
    assert pace.percentile(0.99) == pytest.approx(0.200, rel=0.01)
    assert Pace().percentile(0.5) is None


def test_a_latency_window_forgets():
    window = LatencyWindow(60.0)
    window.ttft_s.add(0.0, 9.0)
    window.ttft_s.add(50.0, 1.0)

    assert window.summary(59.0, 1.0).ttft_p90_s == 9.0
    assert window.summary(60.0, 1.0).ttft_p90_s == 1.0
    assert window.summary(60.0, 2.0).ttft_p90_s == 2.0
    assert window.summary(200.0, 1.0).ttft_p90_s is None


# ---- decisions ----


def decided(at_s, before, desired):
    return at_s, Decision(M, desired, before, "", None, {}, NOTHING, NOTHING, NOTHING)


def test_a_step_soon_after_one_the_other_way_is_a_reversal():
    steps = [
        decided(0, 0, 1),
        decided(100, 1, 3),
        decided(500, 3, 2),
        decided(2_000, 2, 3),
        decided(2_100, 3, 3),
    ]

    assert scale_steps(steps) == (2, 1, 1)


# ---- drawings ----


def test_slots_have_lengths_that_people_like():
    assert nice_slot(3_600.0, 300) == 15.0
    assert nice_slot(14 * 86_400.0, 300) == 7_200.0
    assert nice_slot(1.0, 300) == 1.0


def test_the_mean_of_a_step_function_over_each_slot():
    assert step_means([0.0, 5.0, 20.0], [2, 4, 0], 10.0, 3, 25.0) == [3.0, 4.0, 0.0]


def test_axes_have_round_numbers():
    assert ticks(0.0, 10.0) == [0.0, 5.0, 10.0]
    assert nice_top(7.3) == 8.0
    assert [label for _, label in time_ticks(3_600.0)][:3] == ["0 min", "5 min", "10 min"]
    assert all(at_s <= 90.0 for at_s, _ in time_ticks(90.0))
