"""Stories about requests that go to a pay-per-token upstream: who, for how much, and what becomes of them."""

import pytest

from tidegate.core.effects import CancelUpstream, Record, Reject, Spill, WakeAt
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    ModelsConfigured,
    SpillsRestored,
    StopBegun,
    Tick,
    TokensSent,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import DispatchConfig, QueueLimits, SpillBounds
from unit.core.dispatch.dispatch_world import World, outcomes, rejected, sent

PRICED = SpillBounds(prompt_price=0.001, output_price=0.01, max_cost_per_h=100.0, max_in_flight=4)
"""A prompt of 100 tokens costs 0.1, an answer of 10 another 0.1."""


def full(spill=PRICED, **config):
    """One replica with one slot, which is taken, and a queue of one, which is taken too."""
    world = World(spill=spill, **({"queue": QueueLimits(max_requests=1)} | config))
    world.table(0, ("m-1", 1))
    world.ask("runs", 0.0)
    world.ask("waits", 0.0)
    return world


def spilt(effects):
    return [effect.request_id for effect in effects if isinstance(effect, Spill)]


def record_of(effects):
    (record,) = [effect for effect in effects if isinstance(effect, Record)]
    return record


def stats(world, now_s):
    return world.dispatcher.spill_stats(now_s)["m"]


def test_who_finds_no_room_is_spilt_and_is_back_for_what_it_used():
    world = full()
    (order, *_) = world.ask("over", 1.0, output=50)
    assert isinstance(order, Spill)
    assert order.max_cost == pytest.approx(0.1 + 0.5)
    assert "the queue is full" in order.because

    world.on(FirstByte("over", order.replica_id), 2.0)
    record = record_of(world.on(UpstreamEnded("over", 200, 120, None, 10, order.replica_id), 4.0))
    assert record.outcome is Outcome.COMPLETED
    assert record.spilt_cost == pytest.approx(0.12 + 0.1), "its own count of the prompt, not our estimate"
    assert (record.ttft_s, record.output_tokens) == (1.0, 10)
    assert world.dispatcher.open_requests == 2


def test_nobody_is_spilt_who_has_a_place_here():
    world = full(queue=QueueLimits(max_requests=10))
    assert spilt(world.ask("second", 1.0)) == []
    assert sent(world.on(UpstreamEnded("runs", 200, 100, 0, 5), 2.0)) == [("waits", "m-1")]


def test_without_an_upstream_it_is_refused():
    world = full(spill=None)
    assert rejected(world.ask("over", 1.0)).outcome is Outcome.REJECTED_FULL


def test_it_is_spilt_when_nobody_can_be_started_and_when_a_start_would_end_too_late():
    world = World(spill=PRICED)
    world.table(0, can_serve=False, because="fleet.max_cost leaves no room")
    assert spilt(world.ask("a", 1.0)) == ["a"]
    world.table(2, expected_ready_s=300.0)
    assert spilt(world.ask("b", 3.0, deadline_s=60.0)) == ["b"]
    assert spilt(world.ask("c", 3.0, deadline_s=1_000.0, output=3)) == [], "it can wait for the start"
    assert spilt(world.table(4, can_serve=False, because="it failed 5 times")) == ["c"]


def test_at_a_cap_the_lower_class_is_spilt_that_would_be_shed():
    world = World(spill=PRICED)
    world.table(0, ("m-1", 1), sheds=True)
    world.ask("runs", 0.0)
    world.ask("high", 1.0, priority=1)
    assert spilt(world.ask("low", 2.0)) == ["low"]


def test_only_classes_that_are_worth_money_are_spilt():
    world = full(spill=SpillBounds(from_priority=1))
    assert rejected(world.ask("batch", 1.0)).outcome is Outcome.REJECTED_FULL
    world.ask("high", 1.5, priority=1)  # it takes the place of the one that waited
    assert spilt(world.ask("another", 2.0, priority=1)) == ["another"]


def test_what_may_not_leave_the_house_or_is_no_plain_model_stays():
    world = full()
    assert rejected(world.ask("private", 1.0, may_spill=False)).outcome is Outcome.REJECTED_FULL
    assert rejected(world.ask("tuned", 1.0, adapter="legal")).outcome is Outcome.REJECTED_FULL


def test_a_request_without_time_for_an_answer_is_not_paid_for():
    world = full()
    assert spilt(world.ask("late", 1.0, deadline_s=1.9)) == []
    assert spilt(world.ask("in time", 1.0, deadline_s=3.0)) == ["in time"]


