"""Stories of the router that adds up seconds: what weighs, what is learned, and what is forgotten again."""

from dataclasses import replace

import pytest

from tidegate.core.capacity import KNOWN_AFTER
from tidegate.core.dispatch.prefix import REPLICAS_MAX, stamp_of
from tidegate.core.dispatch.routing.cost import TIE_S
from tidegate.core.dispatch.routing.heat import HALF_REQUESTS, SEEN_LEAST, Heat
from tidegate.core.dispatch.routing.hits import Hits
from tidegate.core.events import UpstreamEnded
from tidegate.core.lifecycle import State
from unit.core.dispatch.routing_world import BLOCK, chain, seconds_world

TEN = chain(*range(10))
"""A prompt of 1,000 tokens."""


def explained(world, tokens=1_000, chain=(), **more):
    entry = world.entry(tokens, chain, **more)
    return {terms.replica_id: terms for terms in world.picker.explain(entry, world.seats, world.now_s)}


def load(world, name):
    return world.picker.insight.loads[name]


# ---- what weighs ----


def test_of_equal_replicas_the_first_is_taken():
    assert seconds_world("a", "b", "c").pick() == "a"


def test_who_has_prompts_waiting_is_later_by_what_they_take():
    world = seconds_world("a", "b")
    world.give("a", tokens=5_000)

    assert world.pick() == "b"
    assert explained(world)["a"].waiting_s == pytest.approx(load(world, "a").capacity.prefill_s(5_000, 0))


def test_sums_that_differ_by_nanoseconds_are_equal():
    world = seconds_world("a", "b")
    world.pick()  # what was learned is taken over once a second
    load(world, "a").k0 += 0.5 * TIE_S
    assert world.pick() == "a"

    load(world, "a").k0 += TIE_S

    assert world.pick() == "b"


def test_a_cached_beginning_is_worth_what_computing_it_would_take_and_no_more():
    world = seconds_world("a", "b")
    world.serve("b", 1_000, TEN)
    assert world.pick(1_000, TEN) == "b"
    assert explained(world, 1_000, TEN)["b"].cached_tokens == 999  # the last token is always computed

    saved_s = load(world, "a").capacity.prefill_s(1_000, 0) - load(world, "a").capacity.prefill_s(1, 999)
    world.give("b", tokens=500)  # half of that is before it
    assert world.pick(1_000, TEN) == "b"
    world.give("b", tokens=1_500)
    assert explained(world, 1_000, TEN)["b"].waiting_s > saved_s

    assert world.pick(1_000, TEN) == "a"


def test_who_computes_a_hot_prefix_has_it_too():
    world = seconds_world("a", "b", "c")
    world.serve("a", 4_000, chain(*range(40)))
    for _ in range(4):
        world.give(world.pick(4_000, chain(*range(40))), 4_000, chain(*range(40)))

    holders = {
        name for name, terms in explained(world, 4_000, chain(*range(40))).items() if terms.cached_tokens
    }
    assert "a" in holders
    assert len(holders) == 1  # a hit takes milliseconds, so waiting for four is shorter than computing it

    world.give("a", tokens=20_000)
    world.serve(world.pick(4_000, chain(*range(40))), 4_000, chain(*range(40)))

    holders = {
        name for name, terms in explained(world, 4_000, chain(*range(40))).items() if terms.cached_tokens
    }
    assert holders == {"a", "b"}


def test_a_batch_that_is_decoded_makes_each_step_longer():
    world = seconds_world("a", "b")
    for _ in range(50):
        world.give("a", tokens=2_000, begun=True)

    assert world.pick() == "b"
    assert explained(world)["a"].interference_s > explained(world)["b"].interference_s == 0.0


