"""The process that fetches: one order on standard input, lines of JSON on standard output.

It ends when its standard input is closed, so it never outlives who ordered it, however that one died; what
has come is on the disk and is taken up by the next. A line on standard input is a new limit in bytes a
second, or ``null`` for none: somebody has begun to wait for what was only to be here in time.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec

from tidegate.weights.errors import WeightsError
from tidegate.weights.fetching import Fetching, Progress
from tidegate.weights.pace import Pace
from tidegate.weights.protocol import Done, Failed, Going, Order
from tidegate.weights.settings import WeightsSettings, endpoints_from
from tidegate.weights.source import parsed
from tidegate.weights.store import Store

_NICE = 10
"""Engines and the gateway go first."""


def main() -> int:
    """Carry out one order."""
    os.nice(_NICE)
    return asyncio.run(_run())


async def _run() -> int:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    order = msgspec.json.decode(await lines.readline(), type=Order)
    pace = Pace(order.bytes_per_s, time.monotonic)
    fetching = asyncio.ensure_future(_fetch(order, pace))
    listening = asyncio.ensure_future(_listen(lines, pace))
    await asyncio.wait({fetching, listening}, return_when=asyncio.FIRST_COMPLETED)
    if not fetching.done():
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
        return 1
    listening.cancel()
    _tell(fetching.result())
    return 0


async def _fetch(order: Order, pace: Pace) -> Done | Failed:
    settings = WeightsSettings(
        cache_dir=Path(order.cache_dir),
        max_bytes=order.max_bytes,
        connections=order.connections,
        hub_endpoint=order.hub_endpoint,
        s3_endpoint=order.s3_endpoint,
        s3_region=order.s3_region,
    )
    try:
        fetching = Fetching(
            Store(settings.cache_dir, settings.max_bytes),
            parsed(order.source, order.sha256),
            endpoints_from(settings, os.environ),
            connections=settings.connections,
            pace=pace,
            spares_s=order.spares_s,
            tell=lambda progress: _tell(_going(progress)),
        )
        ref = await fetching.run()
    except WeightsError as error:
        return Failed(error.because)
    except OSError as error:
        return Failed(f"the cache of weights cannot be written ({error.strerror})")
    return Done(ref.host, ref.fetched_bytes, ref.fetched_in_s, ref.bytes)


async def _listen(lines: asyncio.StreamReader, pace: Pace) -> None:
    while line := await lines.readline():
        pace.change(msgspec.json.decode(line, type=float | None))


def _going(progress: Progress) -> Going:
    return Going(progress.done_bytes, progress.total_bytes, progress.bytes_per_s, progress.is_waiting)


def _tell(what: Going | Done | Failed) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
