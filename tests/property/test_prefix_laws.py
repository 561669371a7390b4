"""The index of prompts' beginnings agrees with a slow and obvious one, over any order of uses."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.dispatch.prefix import PrefixIndex, stamp_of
from tidegate.core.dispatch.shelves import ENTRY_BYTES, SHELF_BYTES

SPAN_S = 32.0
REPLICAS = 4
ALL = (1 << REPLICAS) - 1


def chains():
    """Prompts that share beginnings: paths in a small tree, each block named by the whole path to it."""

    def named(path):
        return tuple(hash(tuple(path[: n + 1])) & 0xFFFFFFFFFFFF for n in range(len(path)))

    return st.lists(st.integers(0, 2), min_size=1, max_size=6).map(named)


uses = st.lists(
    st.tuples(st.sampled_from(["one", "two"]), chains(), st.integers(0, REPLICAS - 1), st.floats(0.0, 20.0)),
    max_size=40,
)


def played(index, moves):
    """The uses, at growing times; and for each (tenant, block, replica) the last moment."""
    now_s, known = 0.0, {}
    for flow, chain, replica, wait_s in moves:
        now_s += wait_s
        index.use(flow, "m", chain, 1 << replica, stamp_of(now_s), [])
        for block in chain:
            known[flow, block, replica] = now_s
    return now_s, known


@given(uses, chains(), st.sampled_from(["one", "two", "three"]))
def test_with_room_for_all_a_walk_finds_what_was_used_lately_and_nothing_that_was_not(moves, chain, flow):
    index = PrefixIndex(2**20)
    now_s, known = played(index, moves)
    newest = {block: max(known.get((flow, block, r), -1.0) for r in range(REPLICAS)) for block in chain}

    depths = {}
    for depth, bits in index.walk(flow, "m", chain, ALL):
        for replica in range(REPLICAS):
            if bits >> replica & 1:
                depths[replica] = depth

    for replica in range(REPLICAS):
        used = [known.get((flow, block, replica)) for block in chain]
        depth = depths.get(replica, 0)
        assert all(moment is not None for moment in used[:depth])
        # In the span of the block's newest use, or in the one before: it must be there still.
        sure = 0
        for block, moment in zip(chain, used, strict=True):
            if moment is None or int(newest[block] // SPAN_S) - int(moment // SPAN_S) > 0:
                break
            sure += 1
        assert depth >= sure
    assert now_s >= 0.0


@given(uses, st.integers(1, 30))
def test_it_is_never_larger_than_its_limit_and_counts_what_it_has(moves, entries):
    index = PrefixIndex(entries * ENTRY_BYTES + 2 * SHELF_BYTES)
    played(index, moves)

    assert index.bytes <= index.limit_bytes
    assert index.entries == index.entries_of("one") + index.entries_of("two")
    assert index.dropped_total >= 0


@given(uses, st.integers(1, 30))
def test_what_is_left_of_a_prompt_is_always_its_beginning(moves, entries):
    index = PrefixIndex(entries * ENTRY_BYTES + 2 * SHELF_BYTES)
    played(index, moves)

    for flow, chain, _, _ in moves:
        there = [index.stamp(flow, "m", block) for block in chain]
        kept = [stamp >= 0 for stamp in there]
        assert kept == sorted(kept, reverse=True)
        assert [s for s in there if s >= 0] == sorted((s for s in there if s >= 0), reverse=True)


@given(uses, chains(), st.integers(0, 500))
def test_halving_and_counting_agree_on_how_far_a_chain_was_used_since(moves, chain, since):
    index = PrefixIndex(2**20)
    played(index, moves)
    depth = sum(index.stamp("one", "m", block) >= 0 for block in chain)

    counted = 0
    while counted < depth and index.stamp("one", "m", chain[counted]) >= since:
        counted += 1

    assert index.depth_since("one", "m", chain, depth, since) == counted


@settings(max_examples=30)
@given(st.lists(st.integers(1, 60), min_size=2, max_size=4), st.integers(50, 200))
def test_whoever_has_no_more_than_an_equal_share_loses_nothing_to_others(sizes, rounds):
    tenants = [f"t{n}" for n in range(len(sizes))]
    index = PrefixIndex(100 * len(sizes) * ENTRY_BYTES + (len(sizes) + 1) * SHELF_BYTES)
    for tenant, size in zip(tenants, sizes, strict=True):
        index.use(tenant, "m", tuple(range(size)), 1, 1, [])

    for n in range(rounds):
        index.use("flood", "m", tuple(range(1_000 * n, 1_000 * n + 10)), 1, 2 + n, [])

    for tenant, size in zip(tenants, sizes, strict=True):
        assert index.entries_of(tenant) == size