def test_the_terms_add_up_to_the_total_and_the_smallest_total_is_chosen():
    world = seconds_world("a", "b", "c")
    world.serve("c", 1_000, TEN)
    world.give("c", tokens=300)
    world.give("a", tokens=4_000, begun=True)
    world.give("b", tokens=700)

    terms = explained(world, 1_000, TEN)

    for each in terms.values():
        assert each.total_s == pytest.approx(sum(each[2:9]))
    assert world.pick(1_000, TEN) == min(terms.values(), key=lambda each: each.total_s).replica_id


@pytest.mark.parametrize("tokens", [0, 1])
def test_an_empty_prompt_goes_by_load(tokens):  # F22
    world = seconds_world("a", "b")
    world.give("a", tokens=2_000)

    assert world.pick(tokens) == "b"


def test_when_memory_is_full_a_prompt_waits_until_others_have_left():
    world = seconds_world("a", "b")
    for name in ("a", "b"):
        load(world, name).capacity.kv_tokens = 10_000.0
        load(world, name).stay_s = 4.0
    world.picker.insight.refresh(1.0)
    world.give("a", tokens=9_500, begun=True)
    world.give("b", tokens=1_000)  # "b" has a prompt before it, and room

    assert explained(world)["a"].waiting_s == pytest.approx(500 * 4.0 / 9_500)
    assert world.pick() == "b"


# ---- whose prompt it is ----


def test_another_tenants_prompt_with_the_same_blocks_is_no_hit():  # F23
    world = seconds_world("a", "b")
    world.serve("b", 1_000, TEN, flow="one")

    assert world.pick(1_000, TEN, flow="two") == "a"
    assert world.pick(1_000, TEN, flow="one") == "b"


def test_a_conversation_stays_where_it_was():  # F17
    world = seconds_world("a", "b", "c")
    world.serve("c", 500, chain(*range(5)), took_s=0.05)
    for turn in range(10):
        blocks = chain(*range(5 + 2 * turn))
        assert world.pick(BLOCK * len(blocks) + 50, blocks) == "c"
        world.serve("c", BLOCK * len(blocks) + 50, blocks, took_s=0.03)


# ---- what engines say of their caches ----


def test_a_first_contradiction_of_what_is_young_drops_what_was_used_no_later():  # F16
    world, other = seconds_world("a", "b"), chain(*range(50, 60))
    world.serve("b", 1_000, other, cached=0)
    world.serve("b", 1_000, TEN, cached=0)
    world.now_s += 1.0
    assert world.pick(1_000, other) == "b"

    # The engine began anew meanwhile: of a beginning that was used a second ago nothing is there.
    world.serve("b", 1_000, TEN, cached=0)

    assert world.pick(1_000, other) == "a"
    assert world.pick(1_000, TEN) == "b"  # and that was computed since


def test_a_replica_that_leaves_the_table_and_comes_back_is_empty():  # F16
    world = seconds_world("a", "b")
    world.serve("b", 1_000, TEN)
    world.now_s += 5.0
    world.tell("seats_are", [world.seat("a")], world.now_s)
    world.tell("seats_are", world.seats, world.now_s)

    assert world.pick(1_000, TEN) == "a"


def test_a_replica_that_has_slept_is_empty_and_one_that_was_warm_is_not():
    world = seconds_world("a", "b")
    world.serve("b", 1_000, TEN)
    world.seats[0].has_served = world.seats[1].has_served = True
    for state, place in ((State.WARM, "b"), (State.SLEEPING, "a")):
        for now in (state, State.SERVING):
            world.now_s += 1.0
            seat = world.seat("b")
            seat.told(replace(seat.route, state=now), seat.number)
            world.tell("seats_are", world.seats, world.now_s)

        assert world.pick(1_000, TEN) == place
    assert [seat.has_served for seat in world.seats] == [True, False]  # it begins with few requests again


def test_a_new_replica_inherits_nothing_of_one_that_is_gone():
    world = seconds_world("a", "b")
    world.serve("b", 1_000, TEN)
    world.now_s += 5.0
    world.seats = [world.seat("a"), *seconds_world("c").seats]
    world.tell("seats_are", world.seats, world.now_s)

    assert explained(world, 1_000, TEN)["c"].cached_tokens == 0


