"""Stories about long prompts that have no token yet, and shorter ones with the better claim that come after them."""

import pytest

from tidegate.core.effects import CancelUpstream, Record
from tidegate.core.events import ClientGone, Failure, FirstByte, Tick, UpstreamEnded, UpstreamFailed
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import QueueLimits, Routing
from unit.core.dispatch.dispatch_world import World, outcomes, rejected, sent

LONG = 8_000


def taken_back(effects):
    return [(e.request_id, e.replica_id) for e in effects if isinstance(e, CancelUpstream)]


def shared(replicas=1, **config):
    """Replicas of 8 slots that compute 10,000 prompt tokens a second, known to, and a quiet tenant among the users.
    Then the loud one fills half of the slots with long prompts: one is computed, the others wait."""
    world = World(prefill_ahead_s=100.0, routing=Routing.LEAST_TOKENS, **config)
    world.table(0, *[(f"m-{n + 1}", 8) for n in range(replicas)])
    now_s = 0.0
    for n in range(40):
        _, place = sent(world.ask(f"w{n}", now_s, tokens=1_000, flow=("loud", "quiet")[n % 2]))[0]
        world.on(FirstByte(f"w{n}", place), now_s + 0.1256)
        world.on(UpstreamEnded(f"w{n}", 200, 1_000, 0, 10), now_s + 0.2)
        now_s += 1.0
    return world, now_s


def loud(world, now_s, count, tokens=LONG, **more):
    for n in range(count):
        assert sent(world.ask(f"l{n}", now_s, tokens=tokens, flow="loud", **more))


def test_a_quiet_tenants_prompt_passes_the_long_ones_that_have_no_token():
    world, now_s = shared()
    loud(world, now_s, 4)

    effects = world.ask("q", now_s + 0.3, tokens=100, flow="quiet")

    assert taken_back(effects) == [(f"l{n}", "m-1") for n in range(4)]
    assert sent(effects) == [("q", "m-1")]
    # They come back in their order once it has its token, and not before: they would be in its steps.
    assert sent(world.on(FirstByte("q", "m-1"), now_s + 0.4)) == [(f"l{n}", "m-1") for n in range(4)]


def test_a_prompt_whose_answer_has_begun_is_left_alone():
    world, now_s = shared()
    loud(world, now_s, 4)
    world.on(FirstByte("l0", "m-1"), now_s + 0.8)

    effects = world.ask("q", now_s + 0.9, tokens=100, flow="quiet")

    assert taken_back(effects) == [("l1", "m-1"), ("l2", "m-1"), ("l3", "m-1")]


def test_it_goes_where_least_is_lost_and_a_free_replica_is_enough():
    world, now_s = shared(replicas=2)
    loud(world, now_s, 5)  # three at m-1 and two at m-2

    assert taken_back(world.ask("q", now_s, tokens=100, flow="quiet")) == [("l1", "m-2"), ("l3", "m-2")]
    world, now_s = shared(replicas=2)
    loud(world, now_s, 1)
    effects = world.ask("q", now_s, tokens=100, flow="quiet")
    assert (taken_back(effects), sent(effects)) == ([], [("q", "m-2")])


