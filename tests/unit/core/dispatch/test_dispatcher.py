"""Stories about requests on their way through the dispatcher. Times are seconds from the start."""

from tidegate.core.effects import CancelUpstream, Record, Report, Resume, WakeAt
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    ModelsConfigured,
    StopBegun,
    Tick,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.lifecycle import State
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import DispatchConfig, QueueLimits, Routing
from unit.core.dispatch.dispatch_world import World, outcomes, rejected, sent


def test_a_request_at_zero_replicas_waits_and_is_sent_the_moment_a_replica_is_ready():
    world = World()
    world.table(0)

    first = world.ask("a", 1.0)
    assert sent(first) == []
    (told,) = [e for e in first if isinstance(e, Report)]
    assert told.report.models[0].queued == 1  # the controller hears of it at once, not at the next report

    assert sent(world.table(3.0, ("m-1", 8, State.STARTING))) == []
    assert sent(world.table(5.0, ("m-1", 8))) == [("a", "m-1")]


def test_a_new_replica_gets_the_first_in_line_up_to_its_slots_and_the_rest_wait_in_order():
    world = World()
    world.table(0)
    for name in "abcdef":
        world.ask(name, 1.0)

    assert sent(world.table(2.0, ("m-1", 2))) == [("a", "m-1"), ("b", "m-1")]
    assert sent(world.on(UpstreamEnded("b", 200), 3.0)) == [("c", "m-1")]
    assert sent(world.table(4.0, ("m-1", 2), ("m-2", 2))) == [("d", "m-2"), ("e", "m-2")]
    assert sent(world.on(UpstreamEnded("a", 200), 5.0)) == [("f", "m-1")]


def test_a_burst_never_takes_more_than_the_slots_of_each_replica():
    world = World()
    world.table(0, ("m-1", 8), ("m-2", 8), ("m-3", 8), ("m-4", 8))

    at = [place for n in range(400) for _, place in sent(world.ask(f"r{n}", 1.0))]

    assert len(at) == 32
    assert {name: at.count(name) for name in set(at)} == {f"m-{n}": 8 for n in range(1, 5)}
    assert {load.in_flight for load in world.report(1.0).replicas} == {8}


def test_someone_who_came_later_never_passes_the_queue():
    world = World()
    world.table(0, ("m-1", 1))
    assert sent(world.ask("a", 0.0)) == [("a", "m-1")]
    world.ask("b", 1.0)

    ended = world.on(UpstreamEnded("a", 200), 2.0)

    assert sent(ended) == [("b", "m-1")]
    assert sent(world.ask("c", 2.0)) == []


def test_a_higher_priority_goes_first_and_equals_keep_the_order_of_arrival():
    world = World()
    world.table(0)
    world.ask("low", 1.0)
    world.ask("high-1", 2.0, priority=5)
    world.ask("high-2", 3.0, priority=5)

    assert sent(world.table(4.0, ("m-1", 3))) == [("high-1", "m-1"), ("high-2", "m-1"), ("low", "m-1")]


def test_a_full_queue_turns_away_with_the_bound_and_a_time_to_come_back():
    world = World(queue=QueueLimits(max_requests=2, max_tokens=1_000, max_bytes=10_000))
    world.table(0, ("m-1", 1))
    world.ask("seated", 0.0)
    world.ask("a", 0.0)
    world.ask("b", 0.0)

    third = world.ask("c", 0.0)

    assert outcomes(third) == [("c", Outcome.REJECTED_FULL)]
    assert "max_requests is 2" in rejected(third).because
    assert rejected(third).retry_after_s >= 1.0


def test_the_queue_is_bounded_in_tokens_and_in_bytes_too():
    world = World(queue=QueueLimits(max_requests=100, max_tokens=1_000, max_bytes=10_000))
    world.table(0)
    world.ask("a", 0.0, tokens=600, output=300, body=4_000)

    assert "max_tokens is 1000" in rejected(world.ask("b", 0.0, tokens=101)).because
    assert "max_bytes is 10000" in rejected(world.ask("c", 0.0, tokens=10, body=6_001)).because
    assert outcomes(world.ask("d", 0.0, tokens=100, body=6_000)) == []


def test_the_time_to_come_back_follows_from_how_fast_the_queue_drains():
    world = World(queue=QueueLimits(max_requests=40))
    world.table(0, ("m-1", 1))
    world.ask("r0", 0.0)
    for n in range(1, 41):
        world.ask(f"r{n}", 0.0)
    for n in range(10):  # one a second
        world.on(UpstreamEnded(f"r{n}", 200), float(n + 1))
        world.ask(f"more{n}", float(n + 1))

    refused = rejected(world.ask("late", 10.0))

    assert refused.outcome is Outcome.REJECTED_FULL
    assert 15.0 <= refused.retry_after_s <= 25.0  # half of 40 at about one a second


