"""One replica's sleep: its engine is put to sleep and woken as ordered, one order after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

from tidegate.backends import resting
from tidegate.backends.local.model import LocalModel
from tidegate.backends.local.site import Site
from tidegate.backends.local.state import Record
from tidegate.core.events import ReplicaSeen
from tidegate.core.lifecycle import Seen
from tidegate.core.types import ReplicaId

log = logging.getLogger("tidegate.backends.local")

T = TypeVar("T")


class Sleeper(Protocol):
    """The replica, as far as this needs it."""

    replica_id: ReplicaId
    model: LocalModel
    is_ready: bool

    @property
    def record(self) -> Record: ...

    def write(self, record: Record, what: str) -> None: ...

    def complain(self, detail: str) -> None: ...

    async def unless_over(self, work: Coroutine[Any, Any, T], within_s: float | None) -> T | None: ...


class Sleeping:
    """Whether one replica's engine sleeps, and how deep."""

    def __init__(self, sleeper: Sleeper, site: Site) -> None:
        self._sleeper = sleeper
        self._site = site
        self._orders: asyncio.Queue[int] = asyncio.Queue()
        """Levels to sleep at; 0 is to wake up."""
        self.level: int | None = None
        """At which it sleeps; then its devices are not its own. None: it is awake."""

    def __repr__(self) -> str:
        return f"<Sleeping of {self._sleeper.replica_id}, level {self.level}>"

    def begin(self, level: int) -> None:
        """Have its engine put to sleep; SLEPT or UNRESPONSIVE is reported."""
        self._orders.put_nowait(level)

    def end(self) -> None:
        """Have its engine woken; WOKEN, SLEPT or UNRESPONSIVE is reported."""
        self._orders.put_nowait(0)

    async def ordered(self) -> int:
        """The next order, as soon as there is one."""
        return await self._orders.get()

    async def carry_out(self, order: int) -> None:
        """Do it, unless the replica ends meanwhile."""
        if order:
            await self._fall_asleep(order)
        else:
            await self._wake_up()

    async def _fall_asleep(self, level: int) -> None:
        sleeper = self._sleeper
        if self.level is not None:
            self._report(Seen.SLEPT)
            return
        sleeper.is_ready = False
        self._note(level)
        client, address, adapter = self._site.client, sleeper.record.address, sleeper.model.adapter
        if not await self._succeeds(resting.fall_asleep(client, address, adapter, level), within_s=None):
            return
        self.level = level
        self._site.devices.give_back(sleeper.record.claim)
        self._report(Seen.SLEPT)

    async def _wake_up(self) -> None:
        sleeper, level = self._sleeper, self.level
        if level is None:
            return
        if not self._site.devices.claim(sleeper.record.claim):
            # It can wake on its own devices only: whoever has them now has to go first, or another one is started.
            detail = "it sleeps on: its devices are in use"
            log.info("replica %s: %s", sleeper.replica_id, detail)
            self._site.report(ReplicaSeen(sleeper.replica_id, Seen.SLEPT, detail=detail))
            return
        self.level = None
        client, address, model = self._site.client, sleeper.record.address, sleeper.model
        waking = resting.wake_up(client, address, model.adapter, model.spec, level)
        if not await self._succeeds(waking, within_s=model.start_deadline_s):
            return
        sleeper.is_ready = True
        self._note(None)
        self._site.report(ReplicaSeen(sleeper.replica_id, Seen.WOKEN, address))

    async def _succeeds(self, trying: Coroutine[Any, Any, str | None], within_s: float | None) -> bool:
        """Whether it was done; a problem is complained about, being cut short is not."""
        problem = await self._sleeper.unless_over(_told(trying), within_s)
        if problem:
            self._sleeper.complain(problem)
        return problem == ""

    def _note(self, level: int | None) -> None:
        """Write it down, so that whoever takes over does not ask a sleeping engine for a token."""
        record = msgspec.structs.replace(self._sleeper.record, asleep_at=level)
        self._sleeper.write(record, "its sleep")

    def _report(self, seen: Seen) -> None:
        self._site.report(ReplicaSeen(self._sleeper.replica_id, seen))


async def _told(trying: Coroutine[Any, Any, str | None]) -> str:
    """Empty when it went well: None is kept for what was cut short."""
    return await trying or ""