def test_no_more_are_in_flight_there_than_the_policy_allows():
    world = full()
    assert [spilt(world.ask(f"s{n}", 1.0)) for n in range(5)] == [["s0"], ["s1"], ["s2"], ["s3"], []]
    assert stats(world, 1.0).held_total == (("max_in_flight", 1),)
    world.on(UpstreamEnded("s0", 200, 100, None, 5), 2.0)
    assert spilt(world.ask("s5", 3.0)) == ["s5"]


def test_the_money_of_an_hour_is_a_cap_and_not_a_mean():
    """0.6 is reserved for each; what has been used gives the rest back, and leaves the hour an hour later."""
    world = full(spill=SpillBounds(prompt_price=0.001, output_price=0.01, max_cost_per_h=1.0))
    assert spilt(world.ask("a", 0.0, output=50)) == ["a"]
    assert spilt(world.ask("b", 1.0, output=50)) == [], "0.6 and 0.6 could be 1.2"
    world.on(UpstreamEnded("a", 200, 100, None, 40), 30.0)  # 0.5 in fact
    assert spilt(world.ask("c", 31.0, output=30)) == ["c"]  # 0.4 more
    world.on(UpstreamEnded("c", 200, 100, None, 30), 40.0)
    assert spilt(world.ask("d", 3_500.0, output=30, deadline_s=9_000.0)) == []
    assert stats(world, 3_500.0).cost_last_h == pytest.approx(0.9)
    assert spilt(world.ask("e", 3_700.0, output=30, deadline_s=9_000.0)) == ["e"]
    assert stats(world, 3_700.0).held_total == (("max_cost", 2),)


def test_an_answer_that_is_longer_than_was_reserved_for_takes_more_of_the_hour_while_it_comes():
    """Without a limit 10 tokens are reserved, 0.2 with the prompt; 70 have come, for 0.8."""
    bounds = SpillBounds(prompt_price=0.001, output_price=0.01, max_cost_per_h=1.0, output_tokens=10)
    world = full(spill=bounds)
    world.ask("long", 0.0)
    world.on(FirstByte("long"), 1.0)
    assert stats(world, 1.0).cost_last_h == pytest.approx(0.2)
    world.on(TokensSent("long", 70), 5.0)
    assert stats(world, 5.0).cost_last_h == pytest.approx(0.8)
    assert spilt(world.ask("next", 6.0, output=20)) == []


def test_when_the_day_s_money_is_spent_nobody_is_spilt():
    world = full()
    world.table(1, ("m-1", 1), may_spill=False)
    assert rejected(world.ask("over", 2.0)).outcome is Outcome.REJECTED_FULL
    assert stats(world, 2.0).held_total == (("fleet.max_cost_per_day", 1),)


def test_an_hour_goes_on_after_a_restart():
    before = full(spill=SpillBounds(prompt_price=0.001, output_price=0.01, max_cost_per_h=1.0))
    before.ask("a", 0.0, output=50)
    before.on(UpstreamEnded("a", 200, 100, None, 50), 10.0)
    before.ask("b", 11.0, output=20)
    kept = before.dispatcher.spilt_minutes(20.0)

    after = full(spill=SpillBounds(prompt_price=0.001, output_price=0.01, max_cost_per_h=1.0))
    after.on(SpillsRestored(kept | {"gone": ((5.0, 1.0),)}), 0.5)
    assert stats(after, 0.5).cost_last_h == pytest.approx(0.9), "what was in flight counts as spent"
    assert spilt(after.ask("c", 1.0, output=1)) == []


def test_what_fails_there_ends_as_it_would_have_ended_here_and_goes_nowhere_else():
    world = full()
    world.ask("over", 1.0)
    effects = world.on(UpstreamFailed("over", Failure.BUSY, 429), 3.0)
    (order,) = [effect for effect in effects if isinstance(effect, Reject)]
    assert order.outcome is Outcome.REJECTED_FULL
    assert "the queue is full" in order.because
    assert "the upstream failed: engine says busy" in order.because
    assert order.retry_after_s is not None
    assert record_of(effects).spilt_cost == 0.0
    assert record_of(effects).status == 429