def test_when_nobody_can_ever_serve_waiting_requests_are_told_why_at_once():
    world = World()
    world.table(0)
    world.ask("a", 1.0)

    effects = world.table(2.0, can_serve=False, because="the engine exits with code 1", expected_ready_s=12.0)

    order = rejected(effects)
    assert order.outcome is Outcome.REJECTED_NOBODY
    assert "the engine exits with code 1" in order.because
    assert order.retry_after_s == 10.0
    assert rejected(world.ask("b", 3.0)).outcome is Outcome.REJECTED_NOBODY


def test_a_model_that_is_not_configured_is_unknown_and_one_at_zero_is_not():
    world = World()
    world.table(0)

    assert rejected(world.ask("a", 0.0, model="x")).outcome is Outcome.REJECTED_UNKNOWN_MODEL
    assert outcomes(world.ask("b", 0.0)) == []


def test_before_the_first_table_requests_wait_and_are_not_refused():
    world = World()

    assert outcomes(world.ask("a", 0.0)) == []
    assert sent(world.table(1.0, ("m-1", 1))) == [("a", "m-1")]


def test_a_deadline_ends_a_request_in_the_queue_at_that_moment():
    world = World()
    world.table(0)

    asked = world.ask("a", 1.0, deadline_s=5.0)

    assert WakeAt(5.0) in asked
    assert outcomes(world.on(Tick(), 4.9)) == []
    assert outcomes(world.on(Tick(), 5.0)) == [("a", Outcome.EXPIRED_NOBODY)]


def test_a_deadline_ends_a_running_request_and_stops_the_engine():
    world = World()
    world.table(0, ("m-1", 1))
    world.ask("a", 0.0, deadline_s=5.0)
    world.on(FirstByte("a"), 1.0)

    effects = world.on(Tick(), 5.5)

    assert effects[0] == CancelUpstream("a", "m-1")
    assert outcomes(effects) == [("a", Outcome.EXPIRED_RUNNING)]
    assert world.dispatcher.open_requests == 0


def test_a_client_that_leaves_gives_its_place_back_in_every_phase():
    world = World()
    world.table(0, ("m-1", 2))
    world.ask("streams", 0.0)
    world.on(FirstByte("streams"), 0.5)
    world.ask("waits for its first byte", 0.0)
    world.ask("queued", 0.0)
    world.ask("next", 0.0)

    assert world.on(ClientGone("queued"), 1.0)[0].outcome is Outcome.CLIENT_GONE
    gone = world.on(ClientGone("streams"), 1.0)
    assert gone[0] == CancelUpstream("streams", "m-1")
    assert sent(gone) == [("next", "m-1")]
    world.on(ClientGone("waits for its first byte"), 1.0)
    world.on(ClientGone("next"), 1.0)
    assert world.dispatcher.open_requests == 0
    assert world.report(2.0).replicas[0].in_flight == 0


def test_a_replica_that_dies_before_the_first_byte_hands_its_requests_to_another():
    world = World()
    world.table(0, ("m-1", 2))
    world.ask("a", 0.0)
    world.table(1.0, ("m-1", 2), ("m-2", 2))

    assert sent(world.on(UpstreamFailed("a", Failure.CUT), 2.0)) == [("a", "m-2")]


def test_after_the_first_byte_nothing_is_sent_again():
    world = World()
    world.table(0, ("m-1", 2), ("m-2", 2))
    world.ask("a", 0.0)
    world.on(FirstByte("a"), 1.0)

    effects = world.on(UpstreamFailed("a", Failure.CUT), 2.0)

    assert sent(effects) == []
    assert outcomes(effects) == [("a", Outcome.FAILED_MIDSTREAM)]


def test_a_retry_keeps_its_place_in_front_of_those_who_came_later():
    world = World()
    world.table(0, ("m-1", 1), ("m-2", 1))
    world.ask("first", 0.0)
    world.ask("second", 0.0)
    world.ask("third", 0.0)
    world.on(UpstreamFailed("first", Failure.CUT), 1.0)

    assert sent(world.on(UpstreamEnded("second", 200), 1.1)) == [("first", "m-2")]