def test_a_prompt_that_was_never_computed_there_is_forgotten():
    world = seconds_world("a", "b")
    entry = world.give("b", 1_000, TEN)

    world.leave("b", entry)  # cancelled before its first token

    assert explained(world, 1_000, TEN)["b"].cached_tokens == 0


def test_how_long_blocks_live_is_learned_from_what_was_gone():
    world, life = seconds_world("a", "b"), None
    for n in range(60):
        session = chain(*range(100 * n, 100 * n + 10))
        world.serve("b", 1_000, session, cached=0)
        if n >= 20:
            # What was asked for 20 sessions ago is gone: 20,000 tokens were written since.
            world.serve("b", 1_000, chain(*range(100 * (n - 20), 100 * (n - 20) + 10)), cached=0)
            life = load(world, "b").cache.life_tokens

    assert life is not None
    assert 2_000 <= life <= 60_000


def test_a_table_that_changes_nothing_leaves_no_trace():
    worlds = [seconds_world("a", "b") for _ in range(2)]
    for n in range(40):
        for world in worlds:
            world.serve(world.pick(), 700, took_s=0.05)
        worlds[1].tell("seats_are", worlds[1].seats, worlds[1].now_s)

        assert explained(worlds[0]) == explained(worlds[1]), n


# ---- how fast they are ----


def told(world, name, tokens=2_000, times=1.0, law=0.12):
    """A request that takes so many times 0.12 s; a fiftieth of a second lies between two that teach."""
    entry = world.give(name, tokens)
    world.now_s += times * law
    world.end(name, entry)
    world.now_s += 0.03


def test_a_wrong_prior_is_no_replicas_own_fault():
    world = seconds_world("a", "b", "c")
    for n in range(120):
        told(world, "abc"[n % 3], 2_000, 0.25)  # four times as fast as the prior says, all of them
        world.pick()

    assert [load(world, name).pace for name in "abc"] == pytest.approx([1.0, 1.0, 1.0], abs=0.1)
    assert load(world, "a").capacity.prefill_s(2_000, 0) == pytest.approx(0.03, rel=0.1)


def settled(*names):
    """Replicas that are known to take 0.12 s for 2,000 tokens."""
    world = seconds_world(*names)
    world.now_s = 40.0
    for n in range(60 * len(names)):
        told(world, names[n % len(names)])
        world.pick()
    return world


def test_a_step_is_learned_without_the_prompts_that_were_computed_in_it():
    """A step takes 8 ms, and an answer of 100 tokens shares its life with ten prompts of 0.12 s each."""
    world = seconds_world("a")
    world.now_s = 40.0
    for _ in range(60):
        prompt = world.give("a", 2_000)
        world.now_s += 0.12
        world.end("a", prompt, output=1)
        world.now_s += 0.03
        world.pick()  # it takes over what was learned
    for _ in range(60):
        asked = world.give("a", 2_000)
        world.now_s += 0.12
        world.begin("a", asked)
        for _ in range(10):
            beside = world.give("a", 2_000)
            world.now_s += 0.12
            world.end("a", beside, output=1)
            world.now_s += 0.078
        ended = UpstreamEnded(asked.request_id, 200, 2_000, None, 100)
        world.tell("answered", asked, "a", world.now_s, ended)
        world.leave("a", asked)

    # 1.98 s for 99 tokens, and 1.2 s of them for prompts, but for what these share with any step.
    assert load(world, "a").capacity.step_s(1, 2_000) == pytest.approx(0.009, abs=0.002)


