"""One file from its source to this disk: many ranges at once, resumed, checked while it comes.

1. A request for the first byte tells the length, the validator and whether ranges work.
2. What a former attempt left is taken up, if it is of the very same file.
3. Connections share the rest (``parts``). Each failed request is made again from the byte it got to.
4. The checksum is computed behind the arriving bytes, from the page cache, and compared at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from tidegate.weights.errors import SourceChanged, WeightsError, WrongChecksum
from tidegate.weights.hashing import Hashing
from tidegate.weights.pace import Pace
from tidegate.weights.partial import About, Partial
from tidegate.weights.parts import Part, Parts
from tidegate.weights.remote import Remote
from tidegate.weights.source import shown
from tidegate.weights.web import READ_BYTES, Again, Waits, Web

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_LEAST_PART_BYTES = 1024 * 1024
_PART_BYTES = 64 * 1024 * 1024
_LOOK_AGAIN_S = 0.05
_NOTE_EVERY_S = 1.0
_CHANGES_MAX = 3


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that is here, whole and as expected."""

    sha256: str
    size: int


class Download:
    """One file on its way."""

    def __init__(
        self,
        web: Web,
        remote: Remote,
        partial: Partial,
        *,
        turns: asyncio.Semaphore,
        connections: int,
        pace: Pace,
        on_bytes: Callable[[int, bool], None],
        on_size: Callable[[int], None],
    ) -> None:
        """``turns`` bounds the connections of all files together, ``connections`` those of this one.

        ``on_bytes`` hears how many more are here (fewer when it starts over), and whether they came just now;
        ``on_size`` hears the length as soon as it is known.
        """
        self._web = web
        self._remote = remote
        self._partial = partial
        self._turns = turns
        self._connections = connections
        self._pace = pace
        self._on_bytes = on_bytes
        self._on_size = on_size
        self._counted = 0
        self._resumed = 0

    async def run(self) -> Fetched:
        """Fetch it; the file is then ``partial.data``.

        Raises:
            WeightsError: it cannot be had.
        """
        for _ in range(_CHANGES_MAX):
            try:
                return await self._once()
            except SourceChanged:
                self._start_over()
            except WrongChecksum:
                resumed, self._resumed = self._resumed, 0
                self._start_over()
                if not resumed:
                    raise
                # Something of it was already here: perhaps that was at fault, and not the source.
            finally:
                self._partial.close()
        raise WeightsError(f"{shown(self._remote.url)} changes while it is fetched")

    def _start_over(self) -> None:
        self._partial.forget()
        self._count(-self._counted)

    def _count(self, count: int, *, came: bool = False) -> None:
        self._counted += count
        self._on_bytes(count, came)

    async def _once(self) -> Fetched:
        if self._remote.size == 0:
            return await self._nothing()
        waits = Waits(self._web.patience)
        while True:
            try:
                async with (
                    self._turns,
                    self._web.request("GET", self._remote.url, extra=_range(0, 1)) as response,
                ):
                    if response.status == 200:
                        return await self._in_one_piece(response)
                    about = self._about(response)
            except Again as again:
                await waits.after(again)
                continue
            return await self._in_parts(about) if about.size else await self._nothing()

    async def _nothing(self) -> Fetched:
        """A file of no bytes, which has no first one to ask for."""
        await asyncio.to_thread(self._partial.begin_anew)
        return await self._checked(0)

    def _about(self, response: aiohttp.ClientResponse) -> About:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
        if found is None or found[3] == "*":
            raise WeightsError(f"{shown(self._remote.url)} does not say how long it is")
        size = int(found[3])
        if self._remote.size is not None and size != self._remote.size:
            raise WrongChecksum(f"{shown(self._remote.url)} has {size} bytes, not {self._remote.size}")
        return About(_validator(response), size)

    # ---- with ranges ----

    async def _in_parts(self, about: About) -> Fetched:
        self._on_size(about.size)
        is_checked = self._remote.is_checked
        self._resumed = await asyncio.to_thread(self._partial.begin, about, is_checked=is_checked)
        self._count(self._resumed - self._counted)
        missing = self._partial.ranges.missing(about.size)
        fair = -(-about.size // self._connections)
        parts = Parts(missing, max(_LEAST_PART_BYTES, min(_PART_BYTES, fair)), _LEAST_PART_BYTES)
        hashing = Hashing(self._partial, about.size, self._remote)
        is_over = asyncio.Event()
        following = asyncio.create_task(self._follow(hashing, is_over))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._connections):
                    group.create_task(self._work(parts, about))
        except* WeightsError as errors:
            raise _first(errors) from None
        except* OSError as errors:
            raise _first(errors) from None
        finally:
            # Waited for and not cancelled: its thread would go on in a file that is closed.
            is_over.set()
            await following
        return await self._checked(about.size, hashing)

    async def _work(self, parts: Parts, about: About) -> None:
        while not parts.is_done:
            part = parts.take(time.monotonic())
            if part is None:
                # Perhaps somebody turns out to be slow.
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            try:
                await self._fill(part, about)
            finally:
                parts.done(part)

    async def _fill(self, part: Part, about: About) -> None:
        waits = Waits(self._web.patience)
        while part.left > 0:
            try:
                asked = _range(part.at, part.end)
                async with self._turns, self._web.request("GET", self._remote.url, extra=asked) as response:
                    self._check_part(response, part, about)
                    await self._take(response, part, waits)
            except Again as again:
                await waits.after(again)

    async def _take(self, response: aiohttp.ClientResponse, part: Part, waits: Waits) -> None:
        # Its end may come nearer while this runs.
        while part.left > 0:
            data = await response.content.read(READ_BYTES)
            if not data:
                if part.left > 0:
                    raise Again(f"{shown(self._remote.url)} ends too early")
                return
            waits.forget()
            data = data[: part.left]
            # Into the page cache, and not by way of a thread: nothing else waits for this process.
            self._partial.write(part.at, data)
            part.at += len(data)
            self._count(len(data), came=True)
            await self._pace.spend(len(data))

    def _check_part(self, response: aiohttp.ClientResponse, part: Part, about: About) -> None:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
        if response.status == 200 or response.status == 416 or found is None:
            raise SourceChanged(f"{shown(self._remote.url)} no longer has what was begun")
        if found[3] != str(about.size) or _validator(response) != about.validator:
            raise SourceChanged(f"{shown(self._remote.url)} is another file now")
        if found[1] is None or int(found[1]) != part.at:
            raise WeightsError(f"{shown(self._remote.url)} sends other bytes than it was asked for")

    async def _follow(self, hashing: Hashing, is_over: asyncio.Event) -> None:
        """Notes and checksum, while bytes arrive and once more when they have."""
        while True:
            is_last = is_over.is_set()
            await asyncio.to_thread(self._partial.note, self._partial.unnoted())
            if is_last:
                return
            await asyncio.to_thread(hashing.upto, self._partial.ranges.frontier)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NOTE_EVERY_S):
                    await is_over.wait()

    # ---- without ----

    async def _in_one_piece(self, response: aiohttp.ClientResponse) -> Fetched:
        """The source knows no ranges: one connection, and nothing to take up after it."""
        await asyncio.to_thread(self._partial.begin_anew)
        self._count(-self._counted)
        length = response.content_length
        if length is not None:
            self._on_size(length)
            if self._remote.size not in (None, length):
                raise WrongChecksum(f"{shown(self._remote.url)} has {length} bytes, not {self._remote.size}")
        at = 0
        while data := await response.content.read(READ_BYTES):
            self._partial.write(at, data)
            at += len(data)
            self._count(len(data), came=True)
            await self._pace.spend(len(data))
        return await self._checked(at)

    async def _checked(self, size: int, hashing: Hashing | None = None) -> Fetched:
        hashing = hashing or Hashing(self._partial, size, self._remote)
        sha256 = await asyncio.to_thread(hashing.finish)
        await asyncio.to_thread(self._partial.settle)
        return Fetched(sha256, size)


def _range(start: int, end: int) -> dict[str, str]:
    return {"range": f"bytes={start}-{end - 1}"}


def _validator(response: aiohttp.ClientResponse) -> str | None:
    """Strong ETag; a weak one says that two files mean the same, not that they have the same bytes."""
    etag = response.headers.get("etag")
    if etag is not None and not etag.startswith("W/"):
        return etag
    return response.headers.get("last-modified")


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
