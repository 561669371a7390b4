"""Weights from a server that behaves, and from one that does not. Everything that arrives is what was sent."""

import asyncio
import errno
import os
import shutil

import pytest
from aiohttp import web

from integration.weights_world import (
    KEYS,
    MIB,
    REGION,
    Bucket,
    Node,
    Sources,
    host_of,
    noise,
    serving,
    sha256,
)
from tidegate.weights.errors import NoRoom, WeightsError, WrongChecksum
from tidegate.weights.settings import Endpoints
from tidegate.weights.source import parsed
from tidegate.weights.store import Store


@pytest.fixture
def node(tmp_path):
    return Node(Store(tmp_path / "cache"))


@pytest.fixture
async def server():
    async with serving(Sources()) as sources:
        yield sources


async def test_a_large_file_comes_in_many_ranges_at_once_and_each_byte_once(node, server):
    data = server.put("/m.gguf", noise(12 * MIB))

    async def with_pauses(asked, request):
        return await server.send(request, asked, data, pause_s=0.002)

    server.fault(with_pauses)
    ref = await node.fetch(f"{server.url}/m.gguf")

    assert node.read(f"{server.url}/m.gguf") == data
    assert ref.files["m.gguf"].sha256 == sha256(data)
    assert server.most_at_once >= 3
    # One byte to ask with; and on a busy machine one connection may take over from another.
    assert len(data) < server.sent_bytes < 1.5 * len(data)
    assert len(server.ranges("/m.gguf")) >= 4
    assert ref.fetched_bytes == len(data)
    assert ref.fetched_in_s > 0
    assert ref.host == host_of(server.url)
    assert node.told[-1].done_bytes == node.told[-1].total_bytes == len(data)


async def test_what_is_here_is_not_asked_for_again(node, server):
    server.put("/m.gguf", noise(100_000))
    await node.fetch(f"{server.url}/m.gguf")
    server.asked.clear()

    await node.fetch(f"{server.url}/m.gguf")

    assert server.asked == []


async def test_a_renewed_signature_is_the_same_file(node, server):
    server.put("/m.gguf", noise(100_000))
    await node.fetch(f"{server.url}/m.gguf?X-Amz-Signature=one&X-Amz-Date=1")
    server.asked.clear()

    await node.fetch(f"{server.url}/m.gguf?X-Amz-Signature=two&X-Amz-Date=2")

    assert server.asked == []


async def test_the_same_contents_from_elsewhere_take_no_room_twice(node, server):
    server.put("/a/m.gguf", noise(2 * MIB))
    server.put("/b/other.gguf", noise(2 * MIB))
    await node.fetch(f"{server.url}/a/m.gguf")
    before = node.store.room.used_bytes()

    await node.fetch(f"{server.url}/b/other.gguf", sha256(noise(2 * MIB)))

    assert node.store.room.used_bytes() - before < 64 * 1024
    assert node.read(f"{server.url}/a/m.gguf") == node.read(
        f"{server.url}/b/other.gguf", sha256(noise(2 * MIB))
    )


async def test_a_server_without_ranges_is_read_in_one_piece(node, server):
    server.knows_ranges = False
    data = server.put("/m.gguf", noise(3 * MIB))

    await node.fetch(f"{server.url}/m.gguf")

    assert node.read(f"{server.url}/m.gguf") == data
    assert len(server.asked) == 1


async def test_a_file_of_no_bytes(node, server):
    server.put("/empty", b"")

    ref = await node.fetch(f"{server.url}/empty")

    assert ref.files["empty"].size == 0
    assert node.read(f"{server.url}/empty") == b""


async def test_the_wrong_contents_are_refused_and_nothing_is_kept(node, server):
    server.put("/m.gguf", noise(2 * MIB))

    with pytest.raises(WrongChecksum, match=f"has the SHA-256 {sha256(noise(2 * MIB))}, not {'0' * 64}"):
        await node.fetch(f"{server.url}/m.gguf", "0" * 64)

    assert node.store.pin(parsed(f"{server.url}/m.gguf", "0" * 64)) is None
    assert list((node.store.folder / "blobs").iterdir()) == []


async def test_a_connection_that_is_cut_goes_on_where_it_stood(node, server):
    data = server.put("/m.gguf", noise(6 * MIB))

    async def cut(asked, request):
        if asked.range and asked.range[1] - asked.range[0] > MIB:
            return await server.send(request, asked, data, cut_after=300_000)
        return None

    server.fault_once(cut, times=5)
    await node.fetch(f"{server.url}/m.gguf", sha256(data))

    assert node.read(f"{server.url}/m.gguf", sha256(data)) == data
    assert server.sent_bytes < 2 * len(data)


@pytest.mark.parametrize("status, after_s", [(429, "1"), (500, None), (503, "0")])
async def test_a_busy_server_is_asked_again_when_it_says(node, server, status, after_s):
    data = server.put("/m.gguf", noise(2 * MIB))
    loop = asyncio.get_running_loop()
    asked_at = []

    async def busy(asked, request):
        asked_at.append(loop.time())
        headers = {} if after_s is None else {"Retry-After": after_s}
        return web.Response(status=status, headers=headers) if len(asked_at) == 1 else None

    server.fault(busy)
    await node.fetch(f"{server.url}/m.gguf")

    assert node.read(f"{server.url}/m.gguf") == data
    assert asked_at[1] - asked_at[0] >= float(after_s or 0) * 0.99


