"""Other systems' laws choose as those systems do: their own constants, each on a case worked out by hand.

Prompts have blocks of 100 tokens. Dice show 0 unless told: of equals the first is taken.
"""

import pytest

from tidegate.core.dispatch.routing.rivals import RIVALS, rival
from tidegate.core.settings import OWN_ROUTINGS, Routing
from unit.core.dispatch.routing_world import Fixed, chain, rivals_world

TEN = chain(*range(10))
"""A prompt of 1,000 tokens."""
OTHER = chain(*range(100, 110))


def loaded(world, name, requests, **more):
    return [world.give(name, begun=True, **more) for _ in range(requests)]


def test_all_twelve_are_there_by_name():
    assert list(RIVALS) == [
        "round-robin",
        "least-request",
        "power-of-two",
        "least-tokens",
        "consistent-hash",
        "llm-d-sticky",
        "llm-d-blend",
        "dynamo-kv",
        "smg-cache-aware",
        "production-stack-loadaware",
        "aibrix-prefix",
        "preble",
    ]
    by_name = {routing.value.replace("_", "-") for routing in Routing} - {"least-seconds"}
    assert set(RIVALS) == by_name
    assert {routing.value for routing in OWN_ROUTINGS} == {"least_seconds", "least_tokens", "round_robin"}


def test_a_name_that_there_is_none_of_is_told_those_that_there_are():
    with pytest.raises(KeyError, match=r"router is 'pebble'; known are round-robin, .*, preble"):
        rival("pebble", Fixed(), 1_000)


@pytest.mark.parametrize("name", RIVALS)
def test_each_takes_the_only_replica_and_forgets_those_that_are_gone(name):
    world = rivals_world(name, "a", "b")
    world.give("a", chain=TEN)
    world.tell("seats_are", [world.seat("b")], 1.0)

    assert world.pick(chain=TEN, among=["b"]) == "b"


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("tokens", [0, 1])
def test_an_empty_prompt_is_routed_and_nothing_is_divided_by_it(name, tokens):  # F22
    assert rivals_world(name, "a", "b").pick(tokens) in ("a", "b")


# ---- laws that only spread ----


def test_round_robin_takes_each_in_turn_and_passes_over_the_full():
    world = rivals_world("round-robin", "a", "b", "c")

    assert [world.pick() for _ in range(4)] == ["a", "b", "c", "a"]
    assert world.pick(among=["a", "c"]) == "c"
    assert world.pick() == "a"


def test_least_request_counts_requests_and_least_tokens_what_they_weigh():
    for name, expected in (("least-request", "b"), ("least-tokens", "a")):
        world = rivals_world(name, "a", "b")
        loaded(world, "a", 2, tokens=100)
        loaded(world, "b", 1, tokens=5_000)

        assert world.pick() == expected


def test_power_of_two_looks_at_two_and_takes_the_emptier():
    # The dice say 1 twice: "b" first, then the second of the others, which is "c".
    world = rivals_world("power-of-two", "a", "b", "c", face=1)
    loaded(world, "b", 1)

    assert world.pick() == "c"  # "a" is as empty, but was not looked at


def test_consistent_hash_keeps_a_prompts_first_256_tokens_in_one_place():
    world = rivals_world("consistent-hash", *"abcdefgh")
    begins = [chain(n, n + 1, n + 2) for n in range(0, 400, 10)]

    homes = [world.pick(chain=begin + chain(999)) for begin in begins]

    assert homes == [world.pick(chain=begin + chain(777, 778)) for begin in begins]
    assert len(set(homes)) == 8  # 150 places each on the ring: nobody is left out


def test_consistent_hash_goes_on_along_the_ring_past_one_above_its_bound():
    world = rivals_world("consistent-hash", "a", "b")
    home = world.pick(chain=TEN)
    other = "b" if home == "a" else "a"

    # At most max(1.25 x mean, mean + 10): with 20 there and none elsewhere the mean is 10 and the bound is 20.
    loaded(world, home, 20)
    assert world.pick(chain=TEN) == home
    loaded(world, home, 1)
    assert world.pick(chain=TEN) == other

    # With 100 at each the bound is 125 by the factor.
    loaded(world, home, 104)
    loaded(world, other, 75)
    assert world.pick(chain=TEN) == home
    loaded(world, home, 2)
    loaded(world, other, 0)
    assert world.pick(chain=TEN) == other


# ---- llm-d ----


def test_llm_d_sticks_to_a_holder_of_four_fifths_of_the_prompt_and_not_of_less():
    for held, expected in ((8, "b"), (7, "a")):
        world = rivals_world("llm-d-sticky", "a", "b")
        loaded(world, "b", 1, chain=TEN[:held])
        world.give("b", tokens=900)  # 900 uncached tokens in flight

        # Holder of 0.7: 900 + 300 to compute there, 1,000 here. Without affinity the least of those wins.
        assert world.pick(1_000, TEN) == expected, held


