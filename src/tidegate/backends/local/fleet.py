"""The backend for one machine: every replica is a process group that this controller started or adopted."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tidegate.adapters.base import EngineSpec
from tidegate.backends.base import FleetInUse, Report
from tidegate.backends.engine_client import EngineClient
from tidegate.backends.local import takeover
from tidegate.backends.local.devices import Devices
from tidegate.backends.local.logs import Logs
from tidegate.backends.local.model import LocalModel
from tidegate.backends.local.ports import DEFAULT_RANGE, Ports
from tidegate.backends.local.processes import Identity
from tidegate.backends.local.provisions import Provisions
from tidegate.backends.local.replica import Replica
from tidegate.backends.local.site import Site
from tidegate.backends.local.state import StateFolder
from tidegate.backends.metrics_pages import MetricsPages
from tidegate.core.effects import Launch, LoadAdapter, Prefetch, Sleep, Stop, UnloadAdapter, Wake
from tidegate.core.events import AdapterSeen, ReplicaAdopted, ReplicaSeen
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Gpu
from tidegate.core.types import ReplicaId, RouteTable
from tidegate.weights.needs import adapter_marks
from tidegate.weights.settings import WeightsSettings

log = logging.getLogger("tidegate.backends.local")

_LOCK_WITHIN_S = 1.0
"""A controller that was killed while it forked leaves the lock to the fork until that has become an engine."""

_INHERITED = ("PATH", "HOME", "LANG")
"""All that an engine gets of our own environment; the rest is in its model's settings."""


