"""Engines that somebody else runs, at given addresses.

Launching takes an address and waits until its engine serves; stopping lets go of it. Nothing is
started or ended, and at most as many replicas exist as there are addresses. Addresses are given in turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.adapters.base import Adapter, EngineSpec, Readiness
from tidegate.backends.base import Report
from tidegate.backends.engine_client import Answer, EngineClient
from tidegate.backends.metrics_pages import MetricsPages
from tidegate.backends.watching import Patience, until_silent
from tidegate.core.effects import Launch, LoadAdapter, Prefetch, Sleep, Stop, UnloadAdapter, Wake
from tidegate.core.events import AdapterSeen, EngineReported, ReplicaSeen
from tidegate.core.lifecycle import Seen
from tidegate.core.types import Address, ModelId, ReplicaId, RouteTable

log = logging.getLogger("tidegate.backends.static")

_SCRAPE_TIMEOUT_S = 10.0
_WORDS_KEPT = 50
"""Of so many replicas the engine's last message is known."""


@dataclass(frozen=True, slots=True)
class StaticModel:
    """One model and where its engines listen."""

    model: ModelId
    adapter: Adapter
    addresses: tuple[Address, ...]
    spec: EngineSpec
    """``model_name`` is what the engines call the model, ``lora`` the adapters they were given."""
    start_deadline_s: float = 60.0
    silent_after_s: float = 10.0
    """One that has given no answer for so long is reported as unresponsive."""
    variants: Mapping[str, StaticModel] = field(default_factory=dict)
    """Engines of the same model that run in other ways."""


