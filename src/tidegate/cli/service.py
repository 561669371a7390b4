"""Everything that ``tidegate serve`` runs, put together: the one place that knows all the parts.

Order of starting: the state folder is locked, and nothing is written by whoever does not get it; the gateway listens and
holds what comes; then former replicas are adopted; only then does the controller get its policy and may launch. Order of
stopping: nothing new is accepted; what is in flight ends, or is ended at the deadline; then the engines go.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tidegate.adapters import lora
from tidegate.adapters.base import Manners
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.base import FleetInUse
from tidegate.cli.by_hand import ByHand
from tidegate.cli.engine_meters import EngineMeters
from tidegate.cli.fleets import Fleets
from tidegate.cli.limits import raise_file_limit
from tidegate.cli.metrics import FleetMetrics, page_of
from tidegate.cli.outlets import outlets_for, tell_outlets
from tidegate.cli.pages import Pages
from tidegate.cli.policy_file import PolicyFile
from tidegate.cli.weights_meters import WeightsMeters
from tidegate.config import differences
from tidegate.config.settings import Settings
from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import Record
from tidegate.core.events import (
    CapacitiesRestored,
    FleetConfigured,
    KnowledgeRestored,
    ModelsConfigured,
    ReportDue,
    StopBegun,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.types import DemandReport, ModelId, Route, RouteTable
from tidegate.dashboard.server import AdminServer
from tidegate.gateway import Gateway, Meters
from tidegate.gateway.names import names_in
from tidegate.gateway.prefix_meters import PrefixMeters
from tidegate.gateway.spill_meters import SpillMeters
from tidegate.runtime.cache_watch import CacheWatch
from tidegate.runtime.clock import WallClock
from tidegate.runtime.controlling import ControlOwner
from tidegate.runtime.dispatching import DispatchOwner
from tidegate.runtime.hands import HandFile
from tidegate.runtime.journal import FileJournal, NoJournal
from tidegate.runtime.knowledge import Kept, KnowledgeFile
from tidegate.runtime.spending import SpendingFile

log = logging.getLogger("tidegate")
request_log = logging.getLogger("tidegate.requests")

TICK_S = 1.0
STOP_POLL_S = 0.02
AFTER_DEADLINE_S = 2.0
"""For error events to reach their clients after the stop deadline."""


class Service:
    """One process: gateway, both brains, backends, admin page."""

    def __init__(
        self, settings: Settings, *, policy: Path | None = None, overrides: Mapping[str, Any] | None = None
    ) -> None:
        """``policy`` is watched for changes; ``overrides`` of its ``gateway`` keys outlive a reload."""
        self._settings = settings
        self._begun_with = settings
        """Whose addresses and folders hold until the end."""
        self._names = names_in(settings)
        self._policy = PolicyFile(policy, overrides or {}, self._take_over)
        self._clock = WallClock()
        self._journal = _journal(settings)
        self._fleets = Fleets(settings)
        self._spending = SpendingFile(settings.state_dir)
        self._knowledge = KnowledgeFile(settings.state_dir)
        self._control = ControlOwner(
            FleetController(),
            self._clock,
            self._journal,
            fleets=self._fleets.by_model,
            publish=self._publish,
        )
        self._dispatch = DispatchOwner(
            Dispatcher(), self._clock, self._journal, on_report=self._report, on_record=self._record
        )
        self._caches = CacheWatch(self._kv_events_port, self._dispatch.handle, self._clock.now_s)
        self._meters = Meters(lambda: self._settings.models)
        metrics = FleetMetrics(self._control, self._journal)
        self._prefixes = PrefixMeters(self._dispatch.prefix_stats)
        spills = SpillMeters(self._dispatch.spill_stats)
        metrics_page = page_of(
            self._meters,
            metrics,
            EngineMeters(lambda: self._fleets.unread_pages),
            self._prefixes,
            spills,
            WeightsMeters(lambda: self._fleets.provisions),
        )
        self._gateway = Gateway(
            self._dispatch,
            settings.gateway,
            names=lambda: self._names,
            manners=_manners,
            rewrite=self._rewrite,
            meters=self._meters,
            metrics_page=metrics_page,
            resumes=self._resumes,
            outlets=outlets_for(settings, policy),
        )
        self._by_hand = ByHand(
            self._control, HandFile(settings.state_dir), self._clock, lambda: self._settings
        )
        self._pages = Pages(self._control, self._meters, self._fleets.last_words, self._prefixes.findings)
        self._admin = AdminServer(
            settings.gateway.admin_host,
            settings.gateway.admin_port,
            fleet=lambda: self._pages.fleet(self._settings),
            metrics_text=metrics_page,
            recent=self._pages.decisions,
            scale=self._by_hand.scale,
        )
        self.ready = asyncio.Event()
        """Set once requests are accepted."""
        self.url = ""
        self._stopping = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        """Serve until a signal; the exit code."""
        try:
            await self._start()
        except (OSError, FleetInUse) as error:
            click.echo(f"tidegate cannot start: {_reason(error)}", err=True)
            await self._close()
            return 1
        ticking = asyncio.create_task(self._tick_for_ever(), name="tick")
        await self._stopping.wait()
        await self._drain()
        ticking.cancel()
        await self._close()
        return self._exit_code

    async def _start(self) -> None:
        self._catch_signals()
        raise_file_limit(self._settings.gateway.max_connections)
        await self._fleets.lock()
        for warning in self._settings.warnings:
            log.warning("%s", warning)
        known = self._knowledge.read()
        if known is not None:
            self._dispatch.handle(CapacitiesRestored(known.capacities))
        self._dispatch.handle(_models_configured(self._settings))
        host, port = await self._gateway.start()
        self.url = self._pages.gateway = f"http://{host}:{port}"
        await self._admin.start()
        # Here and not sooner: who is refused, or finds its port taken, leaves no run behind.
        if isinstance(self._journal, FileJournal):
            self._journal.start()
        # Requests are held from here on. That they are accepted is said only once the fleet is ours.
        await self._fleets.open(self._control.seen)
        click.echo(f"gateway ready on {self.url}", err=True)
        click.echo(f"dashboard on http://{self._settings.gateway.admin_host}:{self._admin.port}", err=True)
        if self._settings.journal_dir is not None:
            click.echo(f"journal in {_at_home(self._settings.journal_dir)}", err=True)
        spent, spilt = self._spending.read()
        if spent is not None:
            self._control.handle(spent)
        if spilt is not None:
            self._dispatch.handle(spilt)
        if known is not None:
            self._control.handle(KnowledgeRestored(known.fleet))
        tell_outlets(self._settings)
        self._by_hand.restore()
        self._control.handle(_fleet_configured(self._settings))
        self._dispatch.handle(ReportDue())
        # What exists now lives as long as the process. Frozen, it is not walked by full collections any
        # more, which would stop every stream for 66 ms each.
        gc.collect()
        gc.freeze()
        self.ready.set()

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop, 0)
        loop.add_signal_handler(signal.SIGINT, self._stop, 130)
        loop.add_signal_handler(signal.SIGHUP, self._policy.reload)

    def _stop(self, exit_code: int) -> None:
        if self._stopping.is_set():
            # A second signal: whoever sends it does not want to wait for the deadline.
            self._dispatch.handle(StopBegun(self._clock.now_s()))
            return
        self._exit_code = exit_code
        self._stopping.set()

    async def _drain(self) -> None:
        deadline_s = self._settings.gateway.stop_deadline_s
        log.info(
            "stopping: %d requests are open, %.0f s to end them", self._dispatch.open_requests, deadline_s
        )
        self._gateway.begin_stop()
        self._dispatch.handle(StopBegun(self._clock.now_s() + deadline_s))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s + AFTER_DEADLINE_S):
                while self._dispatch.open_requests or self._gateway.open_connections:
                    await asyncio.sleep(STOP_POLL_S)

    async def _close(self) -> None:
        if self.ready.is_set():  # else the fleet, and its books, are somebody else's
            self._spending.write(self._control.view(), self._dispatch.spilt_minutes())
            await self._knowledge.close(self._known)
        self._control.cease()
        self._dispatch.cease()
        await self._caches.close()
        await self._gateway.close()
        await self._admin.close()
        await self._fleets.close()
        if isinstance(self._journal, FileJournal):
            await asyncio.to_thread(self._journal.close)

    # ---- between the brains ----

    def _publish(self, table: RouteTable) -> None:
        self._dispatch.publish(table)
        self._caches.routes_are(table)

    def _kv_events_port(self, model: ModelId) -> int | None:
        settings = self._settings.models.get(model)
        return None if settings is None else settings.kv_events_port

    def _report(self, report: DemandReport) -> None:
        self._pages.note(report)
        self._control.demand(report)

    def _record(self, record: Record) -> None:
        self._meters.record(record)
        self._pages.record(record, self._clock.now_s())
        if request_log.isEnabledFor(logging.DEBUG):
            request_log.debug("%s", record)

    def _rewrite(self, route: Route, body: bytes) -> bytes:
        """The body as this replica's engine must get it, by what it was started with."""
        spec = self._fleets.spec_of(route.model, route.replica_id)
        if spec is not None and spec.model_name != route.model:
            # Lent by another model of its group: the engine knows the weights by that one's name.
            body = lora.renamed(body, route.model, spec.model_name)
        return ADAPTERS[route.engine].rewrite(body, spec)

    def _resumes(self, model: ModelId) -> bool:
        """Whether its streams, or those of any of its versions, are taken up when they break off."""
        shift = self._settings.shifts.get(model)
        names = [model] if shift is None else [ModelId(name) for name, _ in shift.versions]
        models = self._settings.models
        return any(name in models and models[name].dispatch.resume for name in names)

    # ---- time and change ----

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            for step in (self._tick_dispatch, self._tick_control, self._policy.look):
                try:
                    step()
                except Exception:
                    # Deadlines and scaling must go on whatever one step met.
                    log.exception("a step of the tick failed")

    def _tick_dispatch(self) -> None:
        self._dispatch.handle(Tick())
        self._dispatch.handle(ReportDue())
        for complaint in self._prefixes.complaints():
            log.warning("%s", complaint)

    def _tick_control(self) -> None:
        self._control.handle(Tick())
        self._by_hand.keep()
        self._spending.keep(self._control.view, self._dispatch.spilt_minutes, self._clock.now_s())
        self._knowledge.keep(self._known, self._control.lessons, self._clock.now_s())

    def _known(self) -> Kept:
        return Kept(self._control.remember(), self._dispatch.remember())

    def _take_over(self, new: Settings) -> None:
        """The policy file was changed; a PolicyError changes nothing."""
        outlets = outlets_for(new, self._policy.path)
        for key in differences(self._begun_with, new):
            log.warning("%s has changed; it holds from the next start of Tidegate on", key)
        self._settings = new
        self._names = names_in(new)
        self._fleets.configure(new)
        self._gateway.configure(new.gateway, outlets)
        self._dispatch.handle(_models_configured(new))
        self._control.handle(_fleet_configured(new))
        tell_outlets(new)
        log.info("the policy file was changed: %d models are configured", len(new.models))


def _journal(settings: Settings) -> FileJournal | NoJournal:
    if settings.journal_dir is None:
        return NoJournal()
    run = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}"
    return FileJournal(settings.journal_dir, run, settings.journal_max_bytes)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"{error.strerror}; --port and --admin-port name others, and 0 takes any free one"
    return str(error)


def _at_home(path: Path) -> str:
    """As a shell takes it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _manners(engine: str) -> Manners:
    return ADAPTERS[engine].manners


def _models_configured(settings: Settings) -> ModelsConfigured:
    models = {name: model.dispatch for name, model in settings.models.items()}
    index_bytes = settings.gateway.prefix_index_bytes
    return ModelsConfigured(models, settings.queues, dict(settings.shifts), index_bytes)


def _fleet_configured(settings: Settings) -> FleetConfigured:
    models = {name: model.fleet for name, model in settings.models.items()}
    return FleetConfigured(models, settings.limits, settings.nodes)
