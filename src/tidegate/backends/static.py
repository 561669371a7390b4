"""Engines that somebody else runs, at given addresses.

Launching takes an address and waits until its engine serves; stopping lets go of it. Nothing is
started or ended, and at most as many replicas exist as there are addresses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.adapters.base import Adapter, EngineSpec, Readiness
from tidegate.backends.base import Report
from tidegate.backends.engine_client import Answer, EngineClient
from tidegate.core.effects import Launch, Stop
from tidegate.core.events import EngineReported, ReplicaSeen
from tidegate.core.lifecycle import Seen
from tidegate.core.types import Address, ModelId, ReplicaId

log = logging.getLogger("tidegate.backends.static")

_CHECK_TIMEOUT_S = 10.0
_LOST_AFTER = 3
"""So many checks in a row without an answer in time mean a dead engine. A refused connection needs two."""


@dataclass(frozen=True, slots=True)
class StaticModel:
    """One model and where its engines listen."""

    model: ModelId
    adapter: Adapter
    addresses: tuple[Address, ...]
    spec: EngineSpec
    """``model_name`` is what the engines call the model, ``lora`` the adapters they were given."""
    start_deadline_s: float = 60.0


class StaticFleet:
    """Fulfils ``backends.base.Fleet`` for engines that run already. One task owns each replica."""

    def __init__(self, models: Iterable[StaticModel], *, check_every_s: float = 1.0) -> None:
        self._models = {model.model: model for model in models}
        self._check_every_s = check_every_s
        self._tasks: dict[ReplicaId, asyncio.Task[None]] = {}
        self._stops: dict[ReplicaId, asyncio.Event] = {}
        self._held: dict[ReplicaId, Address] = {}
        self._failures: dict[Address, int] = {}
        self._client: EngineClient | None = None
        self._report: Report | None = None

    def __repr__(self) -> str:
        addresses = sum(len(model.addresses) for model in self._models.values())
        return f"<StaticFleet {len(self._held)} of {addresses} addresses held>"

    async def open(self, report: Report) -> None:
        """Begin. There is nothing to adopt: engines are found again by launching."""
        self._report = report
        self._client = EngineClient()

    def configure(self, models: Iterable[StaticModel]) -> None:
        """Replace what may be launched. Replicas that are held stay so."""
        self._models = {model.model: model for model in models}

    def launch(self, order: Launch) -> None:
        """Take the next free address and wait for its first token; see ``Fleet.launch``."""
        client = self._opened
        if order.replica_id in self._tasks:
            return
        self._stops[order.replica_id] = asyncio.Event()
        work = self._live(client, order.replica_id, order.model)
        self._tasks[order.replica_id] = asyncio.create_task(work, name=f"replica {order.replica_id}")

    def stop(self, order: Stop) -> None:
        """Let go of the address; see ``Fleet.stop``. An unknown or ended one is left alone."""
        if order.replica_id in self._stops:
            self._stops[order.replica_id].set()

    async def close(self, *, leave_running: bool = False) -> None:
        """Let go of everything. Whether the engines run on was never ours to say."""
        client, self._client = self._client, None
        if client is None:
            return
        tasks = list(self._tasks.values())
        for stop in self._stops.values():
            stop.set()
        if leave_running:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()

    @property
    def _opened(self) -> EngineClient:
        if self._client is None:
            message = "the fleet is not open"
            raise RuntimeError(message)
        return self._client

    async def _live(self, client: EngineClient, replica_id: ReplicaId, model_id: ModelId) -> None:
        try:
            detail = await self._serve(client, replica_id, model_id)
        except Exception as error:
            log.exception("replica %s: the backend failed", replica_id)
            detail = f"the backend failed: {error!r}"
        finally:
            self._held.pop(replica_id, None)
            del self._tasks[replica_id], self._stops[replica_id]
        log.info("replica %s has ended: %s", replica_id, detail)
        self._say(ReplicaSeen(replica_id, Seen.EXITED, detail=detail))

    async def _serve(self, client: EngineClient, replica_id: ReplicaId, model_id: ModelId) -> str:
        """Hold an address until its engine is lost or a stop is ordered. Returns why that is over."""
        model = self._models.get(model_id)
        if model is None:
            return f"it cannot be started: model {model_id} is not configured here"
        address = self._next_address(model)
        if address is None:
            return f"it cannot be started: all {len(model.addresses)} addresses of {model_id} are in use"
        self._held[replica_id] = address
        stop = self._stops[replica_id]
        self._say(ReplicaSeen(replica_id, Seen.STARTING))
        waiting = asyncio.ensure_future(self._first_token(client, model, address))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                return "stopped before it was ready"
            because = waiting.result()
            if because is None:
                self._say(ReplicaSeen(replica_id, Seen.READY, address))
                because = await self._until_lost(client, replica_id, model, address)
        finally:
            waiting.cancel()
            stopping.cancel()
        if because is None:
            return "stopped"
        self._failures[address] = self._failures.get(address, 0) + 1
        return because

    def _next_address(self, model: StaticModel) -> Address | None:
        """A free one; of those, one that failed least, so that a dead engine is not tried for ever."""
        held = set(self._held.values())
        free = [address for address in model.addresses if address not in held]
        return min(free, key=lambda address: self._failures.get(address, 0), default=None)

    async def _first_token(self, client: EngineClient, model: StaticModel, address: Address) -> str | None:
        """None once the engine has generated a token, else why it will not."""
        answers: list[Answer] = []
        where = f"the engine at {address.host}:{address.port}"
        try:
            async with asyncio.timeout(model.start_deadline_s):
                answer = await client.until_ready(
                    address, model.adapter, model.spec, on_answer=answers.append
                )
        except TimeoutError:
            last = answers[-1].detail if answers else "no answer"
            return f"{where} was not ready within {model.start_deadline_s:g} s; last probe: {last}"
        if answer.readiness is Readiness.READY:
            return None
        return f"{where} answers but generates nothing: {answer.detail}"

    async def _until_lost(
        self, client: EngineClient, replica_id: ReplicaId, model: StaticModel, address: Address
    ) -> str | None:
        """Check at intervals until the engine is lost; None when a stop was ordered.

        A busy engine may be too slow to answer a check, so slowness alone must repeat before it
        counts; whether requests make progress is judged by the gateway's ledger, not here.
        """
        stop, slow, refused = self._stops[replica_id], 0, 0
        while True:
            try:
                async with asyncio.timeout(self._check_every_s):
                    await stop.wait()
                return None
            except TimeoutError:
                pass
            seen = await client.scrape(address, model.adapter, _CHECK_TIMEOUT_S)
            if seen is not None:
                slow = refused = 0
                values = (seen.running, seen.waiting, seen.kv_usage_ratio)
                if any(value is not None for value in values):
                    self._say(EngineReported(replica_id, *values))
                continue
            answer = await client.reach(address, _CHECK_TIMEOUT_S)
            refused = refused + 1 if answer.is_refused else 0
            slow = slow + 1 if answer.is_slow else 0
            if refused >= 2 or slow >= _LOST_AFTER:
                return f"the engine at {address.host}:{address.port} is lost: {answer.detail}"

    def _say(self, event: ReplicaSeen | EngineReported) -> None:
        assert self._report is not None
        self._report(event)
