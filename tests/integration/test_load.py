import asyncio
import itertools
import random

import msgspec
import pytest
from aiohttp import web

from tidegate.cli.load import arrivals, chat, daily_load, day_curve


class SeededDice:
    def __init__(self, seed):
        self._random = random.Random(seed)

    def below(self, bound):
        return self._random.randrange(bound)

    def uniform(self):
        return self._random.random()


async def answer_well(request):
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b'data: {"choices":[]}\n\n')
    # Cut where a reader that looks at single chunks would miss it.
    await response.write(b"data: [DO")
    await asyncio.sleep(0)
    await response.write(b"NE]\n\n")
    return response


async def break_off(request):
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'data: {"error":{"message":"the engine failed"}}\n\n')
    return response


async def hang_up(request):
    request.transport.abort()
    return web.Response()


async def never_end(request):
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.sleep(60)
    return response


@pytest.fixture
async def gateway():
    """A gateway that answers in turn as it is told to."""
    runners = []

    async def start(*manners):
        turn = itertools.cycle(manners)
        asked = []

        async def post(request):
            asked.append(await request.json())
            return await next(turn)(request)

        app = web.Application()
        app.router.add_post("/v1/chat/completions", post)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
        return f"http://127.0.0.1:{runner.addresses[0][1]}", asked

    yield start
    for runner in runners:
        await runner.cleanup()


async def load_until(condition, url):
    """Load the gateway until the condition holds; returns the summary."""
    stop = asyncio.Event()
    load = daily_load(url, "demo", minutes_per_day=1, peak_rps=300, stop=stop, dice=SeededDice(1))
    running = asyncio.create_task(load)
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)
    stop.set()
    return await running


async def test_every_ending_is_counted_once(gateway):
    async def full(request):
        return web.Response(status=429)

    async def wrong(request):
        return web.Response(status=500)

    url, asked = await gateway(answer_well, full, break_off, wrong, hang_up)
    summary = await load_until(lambda: len(asked) >= 50, url)

    assert summary.sent == summary.completed + summary.refused + summary.failed + summary.left
    assert summary.completed >= 9
    assert summary.refused >= 9
    assert summary.failed >= 25
    assert {
        "status 429",
        "status 500",
        "stream broke off",
        "ServerDisconnectedError",
    } <= summary.reasons.keys()
    assert 0 < summary.ttft_p50_s <= summary.ttft_p95_s
    assert {body["model"] for body in asked} == {"demo"}
    assert all(body["stream"] for body in asked)


async def test_a_gateway_that_is_not_there_is_counted_and_nothing_is_raised(unused_tcp_port):
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(0.5, stop.set)
    url = f"http://127.0.0.1:{unused_tcp_port}"

    summary = await daily_load(url, "demo", minutes_per_day=1, peak_rps=300, stop=stop, dice=SeededDice(2))

    assert summary.sent == summary.failed > 0


async def test_answers_that_do_not_end_are_left_when_the_load_stops(gateway, monkeypatch):
    monkeypatch.setattr("tidegate.cli.load.LEAVE_WITHIN_S", 0.1)
    url, asked = await gateway(never_end)
    summary = await load_until(lambda: len(asked) >= 5, url)

    assert summary.left == summary.sent >= 5
    assert summary.failed == 0


async def test_a_busy_client_skips_rather_than_piles_up(gateway, monkeypatch):
    monkeypatch.setattr("tidegate.cli.load.OPEN_MAX", 3)
    monkeypatch.setattr("tidegate.cli.load.LEAVE_WITHIN_S", 0.1)
    url, asked = await gateway(never_end)
    began_s = asyncio.get_running_loop().time()
    summary = await load_until(lambda: asyncio.get_running_loop().time() > began_s + 1, url)

    assert summary.sent == len(asked) == 3
    assert summary.skipped > 0


def test_a_day_has_its_peak_after_lunch_and_nobody_at_three():
    day = day_curve(minutes_per_day=24, peak_rps=10)  # a minute an hour

    assert day.end_s == 24 * 60
    assert day.rate_after((13.7 - 7) * 60) == day.peak_per_s == 10
    assert day.rate_after((27 - 7) * 60) == 0


def test_day_follows_day_with_the_expected_number_of_requests():
    day = day_curve(minutes_per_day=4, peak_rps=50)
    moments = list(itertools.takewhile(lambda at_s: at_s < 2 * day.end_s, arrivals(day, SeededDice(3))))

    assert moments == sorted(moments)
    # A Poisson count is within five of its standard deviations.
    assert abs(len(moments) - 2 * day.expected) < 5 * (2 * day.expected) ** 0.5
    assert any(at_s > day.end_s for at_s in moments)


def test_requests_vary_in_length_and_repeat_with_the_same_dice():
    def bodies(seed):
        dice = SeededDice(seed)
        return [msgspec.json.decode(chat("demo", dice)) for _ in range(200)]

    lengths = [len(body["messages"][0]["content"].split()) for body in bodies(4)]
    assert min(lengths) < 30 < 200 < max(lengths) <= 1_500
    assert len({body["max_tokens"] for body in bodies(4)}) > 50
    assert bodies(4) == bodies(4) != bodies(5)
