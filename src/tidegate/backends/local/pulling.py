"""Has weights fetched: one process for each source on its way, whoever asks for it and how often.

A start that waits gets all the bandwidth there is. What is fetched ahead of need comes slowly, and more slowly
still while a start waits; one source after another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from tidegate.weights.errors import WeightsError
from tidegate.weights.pins import Pin
from tidegate.weights.protocol import Done, Failed, Going, Order, Told
from tidegate.weights.settings import WeightsSettings
from tidegate.weights.source import Source
from tidegate.weights.store import Store

log = logging.getLogger("tidegate.backends.local")

_WHILE_OTHERS_WAIT = 10
"""A fetch ahead of need then gets this part of its bandwidth."""
_ENDS_WITHIN_S = 2.0
"""A process that was asked to end; it has only to close its files."""

_FETCHES_MAX = 2
_SPARED_S = 86_400.0
"""What was used within a day is not thrown away for what nobody waits for: two models would take turns."""

Listen = Callable[[Going], None]


@dataclass(slots=True, eq=False)
class _Job:
    """One source on its way."""

    source: Source
    ended: asyncio.Future[Done | Failed | None]
    """None: it was called off."""
    is_ahead: bool
    """It goes on though nobody waits for it."""
    listeners: list[Listen] = field(default_factory=list)
    """One for each that waits."""
    process: asyncio.subprocess.Process | None = None
    pace: float | None = None
    spares: bool = False
    """It was told to throw nothing away that was used lately."""
    task: asyncio.Task[None] | None = None
    is_called_off: bool = False

    def call_off(self) -> None:
        """End it; once, since a second cancellation would hit the waiting for its end."""
        if self.task is not None and not self.is_called_off:
            self.is_called_off = True
            self.task.cancel()


class Puller:
    """Owns the processes that fetch. Nothing happens until something is asked for."""

    def __init__(self, settings: WeightsSettings, on_fetched: Callable[[Source, Done], None]) -> None:
        """``on_fetched`` hears of each fetch that has ended well."""
        self._settings = settings
        self._on_fetched = on_fetched
        self._jobs: dict[str, _Job] = {}
        self._ahead = asyncio.Lock()
        self.fetches = 0
        self.failures = 0
        self.fetched_bytes = 0

    def __repr__(self) -> str:
        return f"<Puller {len(self._jobs)} on their way>"

    @property
    def store(self) -> Store:
        """What is here. Makes the folders when they are not there."""
        return Store(self._settings.cache_dir, self._settings.max_bytes)

    def configure(self, settings: WeightsSettings) -> None:
        """For what is asked for from now on."""
        self._settings = settings

    async def pull(self, source: Source, listen: Listen) -> Pin:
        """Wait until it is here; it stays while the pin lives.

        Raises:
            WeightsError: it cannot be had.
        """
        fetched = 0
        while fetched < _FETCHES_MAX:
            pin = await asyncio.to_thread(self._pin, source)
            if pin is not None:
                return pin
            ended, spared = await self._wait(source, listen)
            # What was fetched ahead may have failed for want of room that a start does get.
            if isinstance(ended, Failed) and not spared:
                raise WeightsError(ended.because)
            fetched += ended is not None
        raise WeightsError("they were thrown away again as soon as they were here")

    async def fetch_ahead(self, source: Source) -> None:
        """Have it here some time soon, at the pace that is set for that. What fails is logged: the start that
        needs it will say so to whoever waits."""
        async with self._ahead:
            if await asyncio.to_thread(self.store.missing_bytes, source) == 0:
                return
            job = self._job(source, is_ahead=True)
            job.is_ahead = True
            ended = await asyncio.shield(job.ended)
        if isinstance(ended, Failed):
            log.warning("weights from %s cannot be fetched ahead: %s", source.shown, ended.because)

    async def close(self) -> None:
        """End what is on its way; the next fetch takes it up."""
        jobs = list(self._jobs.values())
        for job in jobs:
            job.call_off()
        tasks = [job.task for job in jobs if job.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _pin(self, source: Source) -> Pin | None:
        try:
            return self.store.pin(source)
        except OSError as error:
            raise WeightsError(f"the cache of weights cannot be used ({error.strerror})") from None

    async def _wait(self, source: Source, listen: Listen) -> tuple[Done | Failed | None, bool]:
        job = self._job(source, is_ahead=False)
        job.listeners.append(listen)
        self._set_paces()
        try:
            ended = await asyncio.shield(job.ended)
            return ended, job.spares
        finally:
            job.listeners.remove(listen)
            if not job.listeners and not job.is_ahead:
                job.call_off()
            self._set_paces()

    def _job(self, source: Source, *, is_ahead: bool) -> _Job:
        job = self._jobs.get(source.key)
        if job is None:
            job = _Job(source, asyncio.get_running_loop().create_future(), is_ahead)
            self._jobs[source.key] = job
            job.task = asyncio.create_task(self._run(job), name=f"fetch {source.key}")
        return job

    # ---- the process ----

    async def _run(self, job: _Job) -> None:
        try:
            ended = await self._fetch(job)
        except OSError as error:
            ended = Failed(f"the process that fetches cannot be started ({error.strerror})")
        except Exception as error:
            log.exception("fetching %s failed", job.source.shown)
            ended = Failed(f"the backend failed ({type(error).__name__})")
        except BaseException:
            # Whoever has begun to wait in the meantime begins anew.
            job.ended.set_result(None)
            raise
        finally:
            await self._end(job)
            del self._jobs[job.source.key]
            self._set_paces()
        if isinstance(ended, Done):
            self.fetches += 1
            self.fetched_bytes += ended.fetched_bytes
            self._on_fetched(job.source, ended)
        else:
            self.failures += 1
        job.ended.set_result(ended)

    async def _fetch(self, job: _Job) -> Done | Failed:
        job.pace, job.spares = self._pace_of(job), not job.listeners
        # Our own environment: keys and proxies are in it, and it is our own program.
        job.process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "tidegate.weights",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdout is not None
        self._say(job, msgspec.json.encode(self._order(job)))
        while line := await process.stdout.readline():
            told = msgspec.json.decode(line, type=Told)
            if not isinstance(told, Going):
                return told
            for listen in list(job.listeners):
                listen(told)
        code = await process.wait()
        return Failed(f"the process that fetches has ended with code {code}")

    def _order(self, job: _Job) -> Order:
        settings = self._settings
        return Order(
            source=job.source.written,
            sha256=job.source.sha256,
            cache_dir=str(settings.cache_dir),
            max_bytes=settings.max_bytes,
            connections=settings.connections,
            hub_endpoint=settings.hub_endpoint,
            s3_endpoint=settings.s3_endpoint,
            s3_region=settings.s3_region,
            bytes_per_s=job.pace,
            spares_s=_SPARED_S if job.spares else 0.0,
        )

    def _set_paces(self) -> None:
        for job in self._jobs.values():
            pace = self._pace_of(job)
            if pace != job.pace and job.process is not None:
                job.pace = pace
                self._say(job, msgspec.json.encode(pace))

    def _pace_of(self, job: _Job) -> float | None:
        if job.listeners:
            return None
        is_waited_for = any(other.listeners for other in self._jobs.values())
        return self._settings.prefetch_bytes_per_s / (_WHILE_OTHERS_WAIT if is_waited_for else 1)

    @staticmethod
    def _say(job: _Job, line: bytes) -> None:
        if job.process is not None and job.process.stdin is not None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                job.process.stdin.write(line + b"\n")

    @staticmethod
    async def _end(job: _Job) -> None:
        """It ends by itself when its standard input is closed."""
        process = job.process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_ENDS_WITHIN_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
