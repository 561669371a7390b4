"""What only an emulated engine has: ``/emulator/fault`` (POST a fault as text, DELETE all) and ``/emulator/state`` (GET)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from aiohttp import web

from tidegate.emulator import replies
from tidegate.emulator.board import Board
from tidegate.emulator.faults import Fault


class OrderRoutes:
    """The handlers by which a test looks and meddles."""

    def __init__(
        self, board: Board, state: Callable[[], Mapping[str, object]], cleared: Callable[[], None]
    ) -> None:
        """``cleared`` is called when all faults have been ended."""
        self._board = board
        self._state = state
        self._cleared = cleared

    def add_to(self, app: web.Application) -> None:
        """Put them beside the others."""
        app.router.add_get("/emulator/state", self._tell)
        app.router.add_post("/emulator/fault", self._order)
        app.router.add_delete("/emulator/fault", self._clear)

    async def _tell(self, _: web.Request) -> web.Response:
        return replies.in_json(msgspec.json.encode(self._state()))

    async def _order(self, request: web.Request) -> web.Response:
        try:
            self._board.order(Fault.parse(await request.text()))
        except ValueError as error:
            return replies.error(400, str(error), "BadRequestError")
        return web.Response(status=204)

    async def _clear(self, _: web.Request) -> web.Response:
        self._board.clear()
        self._cleared()
        return web.Response(status=204)
