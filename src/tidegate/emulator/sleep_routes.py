"""The routes that a vLLM has in its development mode: ``/sleep``, ``/wake_up``, ``/is_sleeping`` and, of
``/collective_rpc``, the one method that gives an engine its weights back."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from aiohttp import web

from tidegate.emulator import replies
from tidegate.emulator.sleeping import MODES, TAGS, Sleeper


class _Rpc(msgspec.Struct):
    method: str


class SleepRoutes:
    """The handlers for one sleeper."""

    def __init__(self, sleeper: Sleeper, stage: Callable[[], str | None]) -> None:
        """``stage`` says what is being waited for while it loads, else None."""
        self._sleeper = sleeper
        self._stage = stage

    def add_to(self, app: web.Application) -> None:
        """Put them beside the others."""
        app.router.add_post("/sleep", self._sleep)
        app.router.add_post("/wake_up", self._wake_up)
        app.router.add_post("/collective_rpc", self._collective_rpc)
        app.router.add_get("/is_sleeping", self._is_sleeping)

    async def _sleep(self, request: web.Request) -> web.Response:
        level, mode = request.query.get("level", "1"), request.query.get("mode", MODES[0])
        if level not in ("1", "2"):
            return replies.wrong("level", level, "1 or 2")
        if mode not in MODES:
            return replies.wrong("mode", mode, f"one of {', '.join(MODES)}")
        stage = self._stage()
        if stage is not None:
            return replies.loading(stage)
        await self._sleeper.sleep(int(level), mode)
        return web.Response()

    async def _wake_up(self, request: web.Request) -> web.Response:
        await self._sleeper.wake(request.query.getall("tags", list(TAGS)))
        return web.Response()

    async def _collective_rpc(self, request: web.Request) -> web.Response:
        try:
            method = msgspec.json.decode(await request.read(), type=_Rpc).method
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return replies.error(400, str(error), "BadRequestError")
        if method != "reload_weights":
            return replies.wrong("method", method, "reload_weights")
        try:
            await self._sleeper.reload_weights()
        except RuntimeError as error:
            return replies.error(500, str(error), "InternalServerError")
        return replies.in_json(b'{"results":[null]}')

    async def _is_sleeping(self, _: web.Request) -> web.Response:
        return replies.in_json(msgspec.json.encode({"is_sleeping": self._sleeper.is_sleeping}))
