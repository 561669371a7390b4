import asyncio
import json
import re
import socket
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from browser.fake_fleet import FakeFleet, decision, model, replica
from tidegate import dashboard
from tidegate.cli.by_hand import ByHand
from tidegate.core.fleet import FleetController, HandNumber
from tidegate.core.lifecycle import State
from tidegate.core.types import ModelId
from tidegate.dashboard import AdminServer, feed
from tidegate.dashboard.guard import HEADERS
from tidegate.dashboard.scaling import Scaled, ScaleOrder
from tidegate.dashboard.server import ASSETS
from tidegate.runtime.clock import WallClock
from tidegate.runtime.controlling import ControlOwner
from tidegate.runtime.hands import HandFile
from tidegate.runtime.journal import NoJournal


@pytest.fixture
def fleet():
    return FakeFleet(
        model("qwen", replica("qwen-1", in_flight=5), replica("qwen-2", State.STARTING), queued=3)
    )


@pytest.fixture
async def admin(fleet):
    server = AdminServer(
        "127.0.0.1", 0, fleet=fleet.fleet, metrics_text=lambda: b"tidegate_up 1\n", recent=fleet.recent
    )
    await server.start()
    yield server
    await server.close()


@pytest.fixture
async def client(admin):
    async with aiohttp.ClientSession(f"http://127.0.0.1:{admin.port}") as session:
        yield session


async def next_event(stream):
    """The next (name, value) of a feed."""
    name = None
    while True:
        line = (await asyncio.wait_for(stream.readline(), 5)).decode().rstrip("\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            return name, json.loads(line.removeprefix("data: "))


async def event_named(wanted, stream):
    while True:
        name, value = await next_event(stream)
        if name == wanted:
            return value


async def test_the_fleet_is_json_that_scripts_can_rely_on(client):
    async with client.get("/fleet") as answer:
        page = await answer.json()

    (told,) = page["models"]
    assert (told["id"], told["desired"], told["because"]) == ("qwen", 2, "12 requests at 8 a replica")
    assert told["queue"]["requests"] == 3
    serving, starting = told["replicas"]
    assert serving["id"] == "qwen-1"
    assert serving["state"] == "serving"
    assert serving["address"] == "127.0.0.1:9001"
    assert (serving["in_flight"], serving["tokens"]) == (5, 1700)
    assert (starting["state"], starting["address"], starting["in_flight"]) == ("starting", None, None)


async def test_metrics_are_passed_on_as_prometheus_text(client):
    async with client.get("/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert await answer.read() == b"tidegate_up 1\n"


@pytest.mark.parametrize(
    "path", ["/", "/fleet", "/metrics", "/health", "/assets/dashboard.js", "/nothing/here"]
)
async def test_every_answer_carries_the_protective_headers(client, path):
    async with client.get(path) as answer:
        assert answer.status == (404 if path == "/nothing/here" else 200)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "unsafe" not in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/", "/fleet", "/metrics", "/feed", "/health", "/assets/dashboard.js"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_nothing_but_reading_is_possible(client, method, path):
    async with client.request(method, path) as answer:
        assert answer.status == 405


class Hand:
    """Takes orders about numbers."""

    def __init__(self):
        self.orders = []

    def scale(self, order):
        if order.model != "qwen":
            raise ValueError("there is no such model")
        self.orders.append(order)
        return Scaled(order.model, 3, "held at 3 by hand until 14:00", 5_000.0)


@pytest.fixture
async def hand(fleet):
    """An admin server through which numbers can be set, and who takes them."""
    taken = Hand()
    server = AdminServer(
        "127.0.0.1", 0, fleet=fleet.fleet, metrics_text=bytes, recent=fleet.recent, scale=taken.scale
    )
    await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        yield session, taken
    await server.close()


async def test_a_number_can_be_set(hand):
    session, taken = hand
    async with session.post("/scale", json={"model": "qwen", "replicas": 3, "for_s": 60.0}) as answer:
        assert (answer.status, await answer.json()) == (
            200,
            {"model": "qwen", "desired": 3, "because": "held at 3 by hand until 14:00", "until_s": 5_000.0},
        )
    assert taken.orders == [ScaleOrder("qwen", 3, 60.0)]


@pytest.mark.parametrize(
    "body",
    [
        {"model": "other", "replicas": 3},
        {"model": "qwen"},
        {"model": "qwen", "replicas": 2.5},
        {"model": "qwen", "replicas": 3, "forever": True},
        [],
    ],
)
async def test_a_bad_order_is_answered_with_what_is_wrong(hand, body):
    session, taken = hand
    async with session.post("/scale", json=body) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]
    assert taken.orders == []


async def test_an_order_is_small(hand):
    session, taken = hand
    async with session.post("/scale", json={"model": "q" * 5_000, "replicas": 1}) as answer:
        assert answer.status == 413
    assert taken.orders == []


@pytest.mark.parametrize(
    "fields, status",
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Host": "evil.example"}, 421),
    ],
)
async def test_no_page_of_another_site_can_set_a_number(hand, fields, status):
    """A browser sends JSON to another site only after asking with OPTIONS, which is refused."""
    session, taken = hand
    body = json.dumps({"model": "qwen", "replicas": 3}).encode()
    async with session.post(
        "/scale", data=body, headers={"Content-Type": "application/json"} | fields
    ) as answer:
        assert answer.status == status
    async with session.options("/scale", headers={"Origin": "http://evil.example"}) as answer:
        assert answer.status == 405
    async with session.get("/scale") as answer:
        assert answer.status == 405
    assert taken.orders == []


