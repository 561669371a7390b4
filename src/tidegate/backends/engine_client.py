"""Asking engines whether they serve and what they carry; shared by the backends.

Every request opens its own connection: engines close idle ones after 5.0 s, and a probe that is lost
to a stale connection would look like a failed engine.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp
import msgspec

from tidegate.adapters.base import Adapter, Call, EngineMetrics, EngineSpec, Readiness
from tidegate.core.types import Address

_FIRST_TIMEOUT_S = 1.0
_LONGEST_TIMEOUT_S = 30.0
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.04
"""A ready engine is noticed within it. A probe of one that loads is refused at once and costs nothing."""
_BROKEN_FOR_S = 3.0
"""Nothing but final answers (unknown model, engine error) for so long means that waiting is in vain."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one probe."""

    readiness: Readiness
    detail: str
    """In our words, for whoever asks."""
    words: str = ""
    """The engine's own about it. They may hold anything, and are for the admin page alone."""
    is_slow: bool = False
    """No answer within the time given."""
    is_refused: bool = False
    """Nobody listens there."""


class _Card(msgspec.Struct):
    id: str


class _Cards(msgspec.Struct):
    data: list[_Card]


class PageUnread(Exception):
    """An engine's page of metrics gave no good answer."""


class EngineClient:
    """One HTTP session for the probes and scrapes of one backend."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def close(self) -> None:
        """Let go of the sockets."""
        await self._session.close()

    async def probe(
        self, address: Address, adapter: Adapter, spec: EngineSpec, timeout_s: float, lora: str | None = None
    ) -> Answer:
        """Ask for one real token, under this LoRA adapter of ``spec`` if one is named. Never raises for what the engine
        does."""
        probe = adapter.probe(spec.model_name if lora is None else f"{spec.model_name}:{lora}")
        body = adapter.rewrite(probe.body, spec)
        sent = await self._send(probe.method, _url(address, probe.path), body, timeout_s)
        if isinstance(sent, Answer):
            return sent
        status, answer = sent
        return Answer(adapter.readiness(status, answer), f"HTTP {status}", _message(answer))

    async def reach(self, address: Address, timeout_s: float, path: str) -> Answer:
        """Find out whether anybody answers at all; any status will do, and no token is asked for."""
        sent = await self._send("GET", _url(address, path), None, timeout_s)
        return sent if isinstance(sent, Answer) else Answer(Readiness.READY, f"HTTP {sent[0]}")

    async def until_ready(
        self, address: Address, adapter: Adapter, spec: EngineSpec, *, on_answer: Callable[[Answer], None]
    ) -> Answer:
        """Probe until the first token, quickly at first and then less often.

        Runs until cancelled when no answer is final. Each answer goes to ``on_answer``, for whoever
        must say why the deadline passed.
        """
        pause_s, timeout_s, broken_since_s = _FIRST_PAUSE_S, _FIRST_TIMEOUT_S, None
        while True:
            began_s = time.monotonic()
            answer = await self.probe(address, adapter, spec, timeout_s)
            on_answer(answer)
            if answer.readiness is Readiness.READY:
                return answer
            if answer.readiness is not Readiness.BROKEN:
                broken_since_s = None
            elif broken_since_s is None:
                broken_since_s = began_s
            elif began_s - broken_since_s >= _BROKEN_FOR_S:
                return answer
            # A probe cut off makes the engine start over with the next one, so a slow engine is given
            # longer each time, and a measured round trip fits four times into the next timeout.
            round_trip_s = time.monotonic() - began_s
            grown_s = timeout_s * 2 if answer.is_slow else round_trip_s * 4
            timeout_s = min(_LONGEST_TIMEOUT_S, max(timeout_s, grown_s))
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)

    async def control(self, address: Address, calls: Sequence[Call], timeout_s: float) -> str | None:
        """Make these requests to the engine's control API one after the other. None when all were answered with 2xx,
        else in our words what was not."""
        for call in calls:
            sent = await self._send(call.method, _url(address, call.path), call.body or None, timeout_s)
            if isinstance(sent, Answer):
                return f"{call.path}: {sent.detail}"
            if not 200 <= sent[0] < 300:
                return f"{call.path}: HTTP {sent[0]}"
        return None

    async def names(self, address: Address, path: str, timeout_s: float) -> tuple[str, ...] | None:
        """The models that the engine lists there, in OpenAI's shape; None when it does not say."""
        sent = await self._send("GET", _url(address, path), None, timeout_s)
        if isinstance(sent, Answer) or sent[0] != 200:
            return None
        try:
            return tuple(card.id for card in msgspec.json.decode(sent[1], type=_Cards).data)
        except msgspec.DecodeError:
            return None

    async def is_asleep(self, address: Address, adapter: Adapter, timeout_s: float) -> bool | None:
        """What the engine itself says; None when it does not say."""
        api = adapter.sleep_api
        if api is None:
            return None
        sent = await self._send(api.check.method, _url(address, api.check.path), None, timeout_s)
        if isinstance(sent, Answer) or sent[0] != 200:
            return None
        return adapter.is_sleeping(sent[1])

    async def scrape(self, address: Address, adapter: Adapter, timeout_s: float) -> EngineMetrics | None:
        """Read the engine's metrics. None when it has none, or sleeps: never zeros.

        Raises:
            PageUnread: there is no good answer.
        """
        if adapter.metrics_path is None:
            return None
        try:
            async with asyncio.timeout(timeout_s):
                if adapter.sleep_check_path is not None and adapter.is_sleeping(
                    await self._get(address, adapter.sleep_check_path)
                ):
                    return None
                page = await self._get(address, adapter.metrics_path)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise PageUnread from error
        return adapter.metrics(page.decode("utf-8", "replace"))

    async def _send(
        self, method: str, url: str, body: bytes | None, timeout_s: float
    ) -> tuple[int, bytes] | Answer:
        """Status and body, or what to say when there are none."""
        headers = {"content-type": "application/json"} if body is not None else {}
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(
                    method, url, data=body, headers=headers, allow_redirects=False
                ) as response,
            ):
                return response.status, await response.read()
        except TimeoutError:
            return Answer(Readiness.LOADING, f"no answer within {timeout_s:.1f} s", is_slow=True)
        except aiohttp.ClientConnectorError as error:
            return Answer(Readiness.LOADING, f"no connection ({error.os_error.strerror})", is_refused=True)
        except (aiohttp.ClientError, OSError) as error:
            return Answer(Readiness.LOADING, f"connection lost ({type(error).__name__})", is_refused=True)

    async def _get(self, address: Address, path: str) -> bytes:
        async with self._session.get(_url(address, path), allow_redirects=False) as response:
            if response.status != 200:
                raise PageUnread(f"{path}: HTTP {response.status}")
            return await response.read()


def _url(address: Address, path: str) -> str:
    return f"http://{address.url_host}:{address.port}{path}"


def _message(body: bytes) -> str:
    """The engine's error message, shortened."""
    try:
        answer = json.loads(body)
    except ValueError:
        return ""
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message[:200] if isinstance(message, str) else ""
