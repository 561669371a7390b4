"""The real gateway before emulated engines, all in one loop: a fleet that a benchmark makes grow, shrink and break."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp

from tidegate.adapters.emulated import Emulated
from tidegate.config.settings import GatewaySettings
from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import Record
from tidegate.core.events import ModelsConfigured, Tick
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig, Routing
from tidegate.core.types import Address, ModelId, ModelRoute, ReplicaId, Route, RouteTable
from tidegate.emulator.options import EmulatorOptions
from tidegate.emulator.server import Server
from tidegate.gateway import Gateway, Named
from tidegate.runtime.clock import WallClock
from tidegate.runtime.dispatching import DispatchOwner
from tidegate.runtime.journal import NoJournal

MODEL = ModelId("m")
TICK_S = 0.05


class LiveFleet:
    """Owns the gateway and the engines. ``live_fleet`` starts and ends it."""

    def __init__(
        self, config: DispatchConfig, settings: GatewaySettings, options: EmulatorOptions, slots: int
    ) -> None:
        self.dispatcher = Dispatcher()
        self.records: list[Record] = []
        self.engines: dict[ReplicaId, Server] = {}
        self.owner = DispatchOwner(
            self.dispatcher,
            WallClock(),
            NoJournal(),
            on_report=lambda _: None,
            on_record=self.records.append,
        )
        names = {str(MODEL): Named(MODEL, uses_prefixes=config.routing is Routing.LEAST_SECONDS)}
        self.gateway = Gateway(
            self.owner,
            settings,
            names=lambda: names,
            manners=lambda _: Emulated.manners,
            resumes=lambda _: config.resume,
        )
        self.owner.handle(ModelsConfigured({MODEL: config}))
        self.host, self.port = settings.host, settings.port
        self._options = options
        self._slots = slots
        self._version = 0
        self._names = 0
        self._session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        """Where clients come."""
        return f"http://{self.host}:{self.port}"

    async def start(self, engines: int) -> None:
        """Begin, with so many engines."""
        self._session = aiohttp.ClientSession()
        self.host, self.port = await self.gateway.start()
        self._ticking = asyncio.create_task(self._tick(), name="ticks")
        for _ in range(engines):
            await self.join()
        self.publish()

    async def close(self) -> None:
        """End all of it."""
        self._ticking.cancel()
        await self.gateway.close()
        self.owner.cease()
        for server in self.engines.values():
            await server.stop()
        await self._session.close()

    # ---- engines ----

    async def join(self) -> ReplicaId:
        """One engine more, which answers; ``publish`` makes it serve."""
        self._names += 1
        replica_id = ReplicaId(f"m-{self._names}")
        server = Server(self._options)
        await server.start()
        while (await self._session.get(f"{server.url}/health")).status != 200:
            await asyncio.sleep(0.005)
        self.engines[replica_id] = server
        return replica_id

    def publish(self, *, draining: tuple[ReplicaId, ...] = ()) -> None:
        """A new table with the engines that are there. One that drains takes nothing new."""
        self._version += 1
        routes = tuple(
            Route(
                replica_id,
                MODEL,
                State.DRAINING if replica_id in draining else State.SERVING,
                Address("127.0.0.1", server.port),
                0 if replica_id in draining else self._slots,
                "emulated",
            )
            for replica_id, server in self.engines.items()
        )
        self.owner.publish(RouteTable(self._version, (ModelRoute(MODEL, can_serve=True),), routes))

    async def kill(self, replica_id: ReplicaId) -> Server:
        """The engine's process dies; the table says so when it is published next."""
        server = self.engines.pop(replica_id)
        await server.stop()
        return server

    async def fault(self, replica_id: ReplicaId, spec: str) -> None:
        """In place of what was ordered before: see ``tidegate.emulator.faults``. One that refuses hears nothing."""
        address = f"{self.engines[replica_id].url}/emulator/fault"
        with contextlib.suppress(aiohttp.ClientError):
            async with self._session.delete(address) as answer:
                answer.raise_for_status()
            async with self._session.post(address, data=spec) as answer:
                answer.raise_for_status()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.owner.handle(Tick())


@contextlib.asynccontextmanager
async def live_fleet(
    config: DispatchConfig,
    *,
    engines: int,
    slots: int,
    time_scale: float,
    settings: GatewaySettings | None = None,
) -> AsyncIterator[LiveFleet]:
    """A gateway on a free port with so many engines, gone at the end of the block."""
    options = EmulatorOptions(port=0, model=MODEL, time_scale=time_scale)
    fleet = LiveFleet(config, settings or GatewaySettings(port=0), options, slots)
    await fleet.start(engines)
    try:
        yield fleet
    finally:
        await fleet.close()
