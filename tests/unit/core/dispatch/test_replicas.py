"""Stories about new, sick and busy replicas, second attempts and answers that are taken up."""

import pytest

from tidegate.core.dispatch.ramp import Ramp
from tidegate.core.effects import CancelUpstream, Hedge, Resume, WakeAt
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    StopBegun,
    Tick,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.lifecycle import State
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import Routing
from unit.core.dispatch.dispatch_world import World, outcomes, rejected, sent


def orders(effects, kind):
    return [e for e in effects if isinstance(e, kind)]


def at(effects):
    return [place for _, place in sent(effects)]


def known(took_s=0.1, **config):
    """A world whose replica m-1 has given forty first tokens, each after ``took_s``."""
    world = World(**config)
    world.table(0, ("m-1", 8))
    for n in range(40):
        world.ask(f"w{n}", float(n))
        world.on(FirstByte(f"w{n}"), n + took_s)
        world.on(UpstreamEnded(f"w{n}", 200, 100, 0, 10), n + 0.5)
    world.ask("long", 40.0)  # something runs there, so whoever is new is the less loaded
    return world, 40.0


# ---- new ones ----


def test_a_fifth_replica_takes_up_to_its_slots_at_once_while_four_are_full():
    world = World()
    four = tuple((f"m-{n}", 10) for n in range(1, 5))
    world.table(0, *four)
    for n in range(60):
        world.ask(f"r{n}", 0.0)

    effects = world.table(1.0, *four, ("m-5", 8))

    assert sent(effects) == [(f"r{n}", "m-5") for n in range(40, 48)]


def test_a_new_replica_begins_with_one_request_while_the_others_have_room():
    world, now_s = known()
    world.table(now_s, ("m-1", 8), ("m-2", 8))

    assert [at(world.ask(f"r{n}", now_s)) for n in range(4)] == [["m-2"], ["m-1"], ["m-1"], ["m-1"]]


def test_it_gets_twice_as_many_with_each_first_token_that_comes_in_time():
    world, now_s = known()
    world.table(now_s, ("m-1", 8), ("m-2", 8))
    (place,) = at(world.ask("r0", now_s))
    world.on(FirstByte("r0"), now_s + 0.1)

    places = [at(world.ask(f"x{n}", now_s + 0.2))[0] for n in range(4)]

    assert place == "m-2"
    assert places.count("m-2") == 1  # two at once now, and one is there already
    world.on(FirstByte(f"x{places.index('m-2')}"), now_s + 0.3)
    places = [at(world.ask(f"y{n}", now_s + 0.4))[0] for n in range(4)]
    assert places.count("m-2") == 2


def test_one_that_lags_is_given_one_request_at_a_time_until_it_keeps_up():
    world, now_s = known()
    world.table(now_s, ("m-1", 8), ("m-2", 8))
    world.ask("r0", now_s)
    world.on(FirstByte("r0"), now_s + 0.5)  # five times as long as the other
    world.on(UpstreamEnded("r0", 200, 100, 0, 10), now_s + 1.0)

    assert [at(world.ask(f"x{n}", now_s + 2.0)) for n in range(3)] == [["m-2"], ["m-1"], ["m-1"]]
    world.on(FirstByte("x0"), now_s + 2.1)
    assert at(world.ask("y", now_s + 2.2)) == ["m-2"]


def test_one_that_lags_is_not_filled_when_a_slot_of_the_others_comes_sooner():
    world, now_s = known()
    world.table(now_s, ("m-1", 8), ("m-2", 8))
    for n in range(2):
        world.ask(f"r{n}", now_s + 6.0 * n)
        world.on(FirstByte(f"r{n}"), now_s + 6.0 * n + 5.0)
        world.on(ClientGone(f"r{n}"), now_s + 6.0 * n + 5.0)
    now_s += 7.0
    world.ask("slow", now_s)
    for n in range(7):
        world.ask(f"x{n}", now_s + 5.0)

    assert at(world.ask("waits", now_s + 5.0)) == []
    assert at(world.on(UpstreamEnded("x0", 200, 100, 0, 10), now_s + 5.2)) == ["m-1"]


def test_nobody_is_ramped_up_when_all_are_new():
    world = World()
    world.table(0, ("m-1", 4), ("m-2", 4))

    places = [at(world.ask(f"r{n}", 0.0))[0] for n in range(8)]

    assert (places.count("m-1"), places.count("m-2")) == (4, 4)