async def test_a_server_that_stays_busy_is_given_up_with_its_answer(node, server):
    async def busy(asked, request):
        return web.Response(status=503)

    server.fault(busy)

    with pytest.raises(WeightsError, match=r"/m\.gguf answers 503, 4 times in a row"):
        await node.fetch(f"{server.url}/m.gguf?X-Amz-Signature=secret")

    assert len(server.asked) == 4


async def test_a_file_that_changes_while_it_comes_is_begun_anew(node, server):
    old, new = noise(6 * MIB, seed=1), noise(6 * MIB, seed=2)
    server.put("/m.gguf", old)
    ranges = 0

    async def replaced(asked, request):
        nonlocal ranges
        ranges += 1
        if ranges == 4:
            server.put("/m.gguf", new)

    server.fault(replaced)
    await node.fetch(f"{server.url}/m.gguf")

    assert node.read(f"{server.url}/m.gguf") == new


async def test_a_file_that_never_stays_the_same_is_given_up(node, server):
    server.put("/m.gguf", noise(6 * MIB))
    count = 0

    async def restless(asked, request):
        nonlocal count
        count += 1
        server.etags["/m.gguf"] = f'"{count}"'

    server.fault(restless)

    with pytest.raises(WeightsError, match="changes while it is fetched"):
        await node.fetch(f"{server.url}/m.gguf")


async def test_a_slow_connection_is_left_with_little(node, server):
    data = server.put("/m.gguf", noise(16 * MIB))
    slow = []

    async def slowly(asked, request):
        # The first request for a real range crawls: 64 KiB each 0.06 s, 4 s for its 4 MiB.
        if asked.range not in (None, (0, 1)) and not slow:
            slow.append(asked.range)
            return await server.send(request, asked, data, pause_s=0.06)
        return None

    server.fault(slowly)
    async with asyncio.timeout(10):
        await node.fetch(f"{server.url}/m.gguf")

    assert node.read(f"{server.url}/m.gguf") == data
    ((start, end),) = slow
    assert any(start < other < end for other, _ in server.ranges("/m.gguf"))


async def test_a_connection_that_goes_silent_is_replaced(node, server):
    data = server.put("/m.gguf", noise(2 * MIB))

    async def silent(asked, request):
        if asked.range not in (None, (0, 1)):
            await asyncio.sleep(3)
            return web.Response(status=500)
        return None

    server.fault_once(silent)
    await node.fetch(f"{server.url}/m.gguf")

    assert node.read(f"{server.url}/m.gguf") == data


async def test_what_does_not_exist_or_is_forbidden_is_said_once(node, server):
    with pytest.raises(WeightsError, match="404: there is nothing there"):
        await node.fetch(f"{server.url}/gone.gguf")

    async def closed(asked, request):
        return web.Response(status=403)

    server.fault(closed)
    with pytest.raises(WeightsError, match="403: it needs a key") as caught:
        await node.fetch(f"{server.url}/closed.gguf?X-Amz-Signature=secret-signature")
    assert "secret-signature" not in str(caught.value)
    assert len(server.asked) == 2


async def test_nobody_listens(node, tmp_path):
    with pytest.raises(WeightsError, match=r"no connection to 127\.0\.0\.1 .*, 4 times in a row"):
        await node.fetch("http://127.0.0.1:9/m.gguf")


async def test_a_redirect_is_followed_but_not_in_circles_and_not_to_other_schemes(node, server):
    data = server.put("/there/m.gguf", noise(3 * MIB))

    async def elsewhere(asked, request):
        match asked.path:
            case "/m.gguf":
                return web.Response(status=302, headers={"Location": "/there/m.gguf?sig=secret"})
            case "/circle":
                return web.Response(status=302, headers={"Location": "/circle"})
            case "/file":
                return web.Response(status=302, headers={"Location": "file:///etc/passwd"})
        return None

    server.fault(elsewhere)
    await node.fetch(f"{server.url}/m.gguf")

    assert node.read(f"{server.url}/m.gguf") == data
    with pytest.raises(WeightsError, match="redirects more than 5 times"):
        await node.fetch(f"{server.url}/circle")
    with pytest.raises(WeightsError, match="redirects to"):
        await node.fetch(f"{server.url}/file")


async def test_a_second_fetch_takes_up_what_the_first_one_left(node, server):
    data = server.put("/m.gguf", noise(8 * MIB))

    async def slowly(asked, request):
        if asked.range not in (None, (0, 1)):
            return await server.send(request, asked, data, pause_s=0.01)
        return None

    server.fault(slowly)
    first = asyncio.ensure_future(node.fetch(f"{server.url}/m.gguf"))
    while server.sent_bytes < 4 * MIB:
        await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    server.faults.clear()
    sent_before = server.sent_bytes

    ref = await node.fetch(f"{server.url}/m.gguf")

    assert node.read(f"{server.url}/m.gguf") == data
    assert server.sent_bytes - sent_before < 7 * MIB
    assert ref.fetched_bytes < 7 * MIB


