"""Stories about requests that wait: who goes first, who is turned away, and when to come back."""

import itertools

import pytest

from tidegate.core.effects import Record, Reject, Report, WakeAt
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    ModelsConfigured,
    RequestArrived,
    Tick,
    TokensSent,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.lifecycle import State
from tidegate.core.outcomes import MEANING, Outcome
from tidegate.core.settings import DispatchConfig, QueueLimits
from unit.core.dispatch.dispatch_world import World, outcomes, rejected, sent


def busy(slots=1, **config):
    """A world with one replica, every slot taken by requests named s0, s1, ..."""
    world = World(**config)
    world.table(0, ("m-1", slots))
    for n in range(slots):
        world.ask(f"s{n}", 0.0)
    return world


def served(world, first, now_s, count):
    """End what runs, one after the other, and tell who came to be sent."""
    order, running = [], [first]
    for n in range(count):
        effects = world.on(UpstreamEnded(running.pop(0), 200, 100, 0, 100), now_s + n)
        running += [name for name, _ in sent(effects)]
        order += [name for name, _ in sent(effects)]
    return order


# ---- order ----


def test_a_tenant_with_a_hundred_waiting_does_not_keep_another_from_its_turn():
    world = busy()
    for n in range(100):
        world.ask(f"loud-{n}", 1.0, flow="loud")
    world.ask("quiet", 2.0, flow="quiet")

    assert "quiet" in served(world, "s0", 3.0, 2)


def test_two_tenants_take_turns_by_tokens_and_not_by_requests():
    world = busy()
    for n in range(40):
        world.ask(f"long-{n}", 1.0, tokens=900, flow="long")
        world.ask(f"short-{n}", 1.0, tokens=100, flow="short")

    order, running, tokens = [], "s0", {"long": 0, "short": 0}
    for n in range(44):
        prompt = 900 if running.startswith("long") else 100
        effects = world.on(UpstreamEnded(running, 200, prompt, 0, 0), 2.0 + n)
        ((running, _),) = sent(effects)
        order.append(running)
        tokens[running.split("-")[0]] += 900 if running.startswith("long") else 100

    assert order.count("short-0") == 1
    assert 0.9 <= tokens["long"] / tokens["short"] <= 1.2


def test_twice_the_weight_is_twice_the_share():
    world = busy()
    for n in range(60):
        world.ask(f"a-{n}", 1.0, flow="a", weight=2.0)
        world.ask(f"b-{n}", 1.0, flow="b", weight=1.0)

    order = served(world, "s0", 2.0, 45)

    assert 28 <= sum(name.startswith("a") for name in order) <= 32


def test_a_tenant_cannot_save_up_turns_while_it_is_idle():
    world = busy()
    for n in range(50):
        world.ask(f"old-{n}", 1.0, flow="old")
    order = served(world, "s0", 2.0, 30)
    for n in range(20):
        world.ask(f"new-{n}", 40.0, flow="new")

    order = served(world, order[-1], 41.0, 10)

    assert 4 <= sum(name.startswith("new") for name in order) <= 6


def test_an_answer_that_grows_long_is_charged_before_it_ends():
    world = busy(slots=2)
    for n in range(10):
        world.ask(f"a-{n}", 1.0, flow="a")
        world.ask(f"b-{n}", 1.0, flow="b")
    ((first, _),) = sent(world.on(UpstreamEnded("s0", 200, 100, 0, 10), 2.0))
    assert first == "a-0"

    world.on(TokensSent("a-0", 50_000), 30.0)
    order = served(world, "s1", 31.0, 8)

    assert all(name.startswith("b") for name in order)


def test_of_one_tenant_the_earliest_deadline_goes_first():
    world = busy()
    world.ask("late", 1.0, deadline_s=500.0)
    world.ask("soon", 2.0, deadline_s=50.0)
    world.ask("between", 3.0, deadline_s=90.0)

    assert served(world, "s0", 4.0, 3) == ["soon", "between", "late"]