class StaticFleet:
    """Fulfils ``backends.base.Fleet`` for engines that run already. One task owns each replica."""

    def __init__(self, models: Iterable[StaticModel], *, check_every_s: float = 1.0) -> None:
        self._models = {model.model: model for model in models}
        self._check_every_s = check_every_s
        self._tasks: dict[ReplicaId, asyncio.Task[None]] = {}
        self._stops: dict[ReplicaId, asyncio.Event] = {}
        self._held: dict[ReplicaId, Address] = {}
        self._specs: dict[ReplicaId, EngineSpec] = {}
        self._words: dict[ReplicaId, str] = {}
        self._given: dict[Address, int] = {}
        """When each address was last given to a replica, as a number that only grows."""
        self._released = asyncio.Event()
        """Set, and another one put in its place, each time an address is let go of."""
        self.pages = MetricsPages()
        """For meters."""
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
        work = self._live(client, order)
        self._tasks[order.replica_id] = asyncio.create_task(work, name=f"replica {order.replica_id}")

    def note_routes(self, table: RouteTable) -> None:
        """Nothing: nobody takes over from here."""

    def sleep(self, order: Sleep) -> None:
        """Engines that someone else runs are not put to sleep; see ``Fleet.sleep``."""
        self._cannot(order.replica_id)

    def wake(self, order: Wake) -> None:
        """Nor woken."""
        self._cannot(order.replica_id)

    def load_adapter(self, order: LoadAdapter) -> None:
        """Engines that someone else runs are given no adapters; see ``Fleet.load_adapter``."""
        self._leave_adapter(order.replica_id, order.adapter, is_there=False)

    def unload_adapter(self, order: UnloadAdapter) -> None:
        """Nor rid of any."""
        self._leave_adapter(order.replica_id, order.adapter, is_there=True)

    def _leave_adapter(self, replica_id: ReplicaId, adapter: str, *, is_there: bool) -> None:
        if replica_id in self._tasks:
            because = "an engine that someone else runs is left as it is"
            seen = AdapterSeen(replica_id, adapter, is_there, because)
            asyncio.get_running_loop().call_soon(self._say, seen)

    def _cannot(self, replica_id: ReplicaId) -> None:
        seen = ReplicaSeen(
            replica_id, Seen.UNRESPONSIVE, detail="an engine that someone else runs does not sleep"
        )
        # Like every answer to an order: the one who gave it is not done with it yet.
        asyncio.get_running_loop().call_soon(self._say, seen)

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

    def prefetch(self, order: Prefetch) -> None:
        """Nothing: whoever runs these engines keeps their weights."""

    def spec_of(self, replica_id: ReplicaId) -> EngineSpec | None:
        """What its engine was said to be when the address was taken; see ``Fleet.spec_of``."""
        return self._specs.get(replica_id)

    def last_words(self, replica_id: ReplicaId) -> str:
        """The engine's last message to a probe, for the admin page alone; see ``Fleet.last_words``."""
        return self._words.get(replica_id, "")

    @property
    def _opened(self) -> EngineClient:
        if self._client is None:
            message = "the fleet is not open"
            raise RuntimeError(message)
        return self._client

    async def _live(self, client: EngineClient, order: Launch) -> None:
        replica_id = order.replica_id
        try:
            detail = await self._serve(client, order)
        except Exception as error:
            log.exception("replica %s: the backend failed", replica_id)
            detail = f"the backend failed ({type(error).__name__})"
        finally:
            self._held.pop(replica_id, None)
            self._specs.pop(replica_id, None)
            del self._tasks[replica_id], self._stops[replica_id]
            self._released.set()
            self._released = asyncio.Event()
        log.info("replica %s has ended: %s", replica_id, detail)
        self._say(ReplicaSeen(replica_id, Seen.EXITED, detail=detail))

    async def _serve(self, client: EngineClient, order: Launch) -> str:
        """Hold an address from the order until a stop. Returns why that is over."""
        replica_id, which = order.replica_id, order.model
        model = self._models.get(order.model)
        if order.variant:
            which = ModelId(f"{order.model}, variant {order.variant}")
            model = None if model is None else model.variants.get(order.variant)
        if model is None:
            return f"it cannot be started: model {which} is not configured here"
        # Whoever replaces one is launched in the moment in which that one is stopped.
        while (address := self._next_address(model)) is None and self._is_any_leaving(model):
            await self._released.wait()
        if address is None:
            return f"it cannot be started: all {len(model.addresses)} addresses of {which} are in use"
        self._held[replica_id] = address
        self._specs[replica_id] = model.spec
        self._given[address] = max(self._given.values(), default=0) + 1
        stop = self._stops[replica_id]
        self._say(ReplicaSeen(replica_id, Seen.STARTING))
        waiting = asyncio.ensure_future(self._first_token(client, replica_id, model, address))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                return "stopped before it was ready"
            because = waiting.result()
            if because is not None:
                return because
            self._say(ReplicaSeen(replica_id, Seen.READY, address))
            watching = [
                asyncio.create_task(self._watch(client, replica_id, model, address)),
                asyncio.create_task(self._scrape(client, replica_id, model, address)),
            ]
            try:
                await asyncio.wait({stopping, *watching}, return_when=asyncio.FIRST_COMPLETED)
                for task in watching:
                    if task.done():
                        task.result()  # They never end but by a fault of ours.
            finally:
                for task in watching:
                    task.cancel()
        finally:
            waiting.cancel()
            stopping.cancel()
        return "stopped"

    def _is_any_leaving(self, model: StaticModel) -> bool:
        return any(
            address in model.addresses and self._stops[replica_id].is_set()
            for replica_id, address in self._held.items()
        )

    def _next_address(self, model: StaticModel) -> Address | None:
        """The free one that was given longest ago."""
        held = set(self._held.values())
        free = [address for address in model.addresses if address not in held]
        return min(free, key=lambda address: self._given.get(address, 0), default=None)

    async def _first_token(
        self, client: EngineClient, replica_id: ReplicaId, model: StaticModel, address: Address
    ) -> str | None:
        """None once the engine has generated a token, else why it will not."""
        answers: list[Answer] = []
        where = f"the engine at {address.host}:{address.port}"
        try:
            async with asyncio.timeout(model.start_deadline_s):
                answer = await client.until_ready(
                    address, model.adapter, model.spec, on_answer=answers.append
                )
        except TimeoutError:
            self._note_words(replica_id, answers[-1].words if answers else "")
            last = answers[-1].detail if answers else "no answer"
            return f"{where} was not ready within {model.start_deadline_s:g} s; last probe: {last}"
        if answer.readiness is Readiness.READY:
            return None
        self._note_words(replica_id, answer.words)
        return f"{where} answers but generates nothing: {answer.detail}"

    async def _watch(
        self, client: EngineClient, replica_id: ReplicaId, model: StaticModel, address: Address
    ) -> None:
        """Say when the engine gives no answer. Whoever is refused twice has found nobody: there is no
        process here that could be seen to exit."""
        patience = Patience(
            model.silent_after_s, gone_after_s=self._check_every_s, every_s=self._check_every_s
        )
        while True:
            silence = await until_silent(client, address, model.adapter, patience)
            detail = f"the engine at {address.host}:{address.port}: {silence}"
            log.warning("replica %s is unresponsive: %s", replica_id, detail)
            self._say(ReplicaSeen(replica_id, Seen.UNRESPONSIVE, detail=detail))

    async def _scrape(
        self, client: EngineClient, replica_id: ReplicaId, model: StaticModel, address: Address
    ) -> None:
        """Say what the engine's own metrics say."""
        while True:
            await asyncio.sleep(self._check_every_s)
            seen = await self.pages.read(
                client, replica_id, model.model, address, model.adapter, _SCRAPE_TIMEOUT_S
            )
            if seen is not None:
                self._say(seen)

    def _note_words(self, replica_id: ReplicaId, words: str) -> None:
        if words:
            self._words[replica_id] = words
        while len(self._words) > _WORDS_KEPT:
            del self._words[next(iter(self._words))]

    def _say(self, event: ReplicaSeen | AdapterSeen | EngineReported) -> None:
        assert self._report is not None
        self._report(event)