def test_a_new_replica_rests_after_its_first_error():
    world, now_s = known()
    world.table(now_s, ("m-1", 8), ("m-2", 8))
    world.ask("r0", now_s)

    effects = world.on(UpstreamFailed("r0", Failure.ERROR), now_s + 0.1)

    assert at(effects) == ["m-1"]
    assert at(world.ask("r1", now_s + 0.2)) == ["m-1"]


# ---- sick ones ----


def test_a_clients_own_errors_never_count_against_a_replica():
    world = World()
    world.table(0, ("m-1", 8))
    for n in range(20):
        world.ask(f"r{n}", 0.0)
        world.on(UpstreamEnded(f"r{n}", 400), 0.1)

    assert at(world.ask("good", 0.2)) == ["m-1"]


def test_after_its_rest_a_sick_replica_gets_a_probe_and_not_the_flood():
    world = World(routing=Routing.LEAST_TOKENS)
    world.table(0, ("m-1", 16), ("m-2", 16))
    for n in range(3):
        world.ask(f"r{n}", 0.0)
    world.on(UpstreamFailed("r0", Failure.REFUSED), 0.1)
    assert [at(world.ask(f"x{n}", 0.5)) for n in range(3)] == [["m-2"]] * 3

    places = [at(world.ask(f"y{n}", 1.2))[0] for n in range(10)]
    assert places.count("m-1") == 2  # one for eight slots
    world.on(FirstByte(f"y{places.index('m-1')}"), 1.3)
    places = [at(world.ask(f"z{n}", 1.4))[0] for n in range(8)]
    assert places.count("m-1") >= 6


def test_a_probe_that_fails_makes_the_rest_twice_as_long_and_it_always_ends():
    world = World()
    world.table(0, ("m-1", 1), ("m-2", 100))
    now_s, rests = 0.0, []
    for n in range(8):
        effects = world.ask(f"r{n}", now_s)
        assert at(effects) == ["m-1"]
        failed = world.on(UpstreamFailed(f"r{n}", Failure.REFUSED), now_s)
        rests.append(min(wake.at_s for wake in orders(failed, WakeAt)) - now_s)
        now_s += rests[-1]
        world.on(Tick(), now_s)

    assert rests == [1.0, 2.0, 4.0, 8.0, 16.0, 16.0, 16.0, 16.0]


def test_the_only_replica_never_rests_for_longer_than_a_second():
    world = World(max_retries=1_000)
    world.table(0, ("m-1", 1))
    now_s = 0.0
    world.ask("r", now_s)
    for _ in range(6):
        assert WakeAt(now_s + 1.0) in world.on(UpstreamFailed("r", Failure.REFUSED), now_s)
        now_s += 1.0
        assert at(world.on(Tick(), now_s)) == ["m-1"]


def test_one_that_fails_every_second_request_rests_too():
    world = World(max_retries=0)
    world.table(0, ("m-1", 100), ("m-2", 0))
    for n in range(20):
        effects = world.ask(f"r{n}", 0.0)
        if not sent(effects):
            break
        if n % 2:
            world.on(UpstreamEnded(f"r{n}", 200), 0.0)
        else:
            world.on(UpstreamFailed(f"r{n}", Failure.ERROR), 0.0)

    assert 5 <= n < 19


def test_a_stream_cut_in_its_middle_is_no_sign_that_the_replica_is_down():
    world = World()
    world.table(0, ("m-1", 8))
    world.ask("a", 0.0)
    world.on(FirstByte("a"), 0.1)
    world.on(UpstreamFailed("a", Failure.CUT), 0.2)

    assert at(world.ask("b", 0.3)) == ["m-1"]


def test_an_engine_that_is_busy_gets_no_more_than_it_works_on_and_then_more_again():
    world = World(routing=Routing.LEAST_TOKENS)
    world.table(0, ("m-1", 30), ("m-2", 30))
    for n in range(12):
        world.ask(f"r{n}", 0.0)  # six each
    effects = world.on(UpstreamFailed("r0", Failure.BUSY, 503), 1.0)
    assert at(effects) == ["m-2"]
    assert outcomes(effects) == []

    places = [at(world.ask(f"x{n}", 1.5))[0] for n in range(12)]
    assert places.count("m-1") == 0  # five are there, and five is its limit
    places = [at(world.ask(f"y{n}", 11.0))[0] for n in range(12)]
    assert 8 <= places.count("m-1") <= 12  # a slot a second


