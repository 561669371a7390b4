"""What vLLM's KV events say about a cache, in both of the forms in which its versions write them.

The batches were written by msgspec from vLLM's own definitions: an array (0.9 to 0.15) and a map (later).
"""

import pytest

from tidegate.adapters.kv_events import FOLLOWED, MARGIN_S, CacheEdge
from tidegate.core.dispatch.routing.cache import CacheLife
from tidegate.core.events import CacheTold, ModelsConfigured
from unit.core.dispatch.dispatch_world import World
from unit.core.dispatch.routing_world import chain, seconds_world

STORED = bytes.fromhex(
    "93cb3ff80000000000009197ab426c6f636b53746f726564920810c0dc0020000102030405060708090a0b0c0d0e0f101112"
    "131415161718191a1b1c1d1e1f10c0a347505500"
)
REMOVED = bytes.fromhex("93cb40040000000000009193ac426c6f636b52656d6f7665649108a347505500")
CLEARED = bytes.fromhex("93cb400c0000000000009191b0416c6c426c6f636b73436c656172656400")
STORED_MAP = bytes.fromhex(
    "83a27473cb3ff8000000000000a66576656e74739188a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368"
    "657392c4200800000000000000000000000000000000000000000000000000000000000000c4201000000000000000000000"
    "000000000000000000000000000000000000000000b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473"
    "dc0020000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1faa626c6f636b5f73697a6510a76c6f"
    "72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0b2646174615f706172616c6c656c5f72616e6b00"
)
REMOVED_MAP = bytes.fromhex(
    "83a27473cb4004000000000000a66576656e74739183a474797065ac426c6f636b52656d6f766564ac626c6f636b5f686173"
    "68657391c4200800000000000000000000000000000000000000000000000000000000000000a66d656469756da3475055b2"
    "646174615f706172616c6c656c5f72616e6b00"
)


@pytest.mark.parametrize(
    "stored,removed", [(STORED, REMOVED), (STORED_MAP, REMOVED_MAP)], ids=["array", "map"]
)
def test_when_a_block_is_removed_all_that_is_older_is_gone(stored, removed):
    edge = CacheEdge()
    assert edge.take(0, stored, 100.0) is None
    assert edge.take(1, stored, 160.0) is None  # stored again later

    assert edge.take(2, removed, 200.0) == 160.0 - MARGIN_S
    assert edge.take(3, removed, 201.0) is None  # known of no more
    assert edge.malformed_total == 0


def test_what_was_stored_before_we_listened_says_nothing():
    assert CacheEdge().take(7, REMOVED, 50.0) is None


def test_a_cleared_cache_has_nothing_left():
    edge = CacheEdge()
    edge.take(0, STORED, 100.0)

    assert edge.take(1, CLEARED, 120.0) == 120.0
    assert edge.take(2, REMOVED, 130.0) is None


def test_numbers_that_begin_anew_are_an_engine_that_began_anew():
    edge = CacheEdge()
    edge.take(500, STORED, 100.0)

    assert edge.take(0, STORED, 130.0) == 130.0
    assert edge.take(1, REMOVED, 140.0) == 130.0 - MARGIN_S


def test_missed_messages_make_the_edge_late_and_never_wrong():
    edge = CacheEdge()
    edge.take(0, STORED, 100.0)

    assert edge.take(900, REMOVED, 200.0) == 100.0 - MARGIN_S


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x93",
        b"\xc0",
        b"\x93\x01\x91\x91\xa5Other\xc0",
        b"\x92\x01\x91\x92\xacBlockRemoved\x05",
    ],
)
def test_a_message_that_makes_no_sense_is_counted_or_ignored(payload):
    edge = CacheEdge()
    edge.take(0, STORED, 100.0)

    assert edge.take(1, payload, 110.0) is None
    assert edge.take(2, REMOVED, 120.0) == 100.0 - MARGIN_S


def test_one_block_in_eight_is_followed():
    assert FOLLOWED == 8
    edge = CacheEdge()
    edge.take(0, STORED, 100.0)  # blocks 8 and 16
    assert repr(edge) == "<CacheEdge blocks=2>"
    edge.take(1, STORED.replace(b"\x92\x08\x10", b"\x92\x09\x11"), 100.0)  # 9 and 17
    assert repr(edge) == "<CacheEdge blocks=2>"


# ---- what the router makes of it ----


def test_what_was_used_before_the_edge_is_expected_no_more_and_the_rest_is():
    world, old, young = seconds_world("a", "b"), chain(*range(10)), chain(*range(50, 60))
    world.now_s = 10.0
    world.serve("b", 1_000, old)
    world.now_s = 20.0
    world.serve("b", 1_000, young)
    assert world.pick(1_000, old) == "b"

    world.picker.insight.cache_told("b", 15.0)

    assert world.pick(1_000, old) == "a"
    assert world.pick(1_000, young) == "b"


def test_an_edge_never_moves_back():
    life = CacheLife(0.0)
    life.told(80)
    life.told(40)

    assert life.horizon == 80


def test_the_dispatcher_takes_the_fact_and_orders_nothing():
    world = World()
    world.table(0, ("m-1", 4))

    assert world.on(CacheTold("m-1", 3.0), 4.0) == []
    assert world.on(CacheTold("gone", 3.0), 4.0) == []
    world.on(ModelsConfigured({}), 5.0)
    assert world.on(CacheTold("m-1", 3.0), 6.0) == []
