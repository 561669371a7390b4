"""Stories of the index of prompts' beginnings: what it finds, what it forgets, and whose it is."""

from itertools import count

from tidegate.core.dispatch.prefix import REPLICAS_MAX, STAMPS_PER_S, PrefixIndex, stamp_of
from tidegate.core.dispatch.shelves import ENTRY_BYTES, SHELF_BYTES

A, B, C = 1, 2, 4
ALL = A | B | C
SPAN_S = 32.0


def use(index, blocks, replica, at_s=0.0, flow="t", births=()):
    index.use(flow, "m", tuple(blocks), replica, stamp_of(at_s), list(births))


def found(index, blocks, flow="t", model="m", replicas=ALL):
    return index.walk(flow, model, tuple(blocks), replicas)


def room_for(entries, shelves=1):
    return PrefixIndex(entries * ENTRY_BYTES + shelves * SHELF_BYTES)


def test_one_walk_finds_how_much_each_replica_has():
    index = PrefixIndex(2**20)
    use(index, [1, 2, 3, 4], A)
    use(index, [1, 2], B)

    assert found(index, [1, 2, 3, 4, 5]) == [(2, B), (4, A)]
    assert found(index, [1, 9]) == [(1, A | B)]
    assert found(index, [9, 1, 2]) == []
    assert found(index, [1, 2, 3], replicas=B | C) == [(2, B)]


def test_another_tenant_and_another_model_find_nothing():
    index = PrefixIndex(2**20)
    use(index, [1, 2], A, flow="one")

    assert found(index, [1, 2], flow="two") == []
    assert found(index, [1, 2], flow="one", model="n") == []


def test_the_least_recently_used_go_first_and_of_a_prompt_its_end():
    index = room_for(400)
    use(index, range(100), A, 0.0)
    use(index, range(1_000, 1_300), A, 1.0)
    use(index, range(50), A, 2.0)  # half of the first is used again
    use(index, range(2_000, 2_020), A, 3.0)  # 20 do not fit; 32 are dropped at once

    assert found(index, range(100)) == [(68, A)]
    assert found(index, range(1_000, 1_300)) == [(300, A)]
    assert index.dropped_total == 32

    use(index, range(3_000, 3_032), A, 4.0)

    assert found(index, range(100)) == [(50, A)]
    assert found(index, range(1_000, 1_300)) == [(286, A)]


def test_a_flood_of_one_tenant_costs_another_nothing_below_its_equal_share():
    index, fresh = room_for(1_000, shelves=2), count(10_000)
    use(index, range(300), A, 0.0, flow="quiet")

    for n in range(2_000):
        use(index, [next(fresh) for _ in range(10)], A, float(n), flow="loud")

    assert found(index, range(300), flow="quiet") == [(300, A)]
    assert index.entries_of("loud") > 600
    assert index.bytes <= index.limit_bytes


def test_unique_prompts_without_end_leave_it_at_its_limit():  # F20
    index, fresh = room_for(500), count()
    for n in range(20_000):
        use(index, [next(fresh), next(fresh)], A, n * 0.001, flow=f"t{n % 3}")
        assert index.bytes <= index.limit_bytes

    assert index.dropped_total > 39_000


def test_a_smaller_limit_holds_at_once():
    index = PrefixIndex(2**20)
    use(index, range(1_000), A)

    index.bound(100 * ENTRY_BYTES + SHELF_BYTES)

    assert index.bytes <= index.limit_bytes
    assert found(index, range(1_000))[0][0] <= 100


def test_a_tenant_that_lost_all_leaves_nothing_behind():
    index = room_for(32, shelves=2)
    use(index, range(20), A, flow="one")
    use(index, range(100, 132), A, 1.0, flow="two")
    use(index, range(200, 232), A, 2.0, flow="two")

    assert index.bytes <= index.limit_bytes
    assert index.entries == index.entries_of("one") + index.entries_of("two")


def test_who_does_not_use_a_block_while_others_do_loses_it_within_two_spans():
    index = PrefixIndex(2**20)
    use(index, [1], A, 1.0)
    use(index, [1], B, 1.0 + SPAN_S)
    assert found(index, [1]) == [(1, A | B)]

    use(index, [1], B, 1.0 + 2 * SPAN_S)

    assert found(index, [1]) == [(1, B)]


def test_the_last_use_is_known_to_the_span():
    index = PrefixIndex(2**20)
    use(index, [1], A, 1.0)
    assert index.last_use("t", "m", 1, A) == STAMPS_PER_S
    assert index.last_use("t", "m", 1, B) == -1
    assert index.last_use("t", "m", 2, A) == -1

    use(index, [1], B, 1.0 + SPAN_S)

    assert index.last_use("t", "m", 1, B) == stamp_of(1.0 + SPAN_S)
    assert index.last_use("t", "m", 1, A) == stamp_of(SPAN_S) - 1  # within the span before


def test_what_turned_out_not_to_be_there_is_forgotten_for_that_replica_alone():
    index = PrefixIndex(2**20)
    use(index, [1, 2, 3], A)
    use(index, [1, 2, 3], B)

    index.forget("t", "m", (2, 3), A)

    assert found(index, [1, 2, 3]) == [(1, A), (3, B)]


def test_blocks_used_before_a_replicas_birth_were_its_predecessors():
    index = PrefixIndex(2**20)
    use(index, [1], A, 1.0)
    use(index, [1], B, 1.0)

    # 40 s later another replica has got A's bit; B uses the block.
    use(index, [1], B, 41.0, births=[(stamp_of(40.0), A), (stamp_of(0.0), B)])

    assert found(index, [1]) == [(1, B)]


def test_use_falls_along_a_chain_so_how_far_it_was_used_since_is_found_by_halving():
    index = PrefixIndex(2**20)
    use(index, range(100), A, 0.0)
    use(index, range(37), A, 50.0)

    since = stamp_of(10.0)
    assert index.depth_since("t", "m", tuple(range(100)), 100, since) == 37
    assert index.depth_since("t", "m", tuple(range(100)), 20, since) == 20
    assert index.depth_since("t", "m", tuple(range(100)), 0, since) == 0
    assert index.depth_since("t", "m", tuple(range(100)), 100, stamp_of(60.0)) == 0


def test_the_last_of_128_replicas_has_a_bit_too():
    index, last = PrefixIndex(2**20), 1 << (REPLICAS_MAX - 1)
    use(index, [1, 2], last, 1.0)
    use(index, [1], last, 1.0 + SPAN_S)

    assert found(index, [1, 2], replicas=(1 << REPLICAS_MAX) - 1) == [(2, last)]