def test_a_lower_class_gets_turns_once_it_has_waited_and_no_more_than_its_share():
    world = busy(queue=QueueLimits(ageing_s=10.0, aged_share=0.1, max_requests=10_000))
    for n in range(300):
        world.ask(f"high-{n}", 1.0, priority=5)
        world.ask(f"low-{n}", 1.0, priority=0)

    order = served(world, "s0", 2.0, 100)

    assert all(name.startswith("high") for name in order[:8])
    assert 7 <= sum(name.startswith("low") for name in order) <= 12


def test_no_tenant_waits_for_ever_while_another_is_served():
    world = busy()
    waiting = {f"t{n}" for n in range(20)}
    for flow in sorted(waiting):
        world.ask(f"{flow}-only", 1.0, flow=flow, tokens=5_000)
    running = "s0"
    for n in range(400):
        world.ask(f"more-{n}", 2.0 + n, flow="busy", tokens=10)
        ((running, _),) = sent(world.on(UpstreamEnded(running, 200, 10, 0, 10), 2.0 + n))
        waiting.discard(running.split("-")[0])
        if not waiting:
            break

    assert not waiting


# ---- bounds ----


def test_a_flood_of_a_lower_class_makes_room_for_a_higher_one():
    world = busy(queue=QueueLimits(max_requests=5))
    for n in range(5):
        world.ask(f"low-{n}", 1.0)

    effects = world.ask("high", 2.0, priority=1)

    assert outcomes(effects) == [("low-4", Outcome.REJECTED_FULL)]  # the last of them
    assert rejected(effects).retry_after_s >= 1.0
    assert sent(world.on(UpstreamEnded("s0", 200), 3.0)) == [("high", "m-1")]


def test_a_full_queue_makes_room_for_a_tenant_that_holds_less_of_it():
    world = busy(queue=QueueLimits(max_requests=4))
    for n in range(4):
        world.ask(f"loud-{n}", 1.0, flow="loud")

    assert outcomes(world.ask("quiet-0", 2.0, flow="quiet")) == [("loud-3", Outcome.REJECTED_FULL)]
    assert outcomes(world.ask("quiet-1", 2.0, flow="quiet")) == [("loud-2", Outcome.REJECTED_FULL)]
    assert outcomes(world.ask("quiet-2", 2.0, flow="quiet")) == [("quiet-2", Outcome.REJECTED_FULL)]
    assert outcomes(world.ask("loud-9", 2.0, flow="loud")) == [("loud-9", Outcome.REJECTED_FULL)]


def test_a_flood_for_one_model_makes_room_for_a_higher_class_that_asks_for_another():
    world = World()
    config = {model: DispatchConfig() for model in ("m", "n")}
    world.on(ModelsConfigured(config, QueueLimits(max_requests=3)), 0.0)
    world.table(0)
    for n in range(3):
        world.ask(f"low {n}", 1.0, model="m")

    assert outcomes(world.ask("as low", 2.0, model="n"))[0][0] == "as low"
    effects = world.ask("high", 3.0, model="n", priority=1)
    assert [name for name, _ in outcomes(effects)] == ["low 2"]
    assert [demand.queued for demand in world.report(4.0).models] == [2, 1]


def test_a_class_and_a_tenant_may_be_held_to_a_share_of_the_queue():
    world = busy(queue=QueueLimits(max_requests=10, class_share=0.5, tenant_share=0.2))
    world.ask("a-0", 1.0, flow="a")
    world.ask("a-1", 1.0, flow="a")

    assert "of this tenant" in rejected(world.ask("a-2", 1.0, flow="a")).because
    for flow in "bcd":
        world.ask(f"{flow}-0", 1.0, flow=flow)
    assert "of class 0" in rejected(world.ask("e-0", 1.0, flow="e")).because
    assert outcomes(world.ask("f-0", 1.0, flow="f", priority=1)) == []


