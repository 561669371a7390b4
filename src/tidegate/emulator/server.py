"""One emulated engine as a server: its cold start, its port, the ways it breaks and the ways it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

from aiohttp import web

from tidegate.emulator.board import Board
from tidegate.emulator.faults import Fault, FaultKind
from tidegate.emulator.meters import Meters
from tidegate.emulator.options import EmulatorOptions, OnSigterm
from tidegate.emulator.routes import Routes
from tidegate.emulator.service import Service
from tidegate.emulator.sleeping import Sleeper
from tidegate.engine.batch import Engine
from tidegate.engine.catalogue import profile
from tidegate.engine.coldstart import StageKind
from tidegate.sim.kernel import SeededDice

_LOG = logging.getLogger(__name__)
_IDLE_CONNECTION_S = 5.0
"""As uvicorn, which serves vLLM."""
_SAID = {
    StageKind.WEIGHTS: "Loading weights took %.2f seconds",
    StageKind.COMPILE: "torch.compile took %.2f s in total",
    StageKind.GRAPH_CAPTURE: "Graph capturing finished in %.2f secs",
}
"""What vLLM writes when a stage of its start is over."""


class Server:
    """One emulated engine and its port. Make it inside a running loop."""

    def __init__(self, options: EmulatorOptions, on_crash: Callable[[], None] | None = None) -> None:
        for problem in options.problems():
            raise ValueError(problem)
        self._options = options
        self._crash = on_crash or self._vanish
        law = profile(options.profile).law
        engine = Engine(options.limits, law, first_request_s=options.first_request_s)
        meters = Meters(options.model_name, options.time_scale, engine.limits)
        self._service = Service(engine, meters, options.time_scale, options.max_queued)
        self._sleeper = Sleeper(self._service, options.cold_start, options.time_scale)
        self._slow: list[float] = []
        """Factors of the faults that slow it down now."""
        self._board = Board(
            {
                FaultKind.SLOW: self._switch_slow,
                FaultKind.HANG: self._switch_hang,
                FaultKind.REFUSE: self._switch_refuse,
                FaultKind.CRASH: self._switch_crash,
                FaultKind.LORA: lambda is_on, fault: self._routes.lora.switch(is_on, fault),
            }
        )
        self._routes = Routes(options, self._service, self._sleeper, self._board, self._open_connections)
        self._runner = web.AppRunner(
            self._routes.app(),
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=_IDLE_CONNECTION_S,
            shutdown_timeout=2.0,
        )
        self._socket = _bound(options.host, options.port)
        self._address: tuple[str, int] = self._socket.getsockname()[:2]
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens, or will."""
        return self._address[1]

    @property
    def url(self) -> str:
        """Its address for a client."""
        return f"http://{self._options.host}:{self.port}"

    async def start(self) -> None:
        """Listen and begin the cold start, which goes on by itself."""
        await self._runner.setup()
        if not self._options.refuse_until_ready:
            await self._listen()
        self._spawn(self._load())

    async def end(self, how: OnSigterm) -> None:
        """Bring running answers to their end as told, then stop."""
        self._routes.is_ending = True
        if how is OnSigterm.DRAIN:
            await self._drained()
        if how is not OnSigterm.CUT:
            self._service.end_all_early()
            self._routes.let_go()
            self._close_port()
            await self._runner.cleanup()  # waits until the handlers have written their last
        await self.stop()

    async def stop(self) -> None:
        """Close the port and every connection at once."""
        self._board.clear()
        self._vanish()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sleeper.close()
        await self._service.close()
        await self._runner.cleanup()
        self._socket.close()

    async def _load(self) -> None:
        seed = self._options.seed
        dice = SeededDice(secrets.randbits(64) if seed is None else seed)
        for stage in self._options.starting():
            self._routes.stage = stage.kind.value
            took_s = stage.draw_s(dice) / self._options.time_scale
            await asyncio.sleep(took_s)
            if stage.kind in _SAID:
                _LOG.info(_SAID[stage.kind], took_s)
        if self._listener is None:
            await self._listen()
        self._routes.stage = None
        for fault in self._options.faults:
            self._board.order(fault)
        _LOG.info("emulated %s ready on %s", self._options.model_name, self.url)

    async def _drained(self) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._options.shutdown_timeout_s
        while self._service.live and loop.time() < deadline_s:
            await asyncio.sleep(0.02)

    # ---- the port ----

    async def _listen(self) -> None:
        if self._socket.fileno() < 0:
            self._socket = _bound(*self._address)
        assert self._runner.server is not None
        self._listener = await asyncio.get_running_loop().create_server(
            self._runner.server, sock=self._socket, backlog=1024
        )

    def _close_port(self) -> None:
        """New connections are refused; those that are open stay so."""
        if self._listener:
            self._listener.close()
            self._listener = None

    def _vanish(self) -> None:
        """As when the process dies: nobody listens, every connection is reset."""
        self._close_port()
        for connection in self._runner.server.connections if self._runner.server else []:
            if connection.transport:
                connection.transport.abort()

    def _open_connections(self) -> int:
        return len(self._runner.server.connections) if self._runner.server else 0

    # ---- faults of the whole engine ----

    def _switch_slow(self, is_on: bool, fault: Fault) -> None:
        if is_on:
            self._slow.append(fault.factor)
        else:
            self._slow.remove(fault.factor)
        self._service.slow_down(self._slow)

    def _switch_hang(self, is_on: bool, fault: Fault) -> None:
        if is_on:
            self._service.stand_still(fault)
        else:
            self._service.go_on(fault)

    def _switch_refuse(self, is_on: bool, _: Fault) -> None:
        if is_on:
            self._close_port()
        else:
            self._spawn(self._listen())

    def _switch_crash(self, is_on: bool, _: Fault) -> None:
        if is_on:
            self._crash()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@asynccontextmanager
async def emulator(options: EmulatorOptions) -> AsyncIterator[Server]:
    """An emulated engine in this very loop, gone at the end of the block."""
    server = Server(options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def run(options: EmulatorOptions) -> None:
    """Serve until a signal ends it.

    Raises:
        OSError: it cannot listen there.
    """
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(_serve(options))


async def _serve(options: EmulatorOptions) -> None:
    server = Server(options, on_crash=lambda: os._exit(1))
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    await server.start()
    await told.wait()
    await server.end(options.on_sigterm)


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform != "linux":
        return asyncio.new_event_loop()
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _bound(host: str, port: int) -> socket.socket:
    """A socket that holds the address; until it listens, connections are refused."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