def test_a_loud_tenant_passes_nobody_and_neither_does_a_prompt_as_long():
    world, now_s = shared()
    loud(world, now_s, 4)

    assert taken_back(world.ask("l9", now_s, tokens=100, flow="loud")) == []
    assert taken_back(world.ask("q", now_s, tokens=LONG // 2 + 1, flow="quiet")) == []


def test_a_request_gives_way_so_often_and_no_more():
    world, now_s = shared(max_yields=2)
    loud(world, now_s, 4, tokens=LONG)
    gone = []
    for n in range(4):
        gone.append(len(taken_back(world.ask(f"q{n}", now_s, tokens=100, flow="quiet"))))
        world.on(FirstByte(f"q{n}", "m-1"), now_s + 0.01)
        world.on(UpstreamEnded(f"q{n}", 200, 100, 0, 1), now_s + 0.02)
        now_s += 1.0

    assert gone == [4, 4, 0, 0]
    records = [e for e in world.on(UpstreamEnded("l0", 200, LONG, 0, 1), now_s) if isinstance(e, Record)]
    assert [record.yields for record in records] == [2], "and its record says how often"


def test_without_yields_nobody_gives_way():
    world, now_s = shared(max_yields=0)
    loud(world, now_s, 4)

    assert taken_back(world.ask("q", now_s, tokens=100, flow="quiet")) == []


def test_a_lower_class_gives_way_to_a_higher_one_of_the_same_tenant():
    world, now_s = shared()
    loud(world, now_s, 2)

    assert taken_back(world.ask("low", now_s, tokens=100, flow="loud", priority=-1)) == []
    effects = world.ask("high", now_s + 1.1, tokens=100, flow="loud", priority=1)
    assert taken_back(effects) == [("l0", "m-1"), ("l1", "m-1")]


def test_an_answer_in_one_piece_gives_way_until_its_first_token_must_have_come():
    world, now_s = shared()
    loud(world, now_s, 4, streams=False)  # 0.8 s of work each, one after the other

    effects = world.ask("q", now_s + 1.7, tokens=100, flow="quiet")

    assert taken_back(effects) == [("l2", "m-1"), ("l3", "m-1")]


def test_when_a_stream_begins_those_in_one_piece_before_it_have_their_token_too():
    world, now_s = shared()
    loud(world, now_s, 2, streams=False)
    world.ask("s", now_s, tokens=LONG, flow="loud")
    world.on(FirstByte("s", "m-1"), now_s + 0.5)

    assert taken_back(world.ask("q", now_s + 0.6, tokens=100, flow="quiet")) == []


@pytest.mark.parametrize("ends", ["answer", "failure", "leaving"])
def test_those_who_gave_way_are_sent_again_however_the_one_before_them_ends(ends):
    world, now_s = shared()
    loud(world, now_s, 4)
    world.ask("q", now_s, tokens=100, flow="quiet")
    event = {
        "answer": UpstreamEnded("q", 200, 100, 0, 1),
        "failure": UpstreamFailed("q", Failure.ERROR, 500, replica_id="m-1"),
        "leaving": ClientGone("q"),
    }[ends]

    effects = world.on(event, now_s + 0.1)

    assert {name for name, _ in sent(effects)} >= {f"l{n}" for n in range(4)}


def test_a_request_that_gave_way_and_is_not_let_again_ends_at_its_deadline_with_one_outcome():
    world, now_s = shared()
    loud(world, now_s, 1, deadline_s=now_s + 5.0)
    loud_more = [world.ask(f"m{n}", now_s, tokens=LONG, flow="loud") for n in range(3)]
    assert all(map(sent, loud_more))
    world.ask("q", now_s + 0.1, tokens=100, flow="quiet")

    effects = world.on(Tick(), now_s + 5.0)

    assert outcomes(effects) == [("l0", Outcome.EXPIRED_QUEUED)]
    assert world.dispatcher.open_requests == 4


def test_those_who_gave_way_take_no_place_in_the_queue_from_newcomers():
    world, now_s = shared(queue=QueueLimits(max_tokens=2 * LONG))
    loud(world, now_s, 4)  # 32,000 tokens, and the queue is for 16,000
    world.ask("q", now_s, tokens=100, flow="quiet")

    told = world.report(now_s).models[0]
    assert told.queued_tokens == 4 * LONG
    assert told.queued_prompt_tokens == 4 * LONG
    assert outcomes(world.ask("l9", now_s, tokens=LONG, flow="loud")) == []
    assert outcomes(world.ask("l10", now_s, tokens=LONG, flow="loud")) == []
    assert rejected(world.ask("l11", now_s, tokens=LONG, flow="loud")).outcome is Outcome.REJECTED_FULL