def test_busy_costs_no_attempt_however_often_and_a_failure_still_gets_its_retries():
    world = World(max_retries=1)
    world.table(0, ("m-1", 4), ("m-2", 4))
    world.ask("a", 0.0)
    places = ["m-1"]
    for n in range(4):
        effects = world.on(UpstreamFailed("a", Failure.BUSY, 429), 2.0 * n)
        if not sent(effects):
            effects = world.on(Tick(), 2.0 * n + 1.0)
        places += at(effects)

    effects = world.on(UpstreamFailed("a", Failure.CUT), 20.0)

    assert len(sent(effects)) == 1
    assert outcomes(world.on(UpstreamFailed("a", Failure.CUT), 20.1)) == [("a", Outcome.FAILED_ENGINE)]


def test_a_draining_replica_gets_neither_retries_nor_second_attempts():
    world = World(hedge_ratio=1.0, hedge_after_s=0.5)
    world.table(0, ("m-1", 4), ("m-2", 4))
    world.ask("a", 0.0)
    world.table(0.1, ("m-1", 4), ("m-2", 0, State.DRAINING))

    assert orders(world.on(Tick(), 5.0), Hedge) == []
    world.on(UpstreamFailed("a", Failure.CUT), 6.0)
    assert at(world.on(Tick(), 7.5)) == ["m-1"]


# ---- second attempts ----


def hedging(**config):
    world = World(hedge_ratio=0.5, hedge_after_s=1.0, **config)
    world.table(0, ("m-1", 4), ("m-2", 4))
    return world


def test_a_request_whose_first_token_is_overdue_gets_a_second_replica_and_the_first_answer_is_heard():
    world = hedging()
    assert WakeAt(1.0) in world.ask("a", 0.0)
    assert orders(world.on(Tick(), 0.9), Hedge) == []

    (hedge,) = orders(world.on(Tick(), 1.0), Hedge)
    assert (hedge.request_id, hedge.replica_id, hedge.attempt) == ("a", "m-2", 2)
    assert world.on(FirstByte("a", "m-2"), 1.2) == [CancelUpstream("a", "m-1")]
    assert [load.in_flight for load in world.report(1.3).replicas] == [0, 1]
    (record,) = world.on(UpstreamEnded("a", 200, replica_id="m-2"), 2.0)
    assert (record.replica_id, record.outcome) == ("m-2", Outcome.COMPLETED)


def test_a_request_that_waited_for_its_place_gets_a_second_replica_too():
    world = World(hedge_ratio=0.5, hedge_after_s=1.0)
    world.table(0, ("m-1", 1), ("m-2", 1))
    for name in ("a", "b", "waits"):
        world.ask(name, 0.0)
    assert orders(world.on(Tick(), 1.0), Hedge) == []
    effects = world.on(UpstreamEnded("a", 200), 3.0)
    assert sent(effects) == [("waits", "m-1")]
    assert WakeAt(4.0) in effects
    world.on(UpstreamEnded("b", 200), 3.5)

    assert [e.replica_id for e in orders(world.on(Tick(), 4.0), Hedge)] == ["m-2"]


def test_a_second_replica_is_one_that_is_well():
    world = hedging()
    world.ask("b", 0.0)
    world.ask("a", 0.0)
    assert outcomes(world.on(UpstreamFailed("a", Failure.REFUSED, replica_id="m-2"), 0.1)) == []

    assert orders(world.on(Tick(), 1.5), Hedge) == []  # its rest is over, and whoever it gets now is a probe


def test_when_one_of_two_fails_the_other_goes_on():
    world = hedging()
    world.ask("a", 0.0)
    world.on(Tick(), 1.0)

    assert outcomes(world.on(UpstreamFailed("a", Failure.CUT, replica_id="m-1"), 1.5)) == []
    (record,) = world.on(UpstreamEnded("a", 200, replica_id="m-2"), 2.0)
    assert record.replica_id == "m-2"


def test_who_leaves_stops_both():
    world = hedging()
    world.ask("a", 0.0)
    world.on(Tick(), 1.0)

    effects = world.on(ClientGone("a"), 1.5)

    assert {e.replica_id for e in orders(effects, CancelUpstream)} == {"m-1", "m-2"}
    assert [load.in_flight for load in world.report(2.0).replicas] == [0, 0]


