"""A day of clients in minutes: the load of the demo.

An open loop: requests come when the curve says, whether or not the ones before were answered, as people
do. Arrivals are a Poisson process under a daily curve: a morning rise, a flash crowd after lunch, a long
evening, and nobody at three in the morning.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import aiohttp
import msgspec

from tidegate.core.types import Dice
from tidegate.core.windows import percentile
from tidegate.workload.curves import RateCurve
from tidegate.workload.gaps import PoissonGaps, positions
from tidegate.workload.lengths import LogNormal

OPEN_MAX = 2_000
"""Requests this client keeps open; one more is counted as skipped, not sent."""
ANSWER_WITHIN_S = 300.0
LEAVE_WITHIN_S = 5.0
"""After the stop, how long the answers under way may take."""

HOURS = (
    (7.0, 0.15),
    (10.5, 0.8),
    (12.5, 0.55),
    (13.4, 0.6),
    (13.5, 1.0),
    (14.0, 1.0),
    (14.7, 0.6),
    (17.5, 0.5),
    (20.5, 0.65),
    (23.0, 0.2),
    (26.0, 0.0),
    (29.0, 0.0),
    (31.0, 0.15),
)
"""Hour of the day and share of the peak rate. It begins at seven: soon enough something happens."""

PROMPT_WORDS = LogNormal(mean=90.0, cv=1.6, high=1_500)
OUTPUT_TOKENS = LogNormal(mean=140.0, cv=1.2, low=4, high=1_000)
VOCABULARY = ("tide", "gate", "river", "level", "rise", "fall", "open", "close", "harbour", "moon")


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """What became of the requests. sent = completed + refused + failed + left."""

    sent: int
    completed: int
    """Streamed to their end."""
    refused: int
    """Answered with 429 or 503: come again later."""
    failed: int
    left: int
    """Still under way when the load was stopped."""
    skipped: int
    """Never sent, because too many were open here."""
    reasons: dict[str, int]
    """Why requests were refused or failed."""
    ttft_p50_s: float | None
    ttft_p95_s: float | None


def day_curve(minutes_per_day: float, peak_rps: float) -> RateCurve:
    """The rate over one day of this length."""
    hour_s = minutes_per_day * 60.0 / 24.0
    return RateCurve(tuple(((hour - HOURS[0][0]) * hour_s, share * peak_rps) for hour, share in HOURS))


def arrivals(day: RateCurve, dice: Dice) -> Iterator[float]:
    """Seconds from the start at which requests come, for ever: day follows day."""
    for number in itertools.count():
        for at_s in day.moments(positions(PoissonGaps(), dice)):
            yield number * day.end_s + at_s


def chat(model: str, dice: Dice) -> bytes:
    """A streamed chat request of varied length: mostly short, sometimes ten times as long."""
    words = (VOCABULARY[dice.below(len(VOCABULARY))] for _ in range(PROMPT_WORDS.draw(dice)))
    return msgspec.json.encode(
        {
            "model": model,
            "messages": [{"role": "user", "content": " ".join(words)}],
            "max_tokens": OUTPUT_TOKENS.draw(dice),
            "stream": True,
        }
    )


async def daily_load(
    url: str,
    model: str,
    *,
    minutes_per_day: float,
    peak_rps: float,
    stop: asyncio.Event,
    dice: Dice,
    api_key: str | None = None,
) -> LoadSummary:
    """Send a day's requests, again and again, to the gateway at ``url`` until ``stop`` is set.

    Whatever happens to a request is counted; nothing but being cancelled leaves this function.
    """
    client = _Client(url, model, api_key)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    try:
        for at_s in arrivals(day_curve(minutes_per_day, peak_rps), dice):
            if await _set_within(stop, began_s + at_s - loop.time()):
                break
            client.send(chat(model, dice))
        await client.leave()
    finally:
        await client.close()
    return client.summary()


class _Client:
    """Sends requests without waiting for them, and keeps count."""

    def __init__(self, url: str, model: str, api_key: str | None) -> None:
        self._url = f"{url.rstrip('/')}/v1/chat/completions"
        headers = {"Content-Type": "application/json"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=ANSWER_WITHIN_S),
        )
        self._open: set[asyncio.Task[None]] = set()
        self._counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._ttft_s: list[float] = []

    def send(self, body: bytes) -> None:
        """Send it, unless too many are open."""
        if len(self._open) >= OPEN_MAX:
            self._counts["skipped"] += 1
            return
        self._counts["sent"] += 1
        task = asyncio.create_task(self._ask(body))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def leave(self) -> None:
        """Wait a little for what is under way."""
        if self._open:
            await asyncio.wait(self._open, timeout=LEAVE_WITHIN_S)

    async def close(self) -> None:
        """Break off what is still under way."""
        under_way = list(self._open)
        self._counts["left"] += len(under_way)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._session.close()

    def summary(self) -> LoadSummary:
        """What became of all of them."""
        ttft_s = sorted(self._ttft_s)
        return LoadSummary(
            sent=self._counts["sent"],
            completed=self._counts["completed"],
            refused=self._counts["refused"],
            failed=self._counts["failed"],
            left=self._counts["left"],
            skipped=self._counts["skipped"],
            reasons=dict(self._reasons.most_common()),
            ttft_p50_s=percentile(ttft_s, 0.50),
            ttft_p95_s=percentile(ttft_s, 0.95),
        )

    async def _ask(self, body: bytes) -> None:
        try:
            became, reason = await self._read_answer(body)
        except Exception as error:
            # Whatever it is, a load that stops or miscounts because of it would hide it.
            became, reason = "failed", type(error).__name__
        self._counts[became] += 1
        if reason is not None:
            self._reasons[reason] += 1

    async def _read_answer(self, body: bytes) -> tuple[str, str | None]:
        asked_s = asyncio.get_running_loop().time()
        async with self._session.post(self._url, data=body) as answer:
            if answer.status != 200:
                became = "refused" if answer.status in (429, 503) else "failed"
                return became, f"status {answer.status}"
            end = b""
            async for chunk in answer.content.iter_any():
                if not end:
                    self._ttft_s.append(asyncio.get_running_loop().time() - asked_s)
                end = (end + chunk)[-64:]
        # An answer that breaks off ends with an error event, or just ends.
        return ("completed", None) if b"data: [DONE]" in end else ("failed", "stream broke off")


async def _set_within(event: asyncio.Event, delay_s: float) -> bool:
    """Wait; True as soon as the event is set."""
    # Behind schedule, other tasks must still get their turn.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, delay_s)):
            await event.wait()
    return event.is_set()