def test_attempts_are_bounded_and_the_end_says_what_went_wrong():
    world = World(max_retries=2)
    world.table(0, ("m-1", 1), ("m-2", 1), ("m-3", 1), ("m-4", 1))
    world.ask("a", 0.0)

    assert sent(world.on(UpstreamFailed("a", Failure.REFUSED), 0.1)) == [("a", "m-2")]
    assert sent(world.on(UpstreamFailed("a", Failure.REFUSED), 0.2)) == [("a", "m-3")]
    last = world.on(UpstreamFailed("a", Failure.REFUSED), 0.3)
    assert outcomes(last) == [("a", Outcome.FAILED_ENGINE)]
    assert "3 tried: connection refused" in rejected(last).because


def test_a_replica_that_refused_rests_for_a_second_and_is_then_used_again():
    world = World()
    world.table(0, ("m-1", 1))
    world.ask("a", 0.0)

    failed = world.on(UpstreamFailed("a", Failure.REFUSED), 1.0)
    assert WakeAt(2.0) in failed
    assert sent(failed) == []
    assert sent(world.on(Tick(), 1.9)) == []
    assert sent(world.on(Tick(), 2.0)) == [("a", "m-1")]


def test_an_engine_that_says_busy_costs_no_attempt():
    world = World(max_retries=0)
    world.table(0, ("m-1", 1))
    world.ask("a", 0.0)
    now_s = 0.0
    for _ in range(5):
        assert outcomes(world.on(UpstreamFailed("a", Failure.BUSY), now_s)) == []
        now_s += 1.0
        assert sent(world.on(Tick(), now_s)) == [("a", "m-1")]


def test_one_bad_answer_does_not_make_a_replica_rest_but_three_do():
    world = World()
    world.table(0, ("m-1", 8))
    for n in range(2):
        world.ask(f"r{n}", 0.0)
        assert sent(world.on(UpstreamFailed(f"r{n}", Failure.ERROR), 0.1)) == [(f"r{n}", "m-1")]
    world.ask("third", 0.0)

    assert sent(world.on(UpstreamFailed("third", Failure.ERROR), 0.2)) == []
    assert len(sent(world.on(Tick(), 1.2))) == 1


def test_retries_stop_when_the_budget_is_spent():
    world = World(max_retries=1_000)
    world.table(0, *((f"m-{n}", 100) for n in range(10, 99)))
    ended = 0
    for n in range(100):
        world.ask(f"r{n}", 0.0)
    for n in range(100):
        ended += len(outcomes(world.on(UpstreamFailed(f"r{n}", Failure.CUT), 0.0)))

    assert ended == 30  # 60 in any case, and a tenth of 100


def test_a_replica_that_leaves_the_table_lets_go_of_its_requests():
    world = World()
    world.table(0, ("m-1", 4), ("m-2", 4))
    world.ask("a", 0.0)
    world.ask("b", 0.0)
    world.on(FirstByte("b"), 0.5)

    effects = world.table(1.0, ("m-1", 4))

    assert CancelUpstream("b", "m-2") in effects
    assert outcomes(effects) == [("b", Outcome.FAILED_MIDSTREAM)]
    assert sent(world.table(2.0, ("m-3", 4))) == [("a", "m-3")]


def test_a_draining_replica_finishes_what_it_has_and_gets_nothing_new():
    world = World()
    world.table(0, ("m-1", 4))
    world.ask("a", 0.0)
    world.table(1.0, ("m-1", 0, State.DRAINING))

    assert sent(world.ask("b", 2.0)) == []
    assert outcomes(world.on(UpstreamEnded("a", 200), 3.0)) == [("a", Outcome.COMPLETED)]


def test_a_stop_refuses_the_new_and_ends_the_rest_at_its_deadline():
    world = World()
    world.table(0, ("m-1", 1))
    world.ask("streams", 0.0)
    world.on(FirstByte("streams"), 0.5)
    world.ask("queued", 0.0)

    assert WakeAt(11.0) in world.on(StopBegun(11.0), 1.0)
    assert rejected(world.ask("new", 2.0)).outcome is Outcome.REJECTED_STOPPING
    ends = dict(outcomes(world.on(Tick(), 11.0)))
    assert ends == {"streams": Outcome.CUT_STOPPING, "queued": Outcome.REJECTED_STOPPING}
    assert world.dispatcher.open_requests == 0