def test_llm_d_leaves_a_holder_that_is_later_by_more_than_18_seconds():
    for uncached, expected in ((286_704, "b"), (286_705, "a")):  # 18 s at 15,928 tokens/s
        world = rivals_world("llm-d-sticky", "a", "b")
        loaded(world, "b", 1, chain=TEN)
        world.give("b", tokens=uncached)

        assert world.pick(1_000, TEN) == expected, uncached


def test_llm_d_lets_go_of_a_prompts_work_at_its_first_token():
    world = rivals_world("llm-d-sticky", "a", "b")
    entry = world.give("b", tokens=5_000)
    world.give("a", tokens=100)
    assert world.pick() == "a"

    world.begin("b", entry)

    assert world.pick() == "b"


def test_llm_d_remembers_two_million_tokens_of_each_replica():
    world = rivals_world("llm-d-sticky", "a", "b")
    loaded(world, "b", 1, chain=TEN)
    for n in range(100):
        loaded(world, "b", 1, tokens=20_000, chain=chain(*range(1_000 + 200 * n, 1_200 + 200 * n)))

    # 31,250 blocks of 64 tokens: with 2,000,000 tokens more, the first 1,000 are the oldest.
    assert world.picker.books.matched(world.entry(1_000, TEN), world.seats) == [0, 0]


def test_llm_d_looks_at_131072_tokens_of_a_prompt_at_most():
    long = chain(*range(1_700))
    world = rivals_world("llm-d-sticky", "a", "b")
    loaded(world, "b", 1, tokens=170_000, chain=long)
    world.give("b", tokens=50_000)

    # All of it is there, and 131,072 of 170,000 are 0.77: no affinity.
    assert world.pick(170_000, long) == "b"  # 50,000 + 38,928 is less than 170,000
    world.give("b", tokens=90_000)
    assert world.pick(170_000, long) == "a"
    assert world.pick(160_000, long[:1_600]) == "b"  # 0.82


def test_llm_ds_blend_weighs_prefix_3_queue_2_memory_2():
    # "b" has the prompt (3) and a queue (0 of 2); "a" has neither (0 and 2). Memory decides: 2 x its free share.
    for held, expected in ((99_000, "b"), (101_000, "a")):
        world = rivals_world("llm-d-blend", "a", "b", kv_tokens=200_000)
        loaded(world, "b", 1, tokens=1_000, chain=TEN)
        world.give("b", tokens=held - 1_000)

        # 3 + 2 x (1 - held / 200,000) against 2 + 2 x 1: equal at 100,000.
        assert world.pick(1_000, TEN) == expected, held


def test_llm_ds_blend_sends_prompts_that_nobody_has_where_none_went_for_longest():
    world = rivals_world("llm-d-blend", "a", "b", "c", face=0)

    found = []
    for n in range(6):
        name = world.pick(chain=chain(1_000 + n))
        world.end(name, world.give(name, chain=chain(1_000 + n)))
        found.append(name)

    assert found == ["a", "b", "c", "a", "b", "c"]


# ---- Dynamo ----


def test_dynamo_adds_prefill_to_decode_and_credits_what_is_cached():
    # For 1,000 tokens of which 600 are at "b": 400 to compute + what is decoded there + 400 new; at "a": 2,000.
    for decoded, expected in ((1_199, "b"), (1_201, "a")):
        world = rivals_world("dynamo-kv", "a", "b")
        world.end("b", world.give("b", chain=TEN[:6]))
        loaded(world, "b", 1, tokens=decoded)

        assert world.pick(1_000, TEN) == expected, decoded


def test_dynamo_counts_a_prompt_as_prefill_until_its_first_token():
    world = rivals_world("dynamo-kv", "a", "b")
    entry = world.give("b", tokens=500)  # 500 to compute, 500 to hold
    loaded(world, "a", 1, tokens=900)
    assert world.pick() == "a"

    world.begin("b", entry)

    assert world.pick() == "b"


def test_dynamos_caches_forget_what_does_not_fit():
    world = rivals_world("dynamo-kv", "a", "b", kv_tokens=1_500)
    world.end("b", world.give("b", chain=TEN))
    world.end("b", world.give("b", chain=OTHER))

    # 2,000 tokens do not fit; the ends of the older prompt went first, oldest use first.
    assert world.picker.books.matched(world.entry(1_000, TEN), world.seats) == [0, 500]
    assert world.picker.books.matched(world.entry(1_000, OTHER), world.seats) == [0, 1_000]


# ---- SMG ----


def test_smg_wants_more_than_three_tenths_of_the_prompt():
    for held, expected in ((3, "a"), (4, "b")):
        world = rivals_world("smg-cache-aware", "a", "b")
        loaded(world, "b", 1, chain=TEN[:held])

        assert world.pick(1_000, TEN) == expected, held


