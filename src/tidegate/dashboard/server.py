"""The admin address: the live page, ``/fleet``, ``/metrics``, ``/feed`` and ``/health``; and ``/scale``, which changes something.

It never holds a brain. What it shows comes in through callables, which are asked on the event loop and
must be quick.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib import resources

import msgspec
from aiohttp import web

from tidegate.config.hosts import Hosts
from tidegate.dashboard import scaling
from tidegate.dashboard.feed import Feed
from tidegate.dashboard.guard import guard, harden
from tidegate.dashboard.page import DecisionPage, FleetPage
from tidegate.dashboard.scaling import Scale, Scaling

STOP_WITHIN_S = 2.0
KEEPALIVE_S = 15.0

ASSETS = {
    "/": ("index.html", "text/html"),
    "/assets/dashboard.css": ("dashboard.css", "text/css"),
    "/assets/dashboard.js": ("dashboard.js", "text/javascript"),
    "/assets/charts.js": ("charts.js", "text/javascript"),
    "/assets/cards.js": ("cards.js", "text/javascript"),
    "/assets/words.js": ("words.js", "text/javascript"),
    "/assets/icon.svg": ("icon.svg", "image/svg+xml"),
}


class AdminServer:
    """Serves the admin pages from ``start`` to ``close``."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        fleet: Callable[[], FleetPage],
        metrics_text: Callable[[], bytes],
        recent: Callable[[], Sequence[DecisionPage]],
        names: Iterable[str] = (),
        scale: Scale | None = None,
    ) -> None:
        """``recent`` gives the last decisions, oldest first; port 0 takes a free one.

        ``names`` are further host names under which browsers may ask for the pages. Without ``scale`` nothing can be
        changed.
        """
        self._host, self._port = host, port
        self._fleet = fleet
        self._metrics_text = metrics_text
        self._scaling = None if scale is None else Scaling(scale)
        self._feed = Feed(fleet, recent)
        self._reading: asyncio.Task[None] | None = None
        self._runner = web.AppRunner(
            self._app(Hosts(host, names)),
            access_log=None,
            keepalive_timeout=KEEPALIVE_S,
            shutdown_timeout=STOP_WITHIN_S,
        )

    def __repr__(self) -> str:
        return f"<AdminServer {self._host}:{self._port} {self._feed!r}>"

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._port

    async def start(self) -> None:
        """Listen, and begin to read the fleet.

        Raises:
            OSError: the address cannot be listened on.
        """
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self._port = self._runner.addresses[0][1]
        self._reading = asyncio.create_task(self._feed.run(), name="dashboard feed")

    async def close(self) -> None:
        """End every feed and stop listening, within two seconds; again is no harm."""
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
            self._reading = None
        self._feed.close()
        await self._runner.cleanup()

    def _app(self, hosts: Hosts) -> web.Application:
        writable = () if self._scaling is None else (scaling.PATH,)
        app = web.Application(middlewares=[guard(hosts, writable)], client_max_size=scaling.BODY_BYTES_MAX)
        app.on_response_prepare.append(harden)
        app.router.add_get("/fleet", self._get_fleet)
        app.router.add_get("/metrics", self._get_metrics)
        app.router.add_get("/health", self._get_health)
        app.router.add_get("/feed", self._get_feed, allow_head=False)
        if self._scaling is not None:
            app.router.add_post(scaling.PATH, self._scaling.post)
        for path, (name, kind) in ASSETS.items():
            app.router.add_get(path, _page(name, kind))
        return app

    async def _get_fleet(self, _request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self._fleet()), content_type="application/json")

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return web.Response(body=self._metrics_text(), headers={"Content-Type": kind})

    async def _get_health(self, _request: web.Request) -> web.Response:
        return web.Response(body=b'{"status":"ok"}', content_type="application/json")

    async def _get_feed(self, request: web.Request) -> web.StreamResponse:
        def cut() -> None:
            if request.transport is not None:
                request.transport.abort()

        watcher = self._feed.join(cut)
        if watcher is None:
            return web.Response(status=503, text="Too many pages are open.\n", headers={"Retry-After": "5"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            await response.prepare(request)
            while (told := await watcher.next()) is not None:
                await response.write(told)
        except ConnectionError:
            # A tab was closed. aiohttp says so with this error; it is how every feed ends.
            pass
        finally:
            self._feed.leave(watcher)
        return response


def _page(name: str, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    # Read once and sent whole: there is no path to escape from and no Range header to abuse.
    body = resources.files("tidegate.dashboard").joinpath("assets", name).read_bytes()

    async def get(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return get