def test_one_strange_run_does_not_make_a_replica_slow_and_several_do():
    world = settled("a", "b")
    told(world, "a", times=8.0)
    assert load(world, "a").pace == pytest.approx(1.0, abs=0.05)

    for _ in range(6):
        told(world, "a", times=5.0)
        world.now_s += 1.0
        world.pick()

    assert load(world, "a").pace > 2.5
    assert load(world, "b").pace == pytest.approx(1.0, abs=0.05)
    assert explained(world)["a"].slowness_s > explained(world)["b"].slowness_s
    assert world.pick() == "b"


def test_a_mark_of_slowness_expires_by_itself():
    world = settled("a", "b")
    for _ in range(6):
        told(world, "a", times=5.0)
        world.now_s += 1.0
        world.pick()
    pace = load(world, "a").pace

    world.now_s += 11.0
    world.pick()
    assert load(world, "a").pace == pytest.approx(1.0 + 0.5 * (pace - 1.0))
    for _ in range(10):
        world.now_s += 11.0
        world.pick()

    assert load(world, "a").pace == pytest.approx(1.0, abs=0.01)


def test_who_is_late_with_a_first_token_is_taken_to_need_as_long_again():
    world = settled("a", "b")
    world.give("a", 2_000)
    world.now_s += 3.0

    assert explained(world)["a"].waiting_s == pytest.approx(3.0, abs=0.3)
    assert world.pick() == "b"


def test_a_large_replica_gets_more_than_a_small_one():  # F9
    world = seconds_world("a", gpu="h100x8")
    small = seconds_world("b", gpu="l4x1").seats
    world.seats += small
    world.tell("seats_are", world.seats, 0.0)
    world.now_s = 40.0
    for _ in range(80):
        told(world, "a", 2_000, 0.25)
        told(world, "b", 2_000, 1.0)
        world.pick()

    places = []
    for _ in range(30):
        places.append(world.pick(2_000))
        world.give(places[-1], 2_000)
    assert 3.0 <= places.count("a") / places.count("b") <= 7.0  # a whole prompt more or less


def test_a_newcomers_first_seconds_teach_nothing_once_others_are_known():
    world = settled("a", "b")
    known_s = load(world, "a").capacity.prefill_s(2_000, 0)
    world.seats += seconds_world("c").seats
    world.tell("seats_are", world.seats, world.now_s)
    for _ in range(3 * KNOWN_AFTER):
        told(world, "c", times=5.0)
        world.pick()

    # 100 requests at 5 x 0.12 s are a minute: what came before it had settled taught nothing.
    assert load(world, "c").pace > 2.0
    assert load(world, "a").capacity.prefill_s(2_000, 0) < 2.0 * known_s


# ---- the sums that are told ----


def test_prediction_and_truth_are_counted_in_tokens():
    hits = Hits()
    for _ in range(105):
        hits.note(1_000, 900, 10, 950)

    assert (hits.requests, hits.predicted_tokens, hits.real_tokens) == (105, 94_500, 1_050)


def test_an_engine_without_a_cache_is_told_of_though_soon_nothing_is_expected_of_it():  # F18, F16
    world = seconds_world("a")
    fifty = chain(*range(50))
    for _ in range(21):
        world.serve("a", 5_000, fifty, cached=0)
        world.now_s += 1.0
    hits = world.picker.insight.recall.hits
    assert hits.warning is None  # of 100,000 tokens that were there before; old ones fade, so a little less

    for _ in range(100):
        world.serve("a", 5_000, fifty, cached=0)
        world.now_s += 1.0

    assert hits.predicted_tokens < 50_000
    assert "that the same replica had computed before 0.0% were found in its cache" in hits.warning
    for _ in range(10):
        world.serve("a", 5_000, fifty, cached=4_990)
    assert hits.warning is None


def test_prompts_that_nobody_saw_before_are_no_finding():
    world = seconds_world("a")
    for n in range(300):
        world.serve("a", 1_000, chain(*range(10 * n, 10 * n + 10)), cached=0)

    assert world.picker.insight.recall.hits.warning is None


