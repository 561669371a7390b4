"""Whether an engine that serves still answers at all: asked about once a second, for next to nothing.

Any HTTP status is an answer, and even an overloaded engine gives one within milliseconds, from another
place than the one that computes. A stopped process or a wedged event loop gives none. That is a fact to
be reported; what follows from it is the controller's to say.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from tidegate.adapters.base import Adapter, Readiness
from tidegate.backends.engine_client import EngineClient
from tidegate.core.types import Address

_ANY_PATH = "/v1/models"
_ATTEMPTS = 3
"""One connection may be lost, and a check may fall into a pause of ours."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go without an answer."""

    silent_after_s: float = 10.0
    """Nothing but time-outs for so long."""
    gone_after_s: float = 10.0
    """Nothing but refused or broken connections for so long. Shorter where no process can be seen to exit."""
    every_s: float = 1.0


async def until_silent(client: EngineClient, address: Address, adapter: Adapter, patience: Patience) -> str:
    """Returns, once the engine has given no answer for too long, what came instead.

    A time-out fits a measured round trip four times. The first attempts of a silence are short, since a
    lost connection answers no later either; the last one waits for what is left of the span.
    """
    # An engine that may sleep has a path that does not wake it.
    path = adapter.sleep_check_path or _ANY_PATH
    least_s, most_s = 0.1 * patience.silent_after_s, 0.4 * patience.silent_after_s
    round_trip_s = 0.0
    while True:
        await asyncio.sleep(patience.every_s)
        began_s, attempts = time.monotonic(), 0
        timeout_s = min(most_s, max(least_s, 4 * round_trip_s))
        while True:
            asked_s = time.monotonic()
            answer = await client.reach(address, timeout_s, path)
            now_s, attempts = time.monotonic(), attempts + 1
            if answer.readiness is Readiness.READY:
                round_trip_s = now_s - asked_s
                break
            within_s = patience.gone_after_s if answer.is_refused else patience.silent_after_s
            least_attempts = 2 if answer.is_refused else _ATTEMPTS
            if attempts >= least_attempts and now_s - began_s >= within_s:
                return f"no answer for {now_s - began_s:.1f} s, last: {answer.detail}"
            left_s = began_s + patience.silent_after_s - now_s
            timeout_s = timeout_s * 2 if attempts < _ATTEMPTS - 1 else max(least_s, left_s)
            if answer.is_refused:
                await asyncio.sleep(patience.every_s)
