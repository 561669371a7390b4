"""What every backend promises, tried on each of them."""

import asyncio
import signal
import time

import aiohttp

from conformance.worlds import SILENT_AFTER_S, Hand, LocalWorld, StaticWorld, launch, stop
from engines.waiting import wait_until
from tidegate.core.lifecycle import Seen
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import FleetModel


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
    crash = await observer.until("r1", world.crash_is)

    assert time.monotonic() - crashed_s < 1.0
    assert crash.detail


async def test_an_engine_that_gives_no_answer_is_a_fact_within_the_span_and_goes_on_until_it_is_stopped(
    fleet, observer, world
):
    await fleet.open(observer)
    launch(fleet, "r1")
    launch(fleet, "r2")
    ready = await observer.until("r1", Seen.READY)
    await observer.until("r2", Seen.READY)

    world.signal(ready.address, signal.SIGSTOP)
    stopped_s = time.monotonic()
    fact = await observer.until("r1", Seen.UNRESPONSIVE)

    # A check may have been answered just before, and the next one is a second away.
    assert SILENT_AFTER_S * 0.9 < time.monotonic() - stopped_s < SILENT_AFTER_S + 2.0
    assert "no answer for 2." in fact.detail
    assert Seen.EXITED not in observer.history("r1")
    stop(fleet, "r1")
    ordered_s = time.monotonic()
    await observer.until("r1", Seen.EXITED)
    assert time.monotonic() - ordered_s < 2.0
    assert Seen.UNRESPONSIVE not in observer.history("r2")


async def test_an_engine_that_only_pauses_is_no_fact(fleet, observer, world):
    await fleet.open(observer)
    launch(fleet, "r1")
    ready = await observer.until("r1", Seen.READY)

    world.signal(ready.address, signal.SIGSTOP)
    await asyncio.sleep(SILENT_AFTER_S * 0.6)
    world.signal(ready.address, signal.SIGCONT)
    await asyncio.sleep(SILENT_AFTER_S + 0.5)

    assert observer.history("r1") == [Seen.STARTING, Seen.READY]


async def test_an_overloaded_engine_is_no_fact(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1")
    ready = await observer.until("r1", Seen.READY)
    url = f"http://{ready.address.host}:{ready.address.port}/v1/completions"
    body = {"prompt": "hello " * 40, "max_tokens": 200, "ignore_eos": True}

    async def ask(session):
        while True:
            async with session.post(url, json=body) as response:
                await response.read()

    async with aiohttp.ClientSession() as session:
        asking = [asyncio.create_task(ask(session)) for _ in range(12)]
        await asyncio.sleep(SILENT_AFTER_S * 2)
        assert observer.history("r1") == [Seen.STARTING, Seen.READY]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def test_a_hung_replica_is_replaced_by_the_controller(fleet, world):
    """The real controller, the real backend, and a stopped process."""
    hand = Hand(fleet, FleetModel("llamacpp", scaling=Scaling(min_replicas=2, max_replicas=2)))
    await fleet.open(hand.see)
    hand.begin()
    await wait_until(lambda: len(hand.serving()) == 2, within_s=20.0, describe=lambda: hand.brain)
    hung = hand.serving()[0]

    world.signal(hung.address, signal.SIGSTOP)
    await wait_until(lambda: hung.replica_id not in hand.ids(), within_s=SILENT_AFTER_S + 2.5)
    if isinstance(world, StaticWorld):
        # Nobody but its operator can start it again.
        world.signal(hung.address, signal.SIGCONT)
    await wait_until(lambda: len(hand.serving()) == 2, within_s=20.0, describe=lambda: hand.brain)

    assert hung.replica_id not in hand.ids()


async def test_the_backend_knows_what_a_replica_was_started_with(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)
    spec = fleet.spec_of("r1")
    fleet.configure([])

    assert spec is not None
    assert fleet.spec_of("r1") is spec
    assert fleet.spec_of("r2") is None


async def test_a_start_that_fails_says_why(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "r1", "broken")

    exited = await observer.until("r1", Seen.EXITED)

    assert Seen.READY not in observer.history("r1")
    assert "exited with code 3 before it was ready" in exited.detail or "Connect call failed" in exited.detail


async def test_what_an_engine_wrote_is_in_no_event_and_can_be_asked_for(fleet, observer, world):
    await fleet.open(observer)
    launch(fleet, "r1", "broken")
    await observer.until("r1", Seen.EXITED)

    assert "no weights here" not in repr(observer.events)
    if isinstance(world, LocalWorld):
        assert "no weights here" in fleet.last_words("r1")
    assert fleet.last_words("nobody") == ""


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