async def test_a_number_that_comes_during_a_start_is_put_off_and_the_former_ones_stand(fleet, tmp_path):
    """Former replicas are still being adopted, and what was set by hand before has not been read."""
    kept = HandFile(tmp_path, lambda: 5_000.0)
    kept.keep({ModelId("qwen"): HandNumber(2, 100.0, 700.0)}, 100.0)
    owner = ControlOwner(FleetController(), WallClock(), NoJournal(), fleets={}, publish=[].append)
    early = ByHand(owner, HandFile(tmp_path, lambda: 5_000.0), WallClock(), dict)
    server = AdminServer(
        "127.0.0.1", 0, fleet=fleet.fleet, metrics_text=bytes, recent=fleet.recent, scale=early.scale
    )
    await server.start()
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
        session.post("/scale", json={"model": "qwen", "replicas": 3}) as answer,
    ):
        assert answer.status == 503
        assert "still starting" in (await answer.json())["error"]
    await server.close()
    assert [event.replicas for event in kept.read()] == [2]


async def test_where_nobody_takes_numbers_none_can_be_set(client):
    async with client.post("/scale", json={"model": "qwen", "replicas": 3}) as answer:
        assert answer.status == 405


REBINDING_HOSTS = [
    "evil.example",
    "evil.example:8401",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "localhost@evil.example",
    "user@localhost",
    "localhost/",
    "localhost:80:80",
    "localhost:port",
    "[::1",
    "[::2]",
    "0.0.0.0",
    "2130706433",
    "127.1",
    "10.0.0.7",
    "",
    "ｌocalhost",
]