def test_late_facts_about_an_ended_request_change_nothing():
    world = World()
    world.table(0, ("m-1", 1))
    world.ask("a", 0.0)
    world.on(UpstreamEnded("a", 200), 1.0)

    late = (UpstreamEnded("a", 200), UpstreamFailed("a", Failure.CUT), FirstByte("a"), ClientGone("a"))
    assert [world.on(event, 2.0) for event in late] == [[], [], [], []]


def test_a_report_counts_arrivals_for_ever_and_remembers_the_peak_between_reports():
    world = World()
    world.table(0, ("m-1", 8))
    for n in range(5):
        world.ask(f"r{n}", 0.1, tokens=10, output=20)
    for n in range(5):
        world.on(UpstreamEnded(f"r{n}", 200, output_tokens=7), 0.2)

    (demand,) = world.report(1.0).models
    assert (demand.queued, demand.in_flight, demand.peak) == (0, 0, 5)
    assert (demand.arrivals_total, demand.ended_total, demand.output_tokens_total) == (5, 5, 35)
    assert demand.last_active_s == 0.2
    assert demand.latency.samples == 5
    (demand,) = world.report(2.0).models
    assert (demand.peak, demand.arrivals_total, demand.latency.samples) == (0, 5, 0)


def test_the_record_of_a_request_says_how_long_each_part_took():
    world = World()
    world.table(0)
    world.ask("a", 1.0, tokens=50)
    world.table(4.0, ("m-1", 1))
    world.on(FirstByte("a"), 4.5)

    (record,) = world.on(UpstreamEnded("a", 200, prompt_tokens=48, output_tokens=9), 6.0)

    assert (record.queued_s, record.ttft_s, record.e2e_s) == (3.0, 3.5, 5.0)
    assert (record.prompt_tokens, record.output_tokens, record.attempts) == (48, 9, 1)


def test_the_record_says_what_the_last_engine_answered_and_what_it_had_cached():
    world = World(max_retries=1)
    world.table(0.0, ("a", 1), ("b", 1))
    world.ask("r", 0.0)
    world.on(UpstreamFailed("r", Failure.ERROR, 503), 1.0)
    world.on(FirstByte("r"), 2.0)
    (done,) = world.on(UpstreamEnded("r", 200, 100, 64, 7), 3.0)
    assert (done.attempts, done.status, done.cached_tokens) == (2, 200, 64)

    world.ask("s", 10.0)
    world.on(UpstreamFailed("s", Failure.ERROR, 500), 11.0)
    failed = next(e for e in world.on(UpstreamFailed("s", Failure.CUT), 12.0) if isinstance(e, Record))
    assert (failed.outcome, failed.status, failed.cached_tokens) == (Outcome.FAILED_ENGINE, None, None)

    world.ask("t", 20.0)
    (refused,) = world.on(UpstreamEnded("t", 400), 21.0)
    assert (refused.outcome, refused.status) == (Outcome.COMPLETED, 400)


def test_new_settings_keep_those_who_wait_and_a_removed_model_tells_them():
    world = World()
    world.table(0)
    world.ask("a", 0.0)

    assert world.on(ModelsConfigured({"m": DispatchConfig(routing=Routing.ROUND_ROBIN)}), 1.0) == []
    effects = world.on(ModelsConfigured({}), 2.0)
    assert outcomes(effects) == [("a", Outcome.REJECTED_UNKNOWN_MODEL)]


def test_a_stream_that_waits_to_be_taken_up_ends_as_one_when_its_model_is_taken_out():
    world = World(resume=True)
    world.table(0, ("m-1", 1))
    world.ask("a", 0.0)
    world.on(FirstByte("a"), 1.0)
    world.table(1.5, ("m-1", 0, State.DRAINING))
    assert outcomes(world.on(UpstreamFailed("a", Failure.CUT, resumable_tokens=5), 2.0)) == []

    assert outcomes(world.on(ModelsConfigured({}), 2.5)) == [("a", Outcome.FAILED_MIDSTREAM)]


def test_requests_that_are_turned_away_at_zero_replicas_are_not_all_told_at_once():
    world = World()
    world.table(0.0, expected_ready_s=900.0)

    effects = [world.ask(f"r{n}", 1.0 + n / 100, deadline_s=10.0) for n in range(300)]

    assert {outcome for each in effects for _, outcome in outcomes(each)} == {Outcome.REJECTED_NOBODY}
    told = [n for n, each in enumerate(effects) if any(isinstance(e, Report) for e in each)]
    assert told == [0, 100, 200]


