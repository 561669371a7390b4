"""One replica's life on this machine, owned by one task from the order to the last process's end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from tidegate.backends.local.adapters import Adapters
from tidegate.backends.local.devices import NoDevice
from tidegate.backends.local.engine_start import EngineStart
from tidegate.backends.local.group import Group
from tidegate.backends.local.launching import launch, reserve
from tidegate.backends.local.model import LocalModel
from tidegate.backends.local.ports import NoFreePort
from tidegate.backends.local.processes import Identity
from tidegate.backends.local.provisions import Provision
from tidegate.backends.local.site import Site
from tidegate.backends.local.sleeping import Sleeping
from tidegate.backends.local.state import Record
from tidegate.backends.watching import Patience, until_silent
from tidegate.core.events import ReplicaSeen
from tidegate.core.lifecycle import Seen, State
from tidegate.core.nodes import Place
from tidegate.core.types import Address, ReplicaId
from tidegate.weights.errors import WeightsError
from tidegate.weights.needs import adapter_marks

log = logging.getLogger("tidegate.backends.local")

T = TypeVar("T")

_LOOK_AGAIN_S = 5.0
"""Whether what could not be killed is gone after all."""

_NOTHING_LEFT_S = 0.5
"""Between SIGTERM and SIGKILL for what has failed: nobody waits for an answer from it."""


class Replica:
    """Starts, watches and ends one replica."""

    def __init__(
        self,
        site: Site,
        replica_id: ReplicaId,
        model: LocalModel,
        record: Record | None = None,
        *,
        variant: str = "",
        place: Place | None = None,
    ) -> None:
        """``model`` is how this variant of it is run."""
        self.replica_id = replica_id
        self.model = model
        self._variant = variant
        self.is_ready = False
        self._command_hash = ""
        self._provision: Provision | None = None
        self._site = site
        self._record = record
        self._place = place
        self._group: Group | None = None
        self._stop = asyncio.Event()
        self._is_silent = False
        self._is_closing = asyncio.Event()
        self.sleep = Sleeping(self, site)
        self.adapters = Adapters(self, site.client, site.provisions, site.report)

    def __repr__(self) -> str:
        state = "ready" if self.is_ready else "not ready"
        return f"<Replica {self.replica_id} of {self.model.model}, {state}, {self._group}>"

    @property
    def address(self) -> Address | None:
        """Where its engine listens, once it was started."""
        return None if self._record is None else self._record.address

    @property
    def record(self) -> Record:
        """What is written of it, once it was started."""
        assert self._record is not None
        return self._record

    @property
    def provision(self) -> Provision | None:
        """What its engine has on this disk; None before it is there."""
        return self._provision

    def write(self, record: Record, what: str) -> None:
        """Replace what is written of it: for whoever takes over, and no reason to end it where that fails."""
        self._record = record
        try:
            self._site.state.write(record)
        except OSError as error:
            log.warning("replica %s: %s could not be noted: %s", self.replica_id, what, error)

    def note_routed(self, state: State) -> None:
        """The gateways are told that it is in this state."""
        record, is_warm = self._record, state is State.WARM
        # On its way out, and asleep, it stays what it was: so it costs what it did.
        if record is not None and (is_warm or state is State.SERVING) and record.is_warm != is_warm:
            self.write(msgspec.structs.replace(record, is_warm=is_warm), "its tier")

    def stop(self) -> None:
        """Have it ended; ``run`` reports EXITED when that is done. Idempotent."""
        self._stop.set()

    def close(self) -> None:
        """Have it ended; if it cannot be killed, leave that to the next start."""
        self._is_closing.set()
        self.stop()

    def let_go(self) -> None:
        """Stop watching it, and leave it running."""
        self.adapters.leave()
        if self._group is not None:
            self._group.let_go()
        if self._provision is not None:
            self._provision.let_go()

    async def run(self, adopted: Identity | None = None, *, asleep_at: int | None = None) -> None:
        """Live until stopped or dead, then clean up and report EXITED. Only cancelling leaves it running.

        EXITED means that no process of it lives: what cannot be killed still has its port and devices, so
        it is not reported, and its record stays for the next start to find.
        """
        self._site.logs.hold(self.replica_id)
        self.sleep.level = asleep_at
        try:
            detail = await (self._start() if adopted is None else self._go_on(adopted))
        except Exception as error:
            log.exception("replica %s: the backend failed", self.replica_id)
            detail = f"the backend failed ({type(error).__name__})"
        self.adapters.leave()
        is_asked = self._stop.is_set() and not self._is_silent
        by_hand = self.is_ready and not self._stop.is_set() and self._ended_in_good_order()
        self.is_ready = False
        if not await self._end(self.model.stop_grace_s if is_asked else _NOTHING_LEFT_S):
            return
        self._give_back()
        log.info(
            "replica %s has ended: %s; its log is %s",
            self.replica_id,
            detail,
            self._site.logs.path(self.replica_id),
        )
        self._site.report(ReplicaSeen(self.replica_id, Seen.EXITED, detail=detail, by_hand=by_hand))

    async def _go_on(self, first: Identity) -> str:
        self._group = Group(self._site.state.fleet_id, self.replica_id, first)
        self._use(await self._site.provisions.of_adopted(self.model))
        return await self._serve()

    async def _provided(self) -> Provision | None:
        """What the engine needs on this disk, as soon as it is there; None when a stop was ordered before."""
        wanted = asyncio.ensure_future(self._site.provisions.of(self.model, self._pulling))
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({wanted, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not wanted.done():
                return None
            self._use(wanted.result())
            return self._provision
        finally:
            stopped.cancel()
            if not wanted.done():
                wanted.cancel()
                await asyncio.gather(wanted, return_exceptions=True)

    def _pulling(self, detail: str) -> None:
        self._site.report(ReplicaSeen(self.replica_id, Seen.PULLING, detail=detail))

    def _use(self, provision: Provision) -> None:
        """From now on its engine's settings have paths in place of sources."""
        self._provision = provision
        self.model = provision.model

    async def _start(self) -> str:
        """Get its weights, start the engine, wait for its first token, serve. Returns why that is over."""
        try:
            self._command_hash = self.model.command_hash()
            provision = await self._provided()
        except WeightsError as error:
            return f"its weights cannot be had: {error.because}"
        except ValueError as error:
            return f"it cannot be started: {error}"
        if provision is None:
            return "stopped before its weights were here"
        try:
            self._spawn(provision)
        except (NoDevice, NoFreePort, OSError, ValueError) as error:
            return f"it cannot be started: {error}"
        self._site.report(ReplicaSeen(self.replica_id, Seen.STARTING))
        start = EngineStart(self._site, self.model, self.record)
        answer = await self.unless_over(start.first_token(), within_s=self.model.start_deadline_s)
        if self._stop.is_set():
            return "stopped before it was ready"
        if self._running.exited.is_set():
            return start.why_it_ended(self._running.how_it_ended())
        if (why := start.why_not_ready(answer)) is not None:
            return why
        compiled = None if provision.compiled is None else provision.compiled.is_hit
        self._site.provisions.note_ready(provision)
        parts = await start.parts()
        self._site.report(
            ReplicaSeen(self.replica_id, Seen.READY, self.record.address, compiled=compiled, parts=parts)
        )
        return await self._serve()

    def _spawn(self, provision: Provision) -> None:
        """Take what it needs, write down the intent, start, complete what was written."""
        site, model = self._site, self.model
        marks = adapter_marks(model.spec)
        claim, port = reserve(site, model, self._place)
        self._record = Record(
            replica_id=self.replica_id,
            model=model.model,
            command_hash=self._command_hash,
            host=site.host,
            port=port,
            claim=claim,
            variant=self._variant,
            adapters=marks,
            adapters_before=marks,
        )
        site.state.write(self._record)
        first = launch(site, self._record, model, provision)
        # From here on it runs: whatever fails next, there is a group to end.
        self._group = Group(site.state.fleet_id, self.replica_id, first)
        # The next start finds it by its mark as well; a full disk is no reason to end a good start.
        started = msgspec.structs.replace(self._record, pid=first.pid, started_ticks=first.started_ticks)
        self.write(started, "its process")

    async def _serve(self) -> str:
        self.is_ready = self.sleep.level is None
        log.info("replica %s of %s serves on port %d", self.replica_id, self.model.model, self.record.port)
        while (news := await self.unless_over(self._news(), within_s=None)) is not None:
            if isinstance(news, str):
                self._is_silent = True
                self.complain(news)
            else:
                await self.sleep.carry_out(news)
        return "stopped" if self._stop.is_set() else self._running.how_it_ended()

    async def _news(self) -> str | int:
        """What is to be done, or how silent it is."""
        silence, order = asyncio.ensure_future(self._silence()), asyncio.ensure_future(self.sleep.ordered())
        try:
            await asyncio.wait({silence, order}, return_when=asyncio.FIRST_COMPLETED)
            return order.result() if order.done() else silence.result()
        finally:
            silence.cancel()
            order.cancel()

    def complain(self, detail: str) -> None:
        """It serves, and does not do what it should; UNRESPONSIVE is reported."""
        log.warning("replica %s is unresponsive: %s", self.replica_id, detail)
        self._site.report(ReplicaSeen(self.replica_id, Seen.UNRESPONSIVE, detail=detail))

    async def _silence(self) -> str:
        span_s = self.model.silent_after_s
        patience = Patience(silent_after_s=span_s, gone_after_s=span_s)
        return await until_silent(self._site.client, self.record.address, self.model.adapter, patience)

    async def unless_over(self, work: Coroutine[Any, Any, T], within_s: float | None) -> T | None:
        """The result of ``work``; None when the process ends, a stop is ordered or time is up before."""
        wanted = asyncio.ensure_future(work)
        others = [asyncio.ensure_future(event.wait()) for event in (self._stop, self._running.exited)]
        try:
            await asyncio.wait({wanted, *others}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            is_over = any(other.done() for other in others)
            return wanted.result() if wanted.done() and not is_over else None
        finally:
            for task in (wanted, *others):
                task.cancel()

    async def _end(self, grace_s: float) -> bool:
        """End every process. False when some cannot be killed and the fleet closes."""
        while self._group is not None and (left := await self._group.end(grace_s)):
            pids = ", ".join(map(str, left))
            log.error("replica %s: processes %s cannot be killed", self.replica_id, pids)
            try:
                async with asyncio.timeout(_LOOK_AGAIN_S):
                    await self._is_closing.wait()
                return False
            except TimeoutError:
                grace_s = 0.0
        return True

    def _ended_in_good_order(self) -> bool:
        return self._group is not None and self._group.exited.is_set() and self._group.ended_in_good_order()

    def _give_back(self) -> None:
        """Everything that it had."""
        self._site.logs.let_go(self.replica_id)
        if self._record is not None:
            self._site.state.remove(self.replica_id)
            self._site.ports.give_back(self._record.port)
            if self.sleep.level is None:
                self._site.devices.give_back(self._record.claim)
        self._group = self._record = None
        if self._provision is not None:
            self._provision.let_go()

    @property
    def _running(self) -> Group:
        assert self._group is not None
        return self._group