@pytest.mark.parametrize("host", REBINDING_HOSTS)
@pytest.mark.parametrize("path", ["/", "/fleet", "/feed", "/metrics"])
async def test_another_name_for_this_machine_is_refused(admin, host, path):
    status = await status_of(admin, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")

    assert status in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:8401", "[::1]:8401"])
async def test_the_loopback_names_are_answered_at_any_port(client, host):
    async with client.get("/health", headers={"Host": host}) as answer:
        assert answer.status == 200


async def test_no_host_two_hosts_and_another_sites_target_are_refused(admin):
    for head in (
        "GET /fleet HTTP/1.1\r\n",
        "GET /fleet HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
        "GET http://evil.example/fleet HTTP/1.1\r\nHost: localhost\r\n",
    ):
        assert await status_of(admin, head + "Connection: close\r\n\r\n") in (400, 421)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
async def test_a_page_of_another_site_cannot_fetch(client, headers):
    async with client.get("/fleet", headers=headers) as answer:
        assert answer.status == 403


async def test_a_link_from_another_site_may_be_followed(client):
    async with client.get(
        "/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    ) as answer:
        assert answer.status == 200


async def test_a_configured_name_is_answered(fleet):
    server = AdminServer(
        "127.0.0.1", 0, fleet=fleet.fleet, metrics_text=bytes, recent=fleet.recent, names=["tide.internal"]
    )
    await server.start()
    request = "GET /health HTTP/1.1\r\nHost: tide.internal:8401\r\nConnection: close\r\n\r\n"
    assert await status_of(server, request) == 200
    await server.close()


async def test_the_feed_opens_with_everything_and_then_tells_each_second(client, fleet):
    fleet.decisions.append(decision("qwen", 0, 1, at_s=100.0))
    async with client.get("/feed") as answer:
        name, opening = await next_event(answer.content)
        assert name == "opening"
        assert [one["desired"] for one in opening["decisions"]] == [1]
        assert "qwen" in opening["points"]
        assert (await event_named("fleet", answer.content))["models"][0]["queue"]["requests"] == 3

        fleet.models = [replace(fleet.models[0], desired=7)]
        points = await event_named("points", answer.content)
        assert len(points["qwen"]) == 10
        assert (await event_named("fleet", answer.content))["models"][0]["desired"] == 7


async def test_a_decision_is_told_once_and_before_the_next_second(client, fleet):
    async with client.get("/feed") as answer:
        await next_event(answer.content)
        began_s = asyncio.get_running_loop().time()
        fleet.decisions.append(decision("qwen", 2, 4, held_by="max_replicas"))
        told = await event_named("decision", answer.content)
        assert asyncio.get_running_loop().time() - began_s < 0.9
        assert (told["before"], told["desired"], told["held_by"]) == (2, 4, "max_replicas")
        assert told["more"]["replicas"] == 5

        fleet.decisions.append(decision("qwen", 4, 3))
        assert (await event_named("decision", answer.content))["desired"] == 3


async def test_a_fleet_that_cannot_be_read_for_a_moment_does_not_end_the_feed(client, fleet, caplog):
    async with client.get("/feed") as answer:
        await event_named("fleet", answer.content)
        whole, fleet.models = fleet.models, None
        while not caplog.records:
            await asyncio.sleep(0.02)
        fleet.models = whole
        assert (await event_named("fleet", answer.content))["models"][0]["id"] == "qwen"


async def test_too_many_watchers_are_turned_away_and_a_place_is_free_again_when_one_leaves(client, admin):
    watching = [await client.get("/feed") for _ in range(feed.WATCHERS_MAX)]
    async with client.get("/feed") as late:
        assert late.status == 503
        assert late.headers["Retry-After"] == "5"

    watching.pop().close()
    async with asyncio.timeout(5):
        while (await status_and_close(client, "/feed")) != 200:
            await asyncio.sleep(0.05)
    for answer in watching:
        answer.close()


async def test_a_watcher_that_does_not_read_is_cut_off(admin, fleet, monkeypatch):
    monkeypatch.setattr(feed, "PERIOD_S", 0.0)
    monkeypatch.setattr(feed, "DECISIONS_EVERY_S", 0.01)
    # A megabyte a frame fills the sockets' buffers at once.
    fleet.models = [replace(fleet.models[0], because="x" * 1_000_000)]
    reader, writer = await asyncio.open_connection("127.0.0.1", admin.port, limit=1024)
    writer.write(b"GET /feed HTTP/1.1\r\nHost: localhost\r\n\r\n")
    watchers = admin._feed
    async with asyncio.timeout(10):
        while watchers.watchers == 0:
            await asyncio.sleep(0.01)
        while watchers.watchers == 1:
            await asyncio.sleep(0.01)
        # What was sent before the cut may still be read; then the connection is gone.
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1 << 40)
    writer.close()


async def test_closing_ends_open_feeds_properly_and_soon(client, admin):
    async with client.get("/feed") as answer:
        await next_event(answer.content)
        began_s = asyncio.get_running_loop().time()
        await admin.close()
        assert asyncio.get_running_loop().time() - began_s < 2
        async with asyncio.timeout(2):
            await answer.content.read()


async def test_a_taken_port_is_an_error_at_the_start(fleet):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = AdminServer(
            "127.0.0.1", taken.getsockname()[1], fleet=fleet.fleet, metrics_text=bytes, recent=fleet.recent
        )
        with pytest.raises(OSError, match="address already in use"):
            await server.start()
        await server.close()


async def status_and_close(client, path):
    async with client.get(path) as answer:
        return answer.status


async def status_of(server, head):
    """The status of a request that is sent exactly so."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(head.encode())
    line = await asyncio.wait_for(reader.readline(), 5)
    writer.close()
    return int(line.split()[1])


def test_every_asset_is_served_and_asks_for_nothing_from_elsewhere():
    folder = Path(dashboard.__file__).parent / "assets"

    assert {name for name, _ in ASSETS.values()} == {path.name for path in folder.iterdir()}
    for path in folder.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"^\s*//.*", "", text, flags=re.MULTILINE), path.name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|\sstyle=|\son\w+=", text
        )