def test_told_that_it_is_too_much_the_upstream_is_left_alone_for_longer_each_time():
    """1 s the first time, 2 s the second; after a rest one request goes first."""
    world = full()
    world.ask("a", 10.0)
    world.on(UpstreamFailed("a", Failure.BUSY, 429), 10.0)
    assert spilt(world.ask("b", 10.9)) == []
    assert stats(world, 10.9).held_total == (("upstream", 1),)
    assert spilt(world.ask("c", 11.0)) == ["c"]
    assert spilt(world.ask("d", 11.1)) == [], "the first has not come back yet"
    world.on(UpstreamFailed("c", Failure.BUSY, 429), 11.2)
    assert spilt(world.ask("e", 13.1)) == []
    assert spilt(world.ask("f", 13.2)) == ["f"]
    world.on(FirstByte("f"), 13.5)
    assert spilt(world.ask("g", 13.6)) == ["g"]
    assert spilt(world.ask("h", 13.6)) == ["h"]


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_wrong_key_or_name_is_not_tried_with_every_request(status):
    world = full()
    world.ask("a", 10.0)
    world.on(UpstreamFailed("a", Failure.ERROR, status), 10.0)
    assert spilt(world.ask("b", 10.5)) == []


def test_an_answer_that_breaks_off_there_is_paid_for_as_far_as_it_came():
    world = full()
    world.ask("over", 1.0)
    world.on(FirstByte("over"), 2.0)
    world.on(TokensSent("over", 30), 3.0)
    effects = world.on(UpstreamFailed("over", Failure.CUT), 4.0)
    assert record_of(effects).outcome is Outcome.FAILED_MIDSTREAM
    assert record_of(effects).spilt_cost == pytest.approx(0.1 + 0.3)


def test_a_client_that_leaves_is_cancelled_there():
    world = full()
    (order, *_) = world.ask("over", 1.0, output=50)
    effects = world.on(ClientGone("over"), 2.0)
    assert CancelUpstream("over", order.replica_id) in effects
    assert record_of(effects).spilt_cost == pytest.approx(0.1), "its prompt; no token had come"
    (order, *_) = world.ask("whole", 3.0, output=50, streams=False)
    effects = world.on(ClientGone("whole"), 4.0)
    assert record_of(effects).spilt_cost == pytest.approx(0.6), "the answer may have been written already"


def test_its_deadline_holds_there_too():
    world = full()
    (order, *_) = world.ask("over", 1.0, deadline_s=5.0)
    effects = world.on(Tick(), 5.0)
    assert CancelUpstream("over", order.replica_id) in effects
    assert ("over", Outcome.EXPIRED_RUNNING) in outcomes(effects)


def test_a_gateway_that_stops_spills_nobody():
    world = full()
    world.on(StopBegun(30.0), 1.0)
    assert rejected(world.ask("over", 2.0)).outcome is Outcome.REJECTED_STOPPING


def test_its_own_error_of_a_client_costs_nothing():
    world = full()
    world.ask("over", 1.0)
    record = record_of(world.on(UpstreamEnded("over", 400), 2.0))
    assert (record.outcome, record.status, record.spilt_cost) == (Outcome.COMPLETED, 400, 0.0)


def test_an_answer_without_a_count_is_paid_for_as_the_longest_that_it_may_be():
    world = full()
    world.ask("over", 1.0, output=50, streams=False)
    assert record_of(world.on(UpstreamEnded("over", 200), 2.0)).spilt_cost == pytest.approx(0.6)
    world.ask("vector", 3.0, streams=False)
    assert record_of(world.on(UpstreamEnded("vector", 200, 90), 4.0)).spilt_cost == pytest.approx(0.09)


def test_to_the_controller_it_is_demand_that_was_not_served():
    world = full()
    world.report(0.5)
    world.ask("over", 1.0)
    during = world.report(1.5).models[0]
    assert (during.refused_total, during.spilt_total, during.spilt_in_flight) == (1, 1, 1)
    assert (during.queued, during.in_flight, during.peak) == (1, 1, 3)
    world.on(FirstByte("over"), 1.6)
    world.on(UpstreamEnded("over", 200, 100, None, 40), 2.0)
    after = world.report(2.5).models[0]
    assert (after.refused_total, after.ended_total, after.output_tokens_total) == (1, 1, 0)
    assert after.spilt_cost_total == pytest.approx(0.5)
    assert after.latency.samples == 0, "how fast others are says nothing of our replicas"


def test_who_was_told_a_time_to_come_back_and_is_spilt_keeps_no_place():
    world = full()
    world.ask("over", 1.0)
    world.on(UpstreamEnded("runs", 200, 100, 0, 5), 1.5)  # "waits" goes, and its place is free
    effects = world.ask("newcomer", 2.0, body=999)
    assert (spilt(effects), outcomes(effects)) == ([], [])