def test_second_attempts_stay_within_their_share_of_the_traffic():
    world = World(hedge_ratio=0.1, hedge_after_s=1.0)
    world.table(0, ("m-1", 100), ("m-2", 100))
    for n in range(50):
        world.ask(f"r{n}", 0.0)

    assert len(orders(world.on(Tick(), 1.0), Hedge)) == 6  # a tenth of fifty, and one


@pytest.mark.parametrize(
    "why", ["it does not stream", "somebody waits", "the gateway is stopping", "it has begun"]
)
def test_there_is_no_second_attempt_when(why):
    world = hedging()
    world.ask("a", 0.0, streams=why != "it does not stream")
    if why == "somebody waits":
        for n in range(9):
            world.ask(f"r{n}", 0.0)
    if why == "the gateway is stopping":
        world.on(StopBegun(60.0), 0.5)
    if why == "it has begun":
        world.on(FirstByte("a"), 0.5)

    assert orders(world.on(Tick(), 3.0), Hedge) == []


# ---- answers that are taken up ----


def test_a_stream_that_breaks_off_goes_on_at_another_replica_from_where_it_was():
    world = World(resume=True)
    world.table(0, ("m-1", 4), ("m-2", 4))
    world.ask("a", 0.0)
    world.on(FirstByte("a"), 0.5)

    (resume,) = orders(world.on(UpstreamFailed("a", Failure.CUT, resumable_tokens=17), 2.0), Resume)
    assert (resume.replica_id, resume.attempt, resume.tokens) == ("m-2", 2, 17)

    world.on(FirstByte("a"), 2.5)
    (again,) = orders(world.on(UpstreamFailed("a", Failure.CUT, resumable_tokens=30), 3.0), Resume)
    assert again.tokens == 30
    (record,) = world.on(UpstreamEnded("a", 200, 100, 0, 64), 4.0)
    assert (record.outcome, record.output_tokens, record.ttft_s) == (Outcome.COMPLETED, 64, 0.5)


def test_one_that_is_never_taken_up_ends_with_an_error_and_not_as_if_it_had_waited_for_its_turn():
    world = World(resume=True)
    world.table(0, ("m-1", 1))
    world.ask("a", 0.0, deadline_s=30.0)
    world.on(FirstByte("a"), 0.5)
    world.table(1.0)
    world.table(2.0, ("m-1", 1, State.STARTING))

    effects = world.on(Tick(), 30.0)

    assert outcomes(effects) in ([("a", Outcome.FAILED_MIDSTREAM)], [])
    assert world.dispatcher.open_requests == 0


def test_a_stream_is_taken_up_only_where_the_model_asks_for_it_and_the_gateway_can():
    plain, blind = World(), World(resume=True)
    for world in (plain, blind):
        world.table(0, ("m-1", 4), ("m-2", 4))
        world.ask("a", 0.0)
        world.on(FirstByte("a"), 0.5)

    without = plain.on(UpstreamFailed("a", Failure.CUT, resumable_tokens=17), 2.0)
    unable = blind.on(UpstreamFailed("a", Failure.CUT), 2.0)

    assert outcomes(without) == outcomes(unable) == [("a", Outcome.FAILED_MIDSTREAM)]
    assert rejected(unable).outcome is Outcome.FAILED_MIDSTREAM


def test_it_is_taken_up_twice_at_most():
    world = World(resume=True)
    world.table(0, *((f"m-{n}", 4) for n in range(1, 6)))
    world.ask("a", 0.0)
    world.on(FirstByte("a"), 0.1)
    for n in range(2):
        assert orders(world.on(UpstreamFailed("a", Failure.CUT, resumable_tokens=5), 1.0 + n), Resume)
        world.on(FirstByte("a"), 1.5 + n)

    last = world.on(UpstreamFailed("a", Failure.CUT, resumable_tokens=9), 4.0)
    assert outcomes(last) == [("a", Outcome.FAILED_MIDSTREAM)]


def test_peers_that_needed_no_time_at_all_are_no_measure_for_a_newcomer():
    ramp = Ramp(0.0, 30.0, 1_000)

    ramp.began(0.3, 0.0)

    assert (ramp.limit, ramp.lags) == (2, False)