def test_smg_spills_above_half_more_than_the_mean_and_64_more_and_the_other_holds_it_then():
    world = rivals_world("smg-cache-aware", "a", "b", "c")
    loaded(world, "c", 1, chain=TEN)
    loaded(world, "c", 95)
    assert world.pick(1_000, TEN) == "c"  # 96 is the mean of 32 and 64

    loaded(world, "c", 1)
    assert world.pick(1_000, TEN) == "a"

    world.give("a", chain=TEN)
    assert world.pick(1_000, TEN) == "a"  # the emptier of two holders


def test_smg_without_a_match_takes_the_emptiest_and_not_the_one_with_the_smallest_tree():  # F14
    world = rivals_world("smg-cache-aware", "a", "b")
    for n in range(5):
        world.end("a", world.give("a", chain=chain(500 + n)))  # "a" knows much
    loaded(world, "b", 2)

    assert world.pick(1_000, TEN) == "a"


# ---- vLLM production-stack ----


def test_production_stack_sets_the_share_that_matched_against_the_share_of_load():
    # 0.5 - (L - mean) / mean against 0 - (0 - mean) / mean, with L requests there and none here: mean = L / 2.
    world = rivals_world("production-stack-loadaware", "a", "b")
    world.end("b", world.give("b", chain=TEN[:5]))
    assert world.pick(1_000, TEN) == "b"

    loaded(world, "b", 1)  # 0.5 - 0.5 / 1 against 0.5: what is there counts as one at least
    assert world.pick(1_000, TEN) == "a"

    loaded(world, "a", 4)
    loaded(world, "b", 4)  # 0.5 - 0.5 / 4.5 against 0.5 / 4.5
    assert world.pick(1_000, TEN) == "b"


# ---- AIBrix ----


def test_aibrix_takes_the_least_loaded_when_eight_requests_lie_between():
    world = rivals_world("aibrix-prefix", "a", "b", "c", "d")
    loaded(world, "a", 7)
    loaded(world, "b", 7)
    loaded(world, "d", 8, chain=TEN)
    loaded(world, "c", 0)
    assert world.pick(1_000, TEN) == "d"  # 8 - 0 is not above 8; mean 5.5 and deviation 3.2 let 8 pass

    loaded(world, "d", 1)
    assert world.pick(1_000, TEN) == "c"


def test_aibrix_leaves_out_who_has_more_than_the_mean_and_one_deviation():
    world = rivals_world("aibrix-prefix", "a", "b", "c", "d")
    loaded(world, "d", 6, chain=TEN)  # mean 1.5, deviation 2.6

    assert world.pick(1_000, TEN) == "a"

    loaded(world, "c", 6, chain=TEN[:2])  # mean 3, deviation 3
    assert world.pick(1_000, TEN) == "d"


def test_aibrix_index_holds_200000_tokens():
    world = rivals_world("aibrix-prefix", "a", "b")
    loaded(world, "b", 1, chain=TEN)
    loaded(world, "b", 1, tokens=200_000, chain=chain(*range(5_000, 7_000)))

    assert world.picker.books.matched(world.entry(1_000, TEN), world.seats) == [0, 0]


# ---- Preble ----


def test_preble_exploits_a_holder_of_more_than_half_however_busy():
    for held, expected in ((6, "b"), (5, "a")):
        world = rivals_world("preble", "a", "b")
        loaded(world, "b", 1, chain=TEN[:held])
        world.give("b", tokens=500_000)

        assert world.pick(1_000, TEN) == expected, held


def test_preble_explores_by_the_work_given_within_three_minutes():
    world = rivals_world("preble", "a", "b")
    world.give("a", tokens=20_000)
    world.now_s = 180.0
    world.give("b", tokens=1_000)
    assert world.pick(1_000, TEN) == "b"

    world.now_s = 180.1  # what "a" was given is out of the window

    assert world.pick(1_000, TEN) == "a"


def test_preble_counts_what_a_full_cache_would_lose():
    world = rivals_world("preble", "a", "b", kv_tokens=2_000)
    world.end("b", world.give("b", tokens=2_000, chain=chain(*range(50, 70))))
    world.now_s = 200.0  # nothing is left in the window
    for _ in range(20):
        world.pick(2_000, chain(*range(50, 70)))  # hits: prompts come again

    assert world.pick(1_000, TEN) == "a"  # as far from the prompt as "b", and with room


def test_prefixes_are_matched_from_the_beginning_and_within_one_tenant():  # F23
    world = rivals_world("smg-cache-aware", "a", "b")
    loaded(world, "b", 1, chain=TEN)

    assert world.picker.books.matched(world.entry(1_000, chain(77) + TEN[1:]), world.seats) == [0, 0]
    assert world.picker.books.matched(world.entry(1_000, TEN, flow="other"), world.seats) == [0, 0]