def test_a_model_that_is_taken_out_and_put_back_still_knows_who_is_at_its_replicas():
    world = World()
    world.table(0, ("m-1", 2))
    for name in ("streams", "waits for its first token"):
        world.ask(name, 0.0, tokens=3_000, flow="a")
    world.on(FirstByte("streams"), 1.0)

    world.on(ModelsConfigured({}), 2.0)
    world.on(ModelsConfigured({"m": DispatchConfig()}), 3.0)
    world.table(3.0, ("m-1", 2))

    assert sent(world.ask("late", 4.0, flow="b")) == []
    assert world.report(4.0).models[0].in_flight == 2
    ended = world.on(UpstreamEnded("streams", 200, 3_000, 0, 50), 5.0)
    assert outcomes(ended) == [("streams", Outcome.COMPLETED)]
    assert sent(ended) == [("late", "m-1")]
    assert outcomes(world.on(ClientGone("waits for its first token"), 6.0))


def test_a_router_that_is_changed_knows_what_is_held_where():
    world = World(routing=Routing.ROUND_ROBIN)
    world.table(0, ("m-1", 8), ("m-2", 8))
    for n in range(6):
        world.ask(f"r{n}", 0.0, tokens=20_000)
        world.on(FirstByte(f"r{n}"), 1.0)
    for n in (1, 3):
        world.on(ClientGone(f"r{n}"), 2.0)

    world.on(ModelsConfigured({"m": DispatchConfig(routing=Routing.LEAST_SECONDS)}), 3.0)

    assert sent(world.ask("next", 4.0)) == [("next", "m-2")]


def test_a_router_that_is_changed_believes_nothing_that_an_earlier_one_wrote_down():
    """It numbers the replicas anew, so what is marked as the first one's may be another's."""
    world = World(slow_start_s=0.0)
    world.table(0, ("m-1", 8))
    fifty = {"tokens": 5_000, "prefix": tuple(range(50)), "block_tokens": 100}
    world.ask("first", 1.0, **fifty)
    world.on(UpstreamEnded("first", 200, 5_000, 0, 5), 2.0)
    world.on(ModelsConfigured({"m": DispatchConfig(routing=Routing.ROUND_ROBIN, slow_start_s=0.0)}), 3.0)
    world.table(4.0, ("m-0", 8), ("m-1", 8))
    world.ask("behind which nobody likes to wait", 4.0, tokens=1_000)

    world.on(ModelsConfigured({"m": DispatchConfig(slow_start_s=0.0)}), 5.0)

    assert sent(world.ask("second", 6.0, **fifty)) == [("second", "m-1")]


def test_a_request_that_two_engines_broke_off_is_given_to_no_third():
    world = World(max_retries=5)
    world.table(0, ("m-1", 1), ("m-2", 1), ("m-3", 1))
    ((_, first),) = sent(world.ask("poison", 1.0))

    ((_, second),) = sent(world.on(UpstreamFailed("poison", Failure.CUT, replica_id=first), 2.0))
    effects = world.on(UpstreamFailed("poison", Failure.CUT, replica_id=second), 3.0)

    assert outcomes(effects) == [("poison", Outcome.FAILED_ENGINE)]
    assert rejected(effects).because.startswith("2 engines in a row broke off while they worked on it")
    assert sent(effects) == []


def test_a_stream_that_was_taken_up_and_went_on_may_break_off_again():
    world = World(max_retries=5, resume=True)
    world.table(0, ("m-1", 1), ("m-2", 1), ("m-3", 1))
    ((_, place),) = sent(world.ask("r", 1.0))
    for n in range(3):
        world.on(FirstByte("r"), 2.0 + 10 * n)
        effects = world.on(
            UpstreamFailed("r", Failure.CUT, replica_id=place, resumable_tokens=5 + n), 3.0 + 10 * n
        )
        (place,) = [e.replica_id for e in effects if isinstance(e, Resume)]

    effects = world.on(UpstreamFailed("r", Failure.CUT, replica_id=place), 33.0)

    assert outcomes(effects) == [("r", Outcome.FAILED_MIDSTREAM)]


def test_a_retry_after_is_no_later_than_the_moments_that_are_promised():
    world = World(queue=QueueLimits(max_requests=1))
    world.table(0, ("m-1", 1))
    world.ask("runs", 0.0)
    world.ask("waits", 0.0)

    told = [rejected(world.ask(f"r{n}", 1.0, flow="a")).retry_after_s for n in range(40_000)]

    assert max(told) == 600.0
    # A minute after the flood nobody pays for promises beyond that.
    assert rejected(world.ask("later", 601.0, flow="a", deadline_s=5_000.0)).retry_after_s <= 600.0
