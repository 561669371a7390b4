"""What every backend promises, tried on each of them."""

import time

import aiohttp

from conformance.worlds import launch, stop
from engines.waiting import wait_until
from tidegate.core.lifecycle import Seen


async def test_a_launch_makes_a_replica_that_answers(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1")

    ready = await observer.until("r1", Seen.READY)

    assert observer.history("r1") == [Seen.STARTING, Seen.READY]
    async with aiohttp.ClientSession() as session:
        url = f"http://{ready.address.host}:{ready.address.port}/v1/completions"
        async with session.post(url, json={"prompt": "hello", "max_tokens": 4}) as response:
            assert response.status == 200


async def test_orders_are_answered_later_not_inside_the_call(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1")
    launch(fleet, "r2", "nobody's")

    assert observer.events == []


async def test_an_unknown_model_is_an_exit_with_a_reason(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1", "nobody's")

    exited = await observer.until("r1", Seen.EXITED)

    assert "nobody's is not configured" in exited.detail


async def test_launching_a_running_id_again_does_nothing(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1")
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)
    launch(fleet, "r1")
    launch(fleet, "r2")
    await observer.until("r2", Seen.READY)

    assert observer.history("r1") == [Seen.STARTING, Seen.READY]


async def test_two_replicas_listen_at_two_addresses(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1")
    launch(fleet, "r2")

    first = await observer.until("r1", Seen.READY)
    second = await observer.until("r2", Seen.READY)

    assert first.address != second.address


async def test_stopping_is_reported_once_however_often_it_is_ordered(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)
    stop(fleet, "r1")
    stop(fleet, "r1")
    await observer.until("r1", Seen.EXITED)
    stop(fleet, "r1")
    stop(fleet, "never launched")
    await fleet.close()

    assert observer.history("r1") == [Seen.STARTING, Seen.READY, Seen.EXITED]
    assert observer.history("never launched") == []


async def test_a_replica_can_be_stopped_while_it_starts(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1")
    stop(fleet, "r1")

    await observer.until("r1", Seen.EXITED)

    assert Seen.READY not in observer.history("r1")


async def test_a_crash_is_seen_within_a_second(fleet, observer, world):
    await fleet.open(observer)
    launch(fleet, "r1")
    ready = await observer.until("r1", Seen.READY)

    await world.crash(ready.address)
    crashed_s = time.monotonic()
    exited = await observer.until("r1", Seen.EXITED)

    assert time.monotonic() - crashed_s < 1.0
    assert exited.detail


async def test_a_start_that_fails_says_why(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1", "broken")

    exited = await observer.until("r1", Seen.EXITED)

    assert Seen.READY not in observer.history("r1")
    assert (
        "code 3" in exited.detail and "no weights here" in exited.detail
    ) or "Connect call failed" in exited.detail


async def test_metrics_are_reported_while_it_serves(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)

    report = (await wait_until(lambda: observer.reports("r1"), within_s=5.0))[0]

    assert report.running is not None
    assert report.waiting is not None


async def test_closing_ends_every_replica(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1")
    launch(fleet, "r2")
    await observer.until("r1", Seen.READY)

    await fleet.close()
    await fleet.close()

    assert observer.seen("r1", Seen.EXITED)
    assert observer.seen("r2", Seen.EXITED)