class TestMaxWait:
    """``max_wait``: who would wait longer for a replica is spilt, though there is room to wait."""

    def test_a_start_that_takes_longer(self):
        world = World(spill=SpillBounds(max_wait_s=5.0))
        world.table(0, expected_ready_s=60.0)
        (order, *_) = world.ask("a", 1.0)
        assert isinstance(order, Spill)
        assert order.because == "the wait is expected to be 59.0 s"
        world.table(50, expected_ready_s=60.0)
        assert spilt(world.ask("b", 56.0)) == []

    def test_a_wait_that_nobody_foresaw(self):
        world = World(spill=SpillBounds(max_wait_s=5.0))
        world.table(0, ("m-1", 1))
        world.ask("runs", 0.0)
        world.ask("a", 1.0)
        world.ask("b", 3.0)
        assert spilt(world.on(Tick(), 5.9)) == []
        assert spilt(world.on(Tick(), 6.0)) == ["a"]
        assert spilt(world.on(Tick(), 8.0)) == ["b"]
        assert world.report(9.0).models[0].queued == 0

    def test_it_asks_to_be_woken_in_time(self):
        world = World(spill=SpillBounds(max_wait_s=5.0))
        world.table(0, ("m-1", 1))
        world.ask("runs", 0.0)
        assert WakeAt(6.0) in world.ask("a", 1.0)
        world.ask("b", 3.0)
        assert WakeAt(8.0) in world.on(Tick(), 6.0)

    def test_whoever_may_not_go_keeps_nobody_behind_it(self):
        world = World(spill=SpillBounds(max_wait_s=5.0))
        world.table(0, ("m-1", 1))
        world.ask("runs", 0.0)
        assert WakeAt(6.0) not in world.ask("stays", 1.0, may_spill=False)
        assert WakeAt(8.0) in world.ask("a", 3.0)
        world.ask("b", 4.0)
        effects = world.on(Tick(), 8.0)
        assert spilt(effects) == ["a"]
        assert WakeAt(9.0) in effects
        assert spilt(world.on(Tick(), 9.0)) == ["b"]

    def test_whom_a_bound_keeps_goes_soon_after_it_gives(self):
        world = World(spill=SpillBounds(max_wait_s=5.0, max_in_flight=1))
        world.table(0, ("m-1", 1))
        world.ask("runs", 0.0)
        world.ask("a", 1.0)
        world.ask("b", 1.0)
        assert WakeAt(8.0) in world.on(Tick(), 7.0), "a is there, and b may not be"
        world.on(UpstreamEnded("a", 200, 100, None, 5), 7.5)
        assert spilt(world.on(Tick(), 8.0)) == ["b"]

    def test_none_at_all_goes_at_once(self):
        world = World(spill=SpillBounds(max_wait_s=0.0))
        world.table(0, ("m-1", 1))
        world.ask("runs", 0.0)
        (order, *_) = world.ask("a", 1.0)
        assert (order.request_id, order.because) == ("a", "no replica is free")

    def test_beyond_its_bounds_who_waits_goes_on_waiting(self):
        world = World(spill=SpillBounds(max_wait_s=5.0, max_in_flight=1))
        world.table(0, ("m-1", 1))
        world.ask("runs", 0.0)
        world.ask("a", 1.0)
        world.ask("b", 1.0)
        assert spilt(world.on(Tick(), 7.0)) == ["a"]
        assert outcomes(world.on(Tick(), 30.0)) == []
        assert sent(world.on(UpstreamEnded("runs", 200, 100, 0, 5), 31.0)) == [("b", "m-1")]


def test_a_change_of_prices_holds_for_who_is_sent_after_it():
    world = full()
    world.ask("over", 1.0, output=10)
    dearer = SpillBounds(prompt_price=1.0, output_price=1.0)
    world.configure(DispatchConfig(spill=dearer, queue=QueueLimits(max_requests=1)), 2.0)
    record = record_of(world.on(UpstreamEnded("over", 200, 100, None, 10), 3.0))
    assert record.spilt_cost == pytest.approx(0.2)


def test_a_model_that_goes_and_comes_back_has_not_got_its_money_back():
    bounds = SpillBounds(prompt_price=0.001, output_price=0.01, max_cost_per_h=1.0)
    world = full(spill=bounds)
    world.ask("a", 0.0, output=50)
    world.on(ModelsConfigured({}), 1.0)
    world.on(UpstreamEnded("a", 200, 100, None, 50), 2.0)
    world.configure(DispatchConfig(spill=bounds), 3.0)
    world.table(3.5, can_serve=False)
    assert spilt(world.ask("b", 4.0, output=40)) == []
    assert stats(world, 4.0).cost_last_h == pytest.approx(0.6)
