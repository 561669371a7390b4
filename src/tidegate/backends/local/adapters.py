"""One replica's LoRA adapters on this machine: fetched, given to its engine, written down, taken away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from tidegate.backends import loras
from tidegate.backends.base import Report
from tidegate.backends.engine_client import EngineClient
from tidegate.backends.local.model import LocalModel
from tidegate.backends.local.provisions import Provision, Provisions
from tidegate.backends.local.state import Record
from tidegate.core.events import AdapterSeen
from tidegate.core.types import ReplicaId
from tidegate.weights.errors import WeightsError

log = logging.getLogger("tidegate.backends.local")


class Host(Protocol):
    """The replica, as far as this needs it."""

    replica_id: ReplicaId
    model: LocalModel
    """Its engine's settings; requests are rewritten by the adapters in them."""
    is_ready: bool

    @property
    def record(self) -> Record: ...

    @property
    def provision(self) -> Provision | None: ...

    def write(self, record: Record, what: str) -> None: ...


class Adapters:
    """Carries out orders about one replica's adapters, beside whatever else it does."""

    def __init__(self, host: Host, client: EngineClient, provisions: Provisions, report: Report) -> None:
        self._host = host
        self._client = client
        self._provisions = provisions
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Adapters of {self._host.replica_id}, {len(self._tasks)} orders under way>"

    def load(self, adapter: str, source: str, mark: str) -> None:
        """Have one loaded from this source; AdapterSeen is reported."""
        self._later(self._load(adapter, source, mark), adapter, loads=True)

    def unload(self, adapter: str) -> None:
        """Have one unloaded; AdapterSeen is reported."""
        self._later(self._unload(adapter), adapter, loads=False)

    def leave(self) -> None:
        """The replica ends, or is left: nothing is carried out any more, and nothing reported."""
        for task in self._tasks:
            task.cancel()

    def _later(self, work: Coroutine[Any, Any, str | None], adapter: str, *, loads: bool) -> None:
        name = f"adapter {adapter} at replica {self._host.replica_id}"
        task = asyncio.create_task(self._tell(work, adapter, loads=loads), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, work: Coroutine[Any, Any, str | None], adapter: str, *, loads: bool) -> None:
        """Report what has come of the order. Whoever gave it waits for that, whatever went wrong here."""
        replica_id = self._host.replica_id
        try:
            problem = await work
        except Exception as error:
            log.exception("replica %s: the backend failed at adapter %a", replica_id, adapter)
            problem = f"the backend failed ({type(error).__name__})"
        is_there = loads if problem is None else not loads
        self._report(AdapterSeen(replica_id, adapter, is_there, problem or ""))

    async def _load(self, adapter: str, source: str, mark: str) -> str | None:
        problem = await self._try_to_load(adapter, source, mark)
        if problem is None:
            self._note({**self._host.record.adapters, adapter: mark})
        return problem

    async def _try_to_load(self, adapter: str, source: str, mark: str) -> str | None:
        host = self._host
        engine, provision = host.model.adapter, host.provision
        if engine.lora_api is None or provision is None or not host.is_ready:
            return f"engine {host.model.adapter.name} cannot load it now"
        try:
            path = await self._provisions.add(provision, source)
        except WeightsError as error:
            return f"it cannot be had: {error.because}"
        # Before it is done: whoever takes over must know under which names something may be cached.
        self._note(host.record.adapters, before={adapter: mark})
        spec = replace(host.model.spec, lora={**(host.model.spec.lora or {}), adapter: path})
        problem = await loras.load(self._client, host.record.address, engine, spec, adapter, path)
        if problem is None:
            self._have({**(host.model.spec.lora or {}), adapter: path})
        return problem

    async def _unload(self, adapter: str) -> str | None:
        host = self._host
        self._have({name: path for name, path in (host.model.spec.lora or {}).items() if name != adapter})
        self._note({name: mark for name, mark in host.record.adapters.items() if name != adapter})
        api = host.model.adapter.lora_api
        return None if api is None else await loras.unload(self._client, host.record.address, api, adapter)

    def _have(self, paths: Mapping[str, str]) -> None:
        model = self._host.model
        self._host.model = replace(model, spec=replace(model.spec, lora=paths))

    def _note(self, now: dict[str, str], before: Mapping[str, str] = {}) -> None:
        record = self._host.record
        ever = {**record.adapters_before, **before}
        record = msgspec.structs.replace(record, adapters=now, adapters_before=ever)
        self._host.write(record, "its adapters")