def test_a_weekend_without_a_request_is_followed_by_requests_as_before():
    world = seconds_world("a", "b")
    for name in ("a", "b"):
        world.serve(name, 5_000)
    world.now_s += 3 * 86_400

    for _ in range(3):
        world.serve(world.pick(5_000), 5_000)

    assert load(world, "a").recent == pytest.approx(2 * load(world, "b").recent, rel=0.1)


def test_more_replicas_than_the_index_has_bits_for_are_used_and_leave_the_others_right():
    world = seconds_world(*[f"x-{n:03}" for n in range(REPLICAS_MAX + 2)])

    for n in range(3):
        world.serve(f"x-{REPLICAS_MAX + n % 2}", 1_000, TEN)
    assert not [terms for terms in explained(world, 1_000, TEN).values() if terms.cached_tokens]

    world.serve("x-000", 1_000, TEN)
    world.serve(f"x-{REPLICAS_MAX}", 1_000, TEN)
    assert [name for name, terms in explained(world, 1_000, TEN).items() if terms.cached_tokens] == ["x-000"]


def test_stamps_are_an_eighth_of_a_second():
    assert stamp_of(1.0) - stamp_of(0.875) == 1


# ---- hot beginnings ----


HOT = chain(*range(40))
"""4,000 tokens that many prompts begin with."""


def played(world, share, requests=200, gap_s=0.05):
    """Requests of which ``share`` begin alike, each answered in time; where each went, hot and cold."""
    hot, cold = [], []
    for n in range(requests):
        is_hot = int((n + 1) * share) > int(n * share)
        blocks = HOT + chain(1_000 + n) if is_hot else chain(*range(50_000 + 50 * n, 50_041 + 50 * n))
        name = world.pick(4_100, blocks)
        (hot if is_hot else cold).append(name)
        entry = world.give(name, 4_100, blocks)
        world.now_s += gap_s
        world.end(name, entry, cached=None)
    return hot, cold


def test_a_beginning_that_draws_most_of_the_traffic_lives_on_as_many_replicas_as_that_is():  # F12, F25
    world = seconds_world(*"abcdefgh")
    played(world, 0.8, 300)

    terms = explained(world, 4_100, HOT + chain(9_999))
    assert 6 <= sum(each.cached_tokens > 0 for each in terms.values()) <= 7


def test_a_beginning_that_draws_little_stays_on_one_or_two():
    world = seconds_world(*"abcdefgh")
    played(world, 0.1, 300)

    terms = explained(world, 4_100, HOT + chain(9_999))
    assert sum(each.cached_tokens > 0 for each in terms.values()) <= 2


def test_a_conversation_is_no_hot_beginning_however_long():
    world = seconds_world(*"abcd")
    for turn in range(1, 100):
        world.serve("a", 100 * turn, chain(*range(turn)), took_s=0.02)

    assert world.picker.insight.heat.homes(chain(98)[0], 4) == 1
    assert world.pick(10_000, chain(*range(99))) == "a"


def test_what_was_hot_an_hour_ago_is_not():
    heat = Heat()
    for _ in range(100):
        heat.part(7)
    assert heat.homes(7, 8) == 8

    for n in range(2 * HALF_REQUESTS):
        heat.part(None if n % 2 else 1_000 + n)

    assert heat.share(7) == 0.0
    assert heat.homes(7, 8) == 1


def test_before_some_requests_have_come_nothing_is_hot():
    heat = Heat()
    for _ in range(SEEN_LEAST - 1):
        heat.part(7)
    assert heat.homes(7, 8) == 1


def test_a_newcomer_gets_its_share_of_what_is_hot_elsewhere():  # F25
    world = seconds_world("a", "b", "c")
    played(world, 0.9, 200)
    world.seats += seconds_world("d").seats
    world.tell("seats_are", world.seats, world.now_s)

    hot, cold = played(world, 0.9, 40)

    assert (hot + cold).count("d") >= 6
    assert "d" in hot