async def test_what_was_left_of_another_file_is_not_taken_up(node, server):
    old, new = noise(8 * MIB, seed=1), noise(8 * MIB, seed=2)
    server.put("/m.gguf", old)

    async def slowly(asked, request):
        return await server.send(request, asked, server.files[asked.path], pause_s=0.005)

    server.fault(slowly)
    first = asyncio.ensure_future(node.fetch(f"{server.url}/m.gguf"))
    while server.sent_bytes < 3 * MIB:
        await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    server.faults.clear()
    server.put("/m.gguf", new)

    await node.fetch(f"{server.url}/m.gguf")

    assert node.read(f"{server.url}/m.gguf") == new


async def test_two_at_once_fetch_it_once(tmp_path, server):
    data = server.put("/m.gguf", noise(6 * MIB))
    one, other = Node(Store(tmp_path / "cache")), Node(Store(tmp_path / "cache"))

    await asyncio.gather(one.fetch(f"{server.url}/m.gguf"), other.fetch(f"{server.url}/m.gguf"))

    assert one.read(f"{server.url}/m.gguf") == data
    assert sum(1 for a in server.asked if a.range == (0, 1)) == 1
    assert any(progress.is_waiting for progress in one.told + other.told)


async def test_a_disk_without_room_is_said_before_anything_is_fetched(node, server, monkeypatch):
    server.put("/m.gguf", noise(6 * MIB))
    usage = shutil.disk_usage(node.store.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=4 * MIB))

    with pytest.raises(NoRoom, match="the disk has no room for 6291456 bytes"):
        await node.fetch(f"{server.url}/m.gguf")

    assert server.ranges("/m.gguf") == []


@pytest.mark.parametrize("call, knows_ranges", [("posix_fallocate", True), ("pwrite", False)])
async def test_a_disk_that_fills_up_on_the_way_is_a_reason_and_leaves_nothing_wrong(
    node, server, monkeypatch, call, knows_ranges
):
    data = server.put("/m.gguf", noise(2 * MIB))
    server.knows_ranges = knows_ranges

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(NoRoom, match="the disk has no room for it"):
            await node.fetch(f"{server.url}/m.gguf")
    assert node.store.pin(parsed(f"{server.url}/m.gguf")) is None

    await node.fetch(f"{server.url}/m.gguf")
    assert node.read(f"{server.url}/m.gguf") == data


async def test_a_large_list_of_small_files_is_one_tree(tmp_path):
    async with serving(Bucket()) as bucket:
        bucket.page_size = 50
        for number in range(120):
            bucket.put(f"/models/p/{number:03}.json", noise(number, seed=number))
        node = Node(
            Store(tmp_path / "cache"),
            Endpoints(s3=bucket.url, s3_region=REGION, aws_keys=KEYS),
            connections=8,
        )

        ref = await node.fetch("s3://models/p/")

    assert len(ref.files) == 120
    assert ref.bytes == sum(range(120))
    assert bucket.most_at_once <= 10


async def test_what_was_used_longest_ago_makes_room_and_what_is_in_use_stays(tmp_path, server):
    node = Node(Store(tmp_path / "cache", max_bytes=8 * MIB))
    for number in range(4):
        server.put(f"/{number}.gguf", noise(3 * MIB, seed=number))
    await node.fetch(f"{server.url}/0.gguf")
    pin = node.store.pin(parsed(f"{server.url}/0.gguf"))
    await node.fetch(f"{server.url}/1.gguf")

    await node.fetch(f"{server.url}/2.gguf")

    assert node.store.ref(parsed(f"{server.url}/1.gguf")) is None
    assert node.store.missing_bytes(parsed(f"{server.url}/1.gguf")) == 3 * MIB
    assert pin.path.read_bytes() == server.files["/0.gguf"]
    pin.let_go()
    await node.fetch(f"{server.url}/3.gguf")
    assert node.store.ref(parsed(f"{server.url}/0.gguf")) is None


async def test_nothing_is_thrown_away_for_what_could_not_fit_anyway(tmp_path, server):
    node = Node(Store(tmp_path / "cache", max_bytes=8 * MIB))
    server.put("/small.gguf", noise(2 * MIB))
    server.put("/large.gguf", noise(9 * MIB))
    await node.fetch(f"{server.url}/small.gguf")

    with pytest.raises(NoRoom, match=r"the cache may hold 8388608 bytes \(weights.cache_size\)"):
        await node.fetch(f"{server.url}/large.gguf")

    assert node.store.ref(parsed(f"{server.url}/small.gguf")) is not None


async def test_a_limited_fetch_keeps_its_pace_and_teaches_nothing(node, server):
    server.put("/m.gguf", noise(2 * MIB))
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    ref = await node.fetch(f"{server.url}/m.gguf", bytes_per_s=4 * MIB)

    assert loop.time() - began_s >= 0.3
    assert ref.fetched_bytes == 0