def long_prompt(tokens, start=0):
    return {"tokens": tokens, "prefix": tuple(range(start, start + tokens // 250)), "block_tokens": 250}


def paced(slots=4, **config):
    """A replica that is known to compute 10,000 tokens a second; it is 100 s later then."""
    world = World(**config)
    world.table(0, ("m-1", slots))
    for n in range(40):
        now_s, tokens = 60.0 + n, 1_000 + 250 * (n % 5)
        world.ask(f"p{n}", now_s, **long_prompt(tokens, 1_000 * (n + 1)))
        world.on(FirstByte(f"p{n}"), now_s + tokens / 10_000)
        world.on(UpstreamEnded(f"p{n}", 200, tokens, 0, 5), now_s + 0.9)
    return world


def test_a_prompt_that_takes_longer_than_its_deadline_allows_is_never_begun():
    world = paced()

    effects = world.ask("hopeless", 100.0, deadline_s=101.0, **long_prompt(20_000))
    assert outcomes(effects) == [("hopeless", Outcome.REJECTED_DEADLINE)]
    assert "its prompt takes 1." in rejected(effects).because
    assert world.report(100.0).models[0].refused_total == 0  # more replicas would not help it
    assert sent(world.ask("in time", 100.0, deadline_s=103.0, **long_prompt(20_000))) == [("in time", "m-1")]
    world.on(FirstByte("in time"), 102.0)
    world.on(UpstreamEnded("in time", 200, 20_000, 0, 5), 102.5)

    # Once it is in a cache it takes no time to speak of.
    assert sent(world.ask("again", 103.0, deadline_s=104.0, **long_prompt(20_000))) == [("again", "m-1")]


def test_who_asks_for_few_words_is_not_given_up_for_want_of_time_for_many():
    world = World()
    world.table(0, ("m-1", 1))
    for n in range(30):
        world.ask(f"p{n}", 10.0 * n)
        world.on(UpstreamEnded(f"p{n}", 200, 100, 0, 400), 10.0 * n + 8.0)
    world.ask("runs", 300.0)

    assert outcomes(world.ask("one word", 307.5, output=1, deadline_s=310.0)) == []
    assert outcomes(world.ask("many words", 307.5, deadline_s=309.0)) == [
        ("many words", Outcome.REJECTED_LATE)
    ]
    assert sent(world.on(UpstreamEnded("runs", 200, 100, 0, 400), 308.0)) == [("one word", "m-1")]


def test_where_an_answer_takes_minutes_waits_are_foreseen_too_and_the_time_to_come_back_is_true():
    world = World(queue=QueueLimits(max_wait_busy_s=60.0))
    world.table(0, ("m-1", 1))
    for n in range(6):
        world.ask(f"p{n}", 150.0 * n, deadline_s=1e6)
        world.on(UpstreamEnded(f"p{n}", 200, 100, 0, 400), 150.0 * n + 120.0)
    world.ask("runs", 900.0, deadline_s=1e6)
    world.ask("waits", 900.0, deadline_s=1e6)

    effects = world.ask("late", 901.0, deadline_s=1e6)

    assert outcomes(effects) == [("late", Outcome.REJECTED_LATE)]
    assert 60.0 <= rejected(effects).retry_after_s <= 240.0


@pytest.mark.parametrize(
    "growth, becomes",
    [
        ((0, None), [("flood", Outcome.REJECTED_LATE)]),  # 120 s a slot, one slot, two before it
        ((9, 20.0), []),  # nine more in 20 s: its turn comes in about a minute
        ((9, 300.0), [("flood", Outcome.REJECTED_LATE)]),
        ((9, None), []),  # nobody knows how long a start takes, so nobody is refused for it
        ((1, 20.0), [("flood", Outcome.REJECTED_LATE)]),  # two slots, from then on
    ],
)
def test_a_flood_that_the_fleet_can_still_grow_for_is_not_told_of_the_wait_at_those_that_serve(
    growth, becomes
):
    world = World(queue=QueueLimits(max_wait_busy_s=120.0))
    world.table(0, ("m-1", 1), growth=growth)
    for n in range(6):
        world.ask(f"p{n}", 150.0 * n, deadline_s=1e6)
        world.on(UpstreamEnded(f"p{n}", 200, 100, 0, 400), 150.0 * n + 120.0)
    world.ask("runs", 900.0, deadline_s=1e6)
    world.ask("waits", 900.0, deadline_s=1e6)
    world.ask("waits too", 900.0, deadline_s=1e6)

    assert outcomes(world.ask("flood", 901.0, deadline_s=1e6)) == becomes


def test_before_anything_is_known_only_a_deadline_that_has_passed_is_hopeless():
    world = World()
    world.table(0, ("m-1", 4))

    assert sent(world.ask("a", 1.0, deadline_s=1.1, **long_prompt(50_000)))
    assert outcomes(world.ask("b", 2.0, deadline_s=2.0)) == [("b", Outcome.REJECTED_DEADLINE)]


def test_the_prompt_counts_as_well_as_the_wait_for_its_turn():
    world = paced(slots=1)
    world.ask("runs", 100.0)
    for n in range(4):
        world.ask(f"w{n}", 100.0, **long_prompt(1_000, 5_000 * (n + 11)))

    assert outcomes(world.ask("short", 100.0, deadline_s=108.0, **long_prompt(500, 90_000))) == []
    effects = world.ask("long", 100.0, deadline_s=108.0, **long_prompt(40_000, 90_000))
    assert outcomes(effects) == [("long", Outcome.REJECTED_LATE)]


def test_ten_long_prompts_under_a_bound_of_tokens_are_two():
    world = busy(queue=QueueLimits(max_requests=1_024, max_tokens=250_000))

    ends = [outcomes(world.ask(f"r{n}", 1.0, tokens=100_000)) for n in range(10)]

    assert [len(end) for end in ends] == [0, 0] + [1] * 8


def test_the_queues_of_all_models_share_one_bound():
    world = World()
    config = {model: DispatchConfig() for model in ("m", "n")}
    world.on(ModelsConfigured(config, QueueLimits(max_requests=3)), 0.0)
    world.table(0)
    for n in range(3):
        world.ask(f"r{n}", 0.0, model="mn"[n % 2])

    assert "of all models" in rejected(world.ask("more", 0.0)).because
    world.on(ClientGone("r1"), 1.0)
    assert outcomes(world.ask("again", 1.0)) == []


# ---- too late, and when to come back ----


def settled(slots=2, took_s=2.0, count=40, **config):
    """A world whose one replica has answered ``count`` requests in ``took_s`` each and is now full."""
    world = World(**config)
    world.table(0, ("m-1", slots))
    now_s = 0.0
    for n in range(0, count, slots):
        for k in range(slots):
            world.ask(f"w{n + k}", now_s, deadline_s=now_s + 600.0)
        now_s += took_s
        for k in range(slots):
            world.on(UpstreamEnded(f"w{n + k}", 200, 100, 0, 100), now_s)
    for k in range(slots):
        world.ask(f"s{k}", now_s, deadline_s=now_s + 600.0)
    return world, now_s


def test_a_request_that_cannot_be_answered_in_time_is_refused_at_once():
    world, now_s = settled()  # one request a second
    for n in range(10):
        assert outcomes(world.ask(f"r{n}", now_s, deadline_s=now_s + 100.0)) == []

    late = world.ask("late", now_s, deadline_s=now_s + 5.0)
    soon = world.ask("in time", now_s, deadline_s=now_s + 60.0)

    assert outcomes(late) == [("late", Outcome.REJECTED_LATE)]
    assert 4.0 <= rejected(late).retry_after_s <= 12.0
    assert outcomes(soon) == []


def test_without_experience_nobody_is_refused_for_being_late():
    world = busy(slots=1)
    for n in range(50):
        assert outcomes(world.ask(f"r{n}", 0.1, deadline_s=1.0)) == []


def test_who_comes_back_as_told_finds_a_place_and_who_was_not_told_does_not_take_it():
    world, now_s = settled(queue=QueueLimits(max_requests=4))
    for n in range(4):
        world.ask(f"r{n}", now_s)
    refused = rejected(world.ask("first", now_s, again=1))
    assert refused.outcome is Outcome.REJECTED_FULL

    back_s = now_s + refused.retry_after_s
    world.on(UpstreamEnded("s0", 200, 100, 0, 100), back_s - 0.2)  # one place is free now
    assert rejected(world.ask("stranger", back_s - 0.1, again=2)).outcome is Outcome.REJECTED_FULL
    assert outcomes(world.ask("first again", back_s, again=1)) == []


def test_refusals_are_told_moments_one_after_the_other_as_fast_as_the_queue_takes_on():
    world, now_s = settled(queue=QueueLimits(max_requests=4))
    for n in range(4):
        world.ask(f"r{n}", now_s)

    told = [rejected(world.ask(f"x{n}", now_s, again=n)).retry_after_s for n in range(5)]

    assert told == sorted(told)
    assert all(0.8 <= after - before <= 1.3 for before, after in itertools.pairwise(told))


def test_a_place_that_nobody_comes_for_is_given_away_in_the_end():
    world, now_s = settled(queue=QueueLimits(max_requests=1))
    world.ask("waits", now_s)
    refused = rejected(world.ask("told", now_s, again=1))
    world.on(UpstreamEnded("s0", 200, 100, 0, 100), now_s + 0.5)
    due_s = now_s + refused.retry_after_s

    assert outcomes(world.ask("early", due_s, again=2)) != []
    assert outcomes(world.ask("later", due_s + 6.0, again=3)) == []


def test_one_tenants_promises_keep_no_place_from_another():
    world, now_s = settled(queue=QueueLimits(max_requests=4))
    for n in range(4):
        world.ask(f"r{n}", now_s, flow="loud")
    for n in range(50):
        world.ask(f"x{n}", now_s, flow="loud", again=n)

    assert [end for _, end in outcomes(world.ask("quiet", now_s, flow="quiet"))] == [Outcome.REJECTED_FULL]
    assert "quiet" in served(world, "s0", now_s + 1.0, 2)


def test_nobody_serves_and_the_queue_is_full_is_503_and_with_replicas_it_is_429():
    empty = World(queue=QueueLimits(max_requests=1))
    empty.table(0, expected_ready_s=30.0)
    empty.ask("a", 0.0)
    full = busy(queue=QueueLimits(max_requests=1))
    full.ask("a", 0.0)

    nobody, contended = rejected(empty.ask("b", 0.0)), rejected(full.ask("b", 0.0))

    assert MEANING[nobody.outcome].status == 503
    assert nobody.retry_after_s == 30.0
    assert MEANING[contended.outcome].status == 429


def test_a_wait_that_ends_in_vain_is_503_at_zero_replicas_and_429_beside_busy_ones():
    limits = QueueLimits(max_wait_busy_s=20.0, max_wait_starting_s=60.0)
    empty = World(queue=limits)
    empty.table(0)
    assert WakeAt(61.0) in empty.ask("a", 1.0)
    full = busy(queue=limits)
    assert WakeAt(21.0) in full.ask("a", 1.0)

    assert outcomes(empty.on(Tick(), 60.9)) == []
    assert outcomes(empty.on(Tick(), 61.0)) == [("a", Outcome.EXPIRED_NOBODY)]
    assert outcomes(full.on(Tick(), 21.0)) == [("a", Outcome.EXPIRED_QUEUED)]
    assert [MEANING[end].status for end in (Outcome.EXPIRED_NOBODY, Outcome.EXPIRED_QUEUED)] == [503, 429]


def test_the_wait_begins_anew_when_a_replica_comes_to_serve():
    world = World(queue=QueueLimits(max_wait_busy_s=20.0, max_wait_starting_s=600.0))
    world.table(0)
    for n in range(3):
        world.ask(f"r{n}", 0.0)
    assert WakeAt(120.0) in world.table(100.0, ("m-1", 1))

    assert outcomes(world.on(Tick(), 119.0)) == []
    assert len(outcomes(world.on(Tick(), 120.0))) == 2


def test_a_policy_that_lets_nobody_wait_for_so_long_holds_for_those_who_wait():
    world = busy(queue=QueueLimits(max_wait_busy_s=300.0))
    world.ask("a", 0.0)
    shorter = DispatchConfig(queue=QueueLimits(max_wait_busy_s=20.0))

    assert WakeAt(20.0) in world.configure(shorter, 30.0), "a moment that has passed: at once"
    assert outcomes(world.on(Tick(), 30.0)) == [("a", Outcome.EXPIRED_QUEUED)]


def test_a_start_that_takes_longer_than_a_client_waits_is_told_at_once_and_still_wakes_the_model():
    world = World()
    world.table(0, ("m-1", 0, State.STARTING), expected_ready_s=90.0)

    effects = world.ask("a", 0.0, deadline_s=30.0)

    assert outcomes(effects) == [("a", Outcome.REJECTED_NOBODY)]
    assert rejected(effects).retry_after_s == 90.0
    (told,) = [e for e in effects if isinstance(e, Report)]
    assert told.report.models[0].peak == 1  # the controller sees that somebody asked


def test_who_leaves_the_queue_is_never_sent_and_frees_its_place():
    world = busy(queue=QueueLimits(max_requests=1))
    world.ask("a", 0.0)
    world.on(ClientGone("a"), 0.5)

    assert outcomes(world.ask("b", 1.0)) == []
    assert sent(world.on(UpstreamEnded("s0", 200), 2.0)) == [("b", "m-1")]


def test_who_has_no_time_left_for_an_answer_is_not_sent_any_more():
    world, now_s = settled(took_s=2.0)
    world.ask("a", now_s, deadline_s=now_s + 60.0)

    effects = world.on(UpstreamEnded("s0", 200, 100, 0, 100), now_s + 58.5)

    assert sent(effects) == []
    assert outcomes(effects)[1:] == [("a", Outcome.EXPIRED_QUEUED)]


def test_a_retry_is_not_charged_twice_and_goes_before_those_who_had_no_turn():
    world = World()
    world.table(0, ("m-1", 1), ("m-2", 1))
    world.ask("s0", 0.0)
    world.ask("s1", 0.0)
    for n in range(4):
        world.ask(f"a-{n}", 0.0, flow="a")
        world.ask(f"b-{n}", 0.0, flow="b")
    ((first, place),) = sent(world.on(UpstreamEnded("s0", 200, 100, 0, 100), 1.0))
    assert first == "a-0"

    world.on(UpstreamFailed("a-0", Failure.CUT, replica_id=place), 2.0)
    effects = world.on(UpstreamEnded("s1", 200, 100, 0, 100), 2.5)

    assert sent(effects) == [("a-0", "m-2")]


def competing(**config):
    """A replica of 64 slots that computes 10,000 prompt tokens a second, and two tenants that both use it."""
    world = World(prefill_ahead_s=0.5, **config)
    world.table(0, ("m-1", 64))
    now_s = 0.0
    for n in range(40):
        world.ask(f"w{n}", now_s, tokens=1_000, flow="ab"[n % 2])
        world.on(FirstByte(f"w{n}"), now_s + 0.1256)
        world.on(UpstreamEnded(f"w{n}", 200, 1_000, 0, 10), now_s + 0.2)
        now_s += 1.0
    return world, now_s


def test_prompts_that_wait_at_a_replica_are_bounded_where_tenants_compete():
    world, now_s = competing()
    for n in range(20):  # the loud one has more than half of its share
        world.ask(f"x{n}", now_s, tokens=10, flow="loud")
        world.on(FirstByte(f"x{n}"), now_s + 0.0266)

    loud = [sent(world.ask(f"y{n}", now_s + 1.0, tokens=1_000, flow="loud")) for n in range(20)]
    quiet = world.ask("quiet", now_s + 1.0, tokens=1_000, flow="quiet")

    assert 5 <= sum(map(len, loud)) <= 6  # half a second of prompts, and the one that goes beyond
    assert sent(quiet) == [("quiet", "m-1")]  # with little in flight it may come before the fifteen others


def test_a_tenant_that_has_much_leaves_the_last_slots_to_those_who_have_little():
    world, now_s = competing(reserve_share=0.05)
    for n in range(80):
        world.ask(f"x{n}", now_s, tokens=1, flow="a")
        world.on(FirstByte(f"x{n}"), now_s)

    assert world.report(now_s).replicas[0].in_flight == 61
    assert sent(world.ask("quiet", now_s + 1.0, tokens=1, flow="b")) == [("quiet", "m-1")]
    alone = World(reserve_share=0.05)
    alone.table(0, ("m-1", 64))
    assert sum(len(sent(alone.ask(f"x{n}", 0.0, flow="a"))) for n in range(80)) == 64


@pytest.mark.parametrize("flows", [1, 100])
def test_a_tenant_with_many_keys_gains_nothing(flows):
    """Keys carry their tenant's name, so a hundred keys are one flow; the class sees two tenants."""
    world = busy()
    for n in range(200):
        world.ask(f"many-{n}", 1.0, flow="tenant a")
        world.ask(f"one-{n}", 1.0, flow="tenant b")

    order = served(world, "s0", 2.0, 60)

    assert 28 <= sum(name.startswith("many") for name in order) <= 32


def test_every_refusal_says_when_to_come_back():
    world = busy(queue=QueueLimits(max_requests=1))
    world.ask("a", 0.0)
    effects = world.ask("b", 0.0)

    (order,) = [e for e in effects if isinstance(e, Reject)]
    (record,) = [e for e in effects if isinstance(e, Record)]
    assert order.retry_after_s is not None
    assert record.outcome is order.outcome


def test_while_the_fleet_is_at_its_limit_a_lower_class_does_not_queue_behind_a_higher_one():
    world = World()
    world.table(0, ("r", 1), sheds=True)
    world.ask("runs", 0)
    assert sent(world.ask("first", 1, priority=1)) == []
    refusal = rejected(world.ask("low", 2))
    assert (refusal.request_id, refusal.outcome) == ("low", Outcome.REJECTED_FULL)
    assert "at its limit" in refusal.because
    assert outcomes(world.ask("same", 3, priority=1)) == [], "its own class may wait"
    world.table(4, ("r", 1), sheds=False)
    assert outcomes(world.ask("low again", 5)) == []


def test_a_look_foresees_a_refusal_and_promises_nothing():
    world = busy(queue=QueueLimits(max_requests=1))
    world.ask("a", 0.0)

    def foresees(name, now_s, **more):
        fields = {"flow": "default"} | more
        arrived = RequestArrived(name, "m", 100, None, 1_000, 600.0, **fields)
        return world.dispatcher.foresees_refusal(arrived, now_s)

    assert [foresees(f"b{n}", 1.0) for n in range(3)] == [True, True, True]
    assert not foresees("high", 1.0, priority=1)  # it would push the one that waits out
    assert world.report(1.0).models[0].queued == 1
    told = rejected(world.ask("c", 1.0)).retry_after_s
    assert told == pytest.approx(1.0)  # nobody was told a moment before
    assert not foresees("c", 1.0 + told)  # who was told to come is let in
    world.on(UpstreamEnded("s0", 200, 100, 0, 1), 2.0)
    assert not foresees("d", 2.0)


def test_where_nobody_waits_no_refusal_is_foreseen():
    world = busy()

    assert not world.dispatcher.foresees_refusal(RequestArrived("b", "m", 100, None, 1_000, 600.0), 1.0)
    assert not world.dispatcher.foresees_refusal(RequestArrived("b", "?", 100, None, 1_000, 600.0), 1.0)
