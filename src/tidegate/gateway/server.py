"""The gateway as a whole: a listening socket, the front desk, the porter, and one sweep for all times."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from time import monotonic

from prometheus_client import CollectorRegistry, generate_latest

from tidegate.adapters.base import Manners
from tidegate.config.settings import GatewaySettings
from tidegate.core.types import ModelId, Route
from tidegate.gateway.client import ClientConnection
from tidegate.gateway.desk import FrontDesk
from tidegate.gateway.dialling import Rewrite
from tidegate.gateway.meters import Meters
from tidegate.gateway.names import Named
from tidegate.gateway.outlet import Outlets
from tidegate.gateway.porter import Porter
from tidegate.runtime.dispatching import Carrier, DispatchOwner

SWEEP_S = 0.25
"""How often all times are looked at together. A timer for each request would cost more than the whole
sweep: 0.2 ms over 500 streams."""
CLIENT_SHARES = 4
"""Clients' times are in seconds, and there may be 10,000 clients: 5 ms in one go, so each sweep looks at
a quarter of them."""

BACKLOG = 4096
CLOSED_WITHIN_S = 1.0
"""A connection that never reports its end must not keep the process from ending."""


def _unchanged(_route: Route, body: bytes) -> bytes:
    return body


class Gateway:
    """Accepts clients' requests and streams engines' answers, as the dispatcher decides.

    ``names`` gives the names that clients may ask for and what each stands for (``names_of``).
    ``meters.record`` is to be called with every ``Record``; the gateway sees no records itself.
    """

    def __init__(
        self,
        owner: DispatchOwner,
        settings: GatewaySettings,
        *,
        names: Callable[[], Mapping[str, Named]],
        manners: Callable[[str], Manners],
        rewrite: Rewrite = _unchanged,
        meters: Meters | None = None,
        metrics_page: Callable[[], bytes] | None = None,
        resumes: Callable[[ModelId], bool] | None = None,
        outlets: Outlets | None = None,
    ) -> None:
        self.meters = (
            Meters(lambda: {named.model for named in names().values()}) if meters is None else meters
        )
        self._settings = settings
        self._owner = owner
        self._porter = Porter(owner, settings, manners, rewrite, self.meters)
        self._porter.outlets = outlets or {}
        self._desk = FrontDesk(
            settings, self._porter, self.meters, names, metrics_page or self._own_page(), owner.now_s
        )
        if resumes is not None:
            self._desk.resumes = resumes
        self.meters.open_connections = lambda: len(self._desk.clients)
        self.meters.open_requests = lambda: owner.open_requests
        self.meters.upstream_connections = lambda: len(self._porter.pool.open)
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sweeps = 0
        self._swept: list[ClientConnection] = []
        owner.attach(self._porter)

    def __repr__(self) -> str:
        return f"<Gateway {self._desk!r} {self._porter!r}>"

    @property
    def carrier(self) -> Carrier:
        """Who carries out the dispatcher's orders; attached to the owner already."""
        return self._porter

    @property
    def open_connections(self) -> int:
        """Of clients."""
        return len(self._desk.clients)

    @property
    def open_calls(self) -> int:
        """Requests handed to the dispatcher and not ended."""
        return self._porter.open_calls

    @property
    def upstream_connections(self) -> int:
        """To engines, at work or at rest."""
        return len(self._porter.pool.open)

    async def start(self) -> tuple[str, int]:
        """Accept connections; returns the address, with the port that was given for port 0."""
        loop = asyncio.get_running_loop()
        self._porter.start()
        self._server = await loop.create_server(
            lambda: ClientConnection(self._desk),
            self._settings.host,
            self._settings.port,
            backlog=BACKLOG,
        )
        self._timer = loop.call_later(SWEEP_S, self._sweep)
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    def configure(self, settings: GatewaySettings, outlets: Outlets | None = None) -> None:
        """New limits and keys at once, and where spilt requests go from here on. The address is that of the start."""
        self._settings = settings
        self._porter.outlets = outlets or {}
        self._porter.settings = settings
        self._desk.configure(settings)

    def begin_stop(self) -> None:
        """Accept no new request. Each connection closes when its current answer is complete.

        While requests are open, connections are still made, so that whoever asks sees 503 from ``/ready``
        and is told when to come back; a refused connection would say neither. With the last request the
        listener goes: at once when there is none.
        """
        self._desk.stopping = True
        self._close_idle()
        self._stop_listening_when_done()

    async def close(self) -> None:
        """Close everything, whatever is under way."""
        self.begin_stop()
        if self._server is not None:
            self._server.close()
        if self._timer is not None:
            self._timer.cancel()
        self._porter.close()
        for client in list(self._desk.clients):
            client.abort()
            client.call = None
        if self._server is not None:
            await self._server.wait_closed()
        # The transports report their end in a turn of the loop of their own.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSED_WITHIN_S):
                while self._desk.clients or self._porter.pool.open:
                    await asyncio.sleep(0)

    def _close_idle(self) -> None:
        for client in list(self._desk.clients):
            if client.is_idle:
                client.close()

    def _stop_listening_when_done(self) -> None:
        if self._owner.open_requests or self._server is None:
            return
        self._server.close()
        # Those who connected meanwhile and have not asked for anything.
        self._close_idle()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SWEEP_S, self._sweep)
        now_s = monotonic()
        if self._desk.stopping:
            self._stop_listening_when_done()
        self._porter.sweep(now_s)
        share = self._sweeps % CLIENT_SHARES
        self._sweeps += 1
        if share == 0:
            self._swept = list(self._desk.clients)
        for client in self._swept[share::CLIENT_SHARES]:
            client.sweep(now_s)

    def _own_page(self) -> Callable[[], bytes]:
        registry = CollectorRegistry()
        registry.register(self.meters)
        return lambda: generate_latest(registry)