class LocalFleet:
    """Fulfils ``backends.base.Fleet`` with processes on this machine.

    One task owns each replica; one more reads all engines' metrics. Everything that must survive a
    ``kill -9`` is in the state folder and in the marks of the processes themselves.
    """

    def __init__(
        self,
        models: Iterable[LocalModel],
        *,
        state_dir: Path,
        host: str = "127.0.0.1",
        ports: range = DEFAULT_RANGE,
        gpus: Iterable[Gpu] = (),
        cores: Iterable[int] | None = None,
        environ: Mapping[str, str] | None = None,
        scrape_every_s: float = 1.0,
        log_max_bytes: int = 8 * 1024 * 1024,
        weights: WeightsSettings | None = None,
    ) -> None:
        """Nothing happens until ``open``.

        Args:
            models: What may be launched.
            state_dir: Records, logs and the lock; one fleet, one folder.
            host: The address on which engines listen.
            ports: From which engines get theirs.
            gpus: Those that may be used.
            cores: Those that replicas may be pinned to; None means all that this process may use.
            environ: Where PATH, HOME and LANG come from; None means this process's own.
            scrape_every_s: How often engines' metrics are read.
            log_max_bytes: Length at which a replica's log is moved aside, once.
            weights: How weights are fetched and where they are kept; None fetches none.
        """
        self._models = {model.model: model for model in models}
        self._state_dir = state_dir
        self._host = host
        self._ports = Ports(host, ports)
        self._devices = Devices(gpus, os.sched_getaffinity(0) if cores is None else cores)
        environ = os.environ if environ is None else environ
        self._environment = {name: environ[name] for name in _INHERITED if name in environ}
        self._scrape_every_s = scrape_every_s
        self._log_max_bytes = log_max_bytes
        self._weights = weights
        self._state: StateFolder | None = None
        """Ours from ``lock`` to ``close``."""
        self._site: Site | None = None
        self.pages = MetricsPages()
        """For meters."""
        self._replicas: dict[ReplicaId, Replica] = {}
        self._tasks: dict[ReplicaId, asyncio.Task[None]] = {}
        self._scraping: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        ready = sum(replica.is_ready for replica in self._replicas.values())
        return f"<LocalFleet {self._state_dir}: {len(self._replicas)} replicas, {ready} ready>"

    async def lock(self) -> None:
        """Have the folder for this fleet alone until ``close``; what is in it is left as it is. Again is no harm.

        Raises:
            FleetInUse: another controller holds this folder.
        """
        if self._state is None:
            self._state = await _locked(self._state_dir)

    async def open(self, report: Report) -> None:
        """Lock the folder, adopt or end what a former run left, then accept orders.

        Raises:
            FleetInUse: another controller holds this folder.
        """
        await self.lock()
        state = self._state
        assert state is not None
        client = EngineClient()
        logs = Logs(state.folder / "logs", max_bytes=self._log_max_bytes)
        provisions = Provisions(self._weights, self._environment, report)
        site = Site(
            state, self._ports, self._devices, logs, client, self._host, self._environment, report, provisions
        )
        try:
            heirs = await takeover.settle(site, self._models)
        except BaseException:
            await client.close()
            self._let_go()
            raise
        self._site = site
        for heir in heirs:
            record = heir.record
            model = heir.model.with_adapters(record.adapters)
            replica = Replica(site, record.replica_id, model, record, variant=record.variant)
            self._own(replica, heir.first, heir.asleep_at)
            # Before this returns: whoever does not know of it yet would order another one.
            adapters = record.adapters if heir.model.adapter.lora_api is not None else None
            report(
                ReplicaAdopted(
                    record.replica_id,
                    record.model,
                    record.address,
                    heir.tier,
                    record.variant,
                    record.place,
                    adapters,
                    record.adapters_before or None,
                )
            )
        self._scraping = asyncio.create_task(self._scrape_for_ever(), name="scrape engines")
        await provisions.configure(self._models, self._weights)

    def configure(self, models: Iterable[LocalModel], weights: WeightsSettings | None = None) -> None:
        """Replace what may be launched. Replicas that run are left as they are."""
        self._models = {model.model: model for model in models}
        if self._site is not None:
            work = self._site.provisions.configure(self._models, weights)
            self._telling = asyncio.create_task(work, name="what weights are here")

    def prefetch(self, order: Prefetch) -> None:
        """Fetch a model's weights ahead of need; see ``Fleet.prefetch``."""
        log.info("weights of %s are fetched ahead: %s", order.model, order.because)
        self._opened.provisions.fetch_ahead(order.model)

    @property
    def provisions(self) -> Provisions | None:
        """What is kept on this disk, for meters; None while the fleet is not open."""
        return None if self._site is None else self._site.provisions

    def launch(self, order: Launch) -> None:
        """Start a replica; see ``Fleet.launch``."""
        site = self._opened
        if order.replica_id in self._replicas:
            return
        ordered = self._models.get(order.model)
        model = None if ordered is None else ordered.as_variant(order.variant)
        if model is None:
            which = f"{order.model}, variant {order.variant}," if order.variant else order.model
            detail = f"it cannot be started: model {which} is not configured here"
            self._report_later(ReplicaSeen(order.replica_id, Seen.EXITED, detail=detail))
            return
        where = f" on {order.place}" if order.place else ""
        what = f"{order.model} ({order.variant})" if order.variant else order.model
        log.info("replica %s of %s is started%s: %s", order.replica_id, what, where, order.because)
        starting = model.at_start()
        self._own(Replica(site, order.replica_id, starting, variant=order.variant, place=order.place))

    def note_routes(self, table: RouteTable) -> None:
        """Write down what waits warm; see ``Fleet.note_routes``."""
        for route in table.routes:
            replica = self._replicas.get(route.replica_id)
            if replica is not None:
                replica.note_routed(route.state)

    def sleep(self, order: Sleep) -> None:
        """Put a replica's engine to sleep; see ``Fleet.sleep``. An unknown one is left alone."""
        replica = self._replicas.get(order.replica_id)
        if replica is not None:
            log.info("replica %s is put to sleep: %s", order.replica_id, order.because)
            replica.sleep.begin(order.level)

    def wake(self, order: Wake) -> None:
        """Wake a replica's engine; see ``Fleet.wake``. An unknown one is left alone."""
        replica = self._replicas.get(order.replica_id)
        if replica is not None:
            log.info("replica %s is woken: %s", order.replica_id, order.because)
            replica.sleep.end()

    def load_adapter(self, order: LoadAdapter) -> None:
        """Give a replica's engine a LoRA adapter; see ``Fleet.load_adapter``."""
        replica = self._replicas.get(order.replica_id)
        if replica is None:
            return
        log.info("replica %s is to load adapter %s: %s", order.replica_id, order.adapter, order.because)
        model = self._models.get(replica.model.model)
        sources = {} if model is None else model.spec.lora or {}
        if model is None or order.adapter not in sources:
            missing = AdapterSeen(order.replica_id, order.adapter, False, "it is not configured here")
            self._report_later(missing)
            return
        mark = adapter_marks(model.spec)[order.adapter]
        replica.adapters.load(order.adapter, sources[order.adapter], mark)

    def unload_adapter(self, order: UnloadAdapter) -> None:
        """Rid a replica's engine of a LoRA adapter; see ``Fleet.unload_adapter``."""
        replica = self._replicas.get(order.replica_id)
        if replica is not None:
            log.info("replica %s is to unload adapter %s: %s", order.replica_id, order.adapter, order.because)
            replica.adapters.unload(order.adapter)

    def stop(self, order: Stop) -> None:
        """End a replica's process group; see ``Fleet.stop``. An unknown or ended one is left alone."""
        replica = self._replicas.get(order.replica_id)
        if replica is not None:
            log.info("replica %s is stopped: %s", order.replica_id, order.because)
            replica.stop()

    async def close(self, *, leave_running: bool = False) -> None:
        """Stop every replica, or leave them to be adopted, and let go of the folder. Idempotent."""
        site, self._site = self._site, None
        if site is None:
            self._let_go()
            return
        if self._scraping is not None:
            self._scraping.cancel()
        tasks = list(self._tasks.values())
        for replica in list(self._replicas.values()):
            if not leave_running:
                replica.close()
        if leave_running:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, *([self._scraping] if self._scraping else []), return_exceptions=True)
        if self._telling is not None:
            self._telling.cancel()
        await site.provisions.close()
        await site.client.close()
        self._let_go()

    def _let_go(self) -> None:
        state, self._state = self._state, None
        if state is not None:
            state.close()

    def spec_of(self, replica_id: ReplicaId) -> EngineSpec | None:
        """What the replica was started with; see ``Fleet.spec_of``."""
        replica = self._replicas.get(replica_id)
        return None if replica is None else replica.model.spec

    def last_words(self, replica_id: ReplicaId) -> str:
        """The end of its log, for the admin page alone; see ``Fleet.last_words``."""
        return "" if self._site is None else self._site.logs.tail(replica_id)

    @property
    def _opened(self) -> Site:
        if self._site is None:
            message = "the fleet is not open"
            raise RuntimeError(message)
        return self._site

    def _report_later(self, seen: ReplicaSeen | AdapterSeen) -> None:
        # Like every answer to an order: the one who gave it is not done with it yet.
        if self._site is not None:
            asyncio.get_running_loop().call_soon(self._site.report, seen)

    def _own(self, replica: Replica, adopted: Identity | None = None, asleep_at: int | None = None) -> None:
        self._replicas[replica.replica_id] = replica
        task = asyncio.create_task(
            self._run(replica, adopted, asleep_at), name=f"replica {replica.replica_id}"
        )
        self._tasks[replica.replica_id] = task

    async def _run(self, replica: Replica, adopted: Identity | None, asleep_at: int | None) -> None:
        try:
            await replica.run(adopted, asleep_at=asleep_at)
        except Exception as error:
            # ``run`` reports its own failures; what comes out of it is a fault in cleaning up.
            log.exception("replica %s: cleaning up failed", replica.replica_id)
            detail = f"cleaning up failed ({type(error).__name__})"
            self._report_later(ReplicaSeen(replica.replica_id, Seen.EXITED, detail=detail))
        finally:
            replica.let_go()
            del self._replicas[replica.replica_id], self._tasks[replica.replica_id]

    async def _scrape_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            results = await asyncio.gather(
                *(self._observe(replica) for replica in list(self._replicas.values())), return_exceptions=True
            )
            for result in results:
                if isinstance(result, Exception):
                    log.error("reading an engine's metrics failed", exc_info=result)
            await asyncio.sleep(max(0.0, began_s + self._scrape_every_s - loop.time()))

    async def _observe(self, replica: Replica) -> None:
        site = self._opened
        await site.logs.trim(replica.replica_id)
        address = replica.address
        if not replica.is_ready or address is None:
            return
        model, within_s = replica.model, self._scrape_every_s * 0.9
        seen = await self.pages.read(
            site.client, replica.replica_id, model.model, address, model.adapter, within_s
        )
        if seen is not None and replica.is_ready:
            site.report(seen)


async def _locked(folder: Path) -> StateFolder:
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + _LOCK_WITHIN_S
    while True:
        try:
            return StateFolder(folder)
        except FleetInUse:
            if loop.time() > give_up_s:
                raise
        await asyncio.sleep(0.02)
