"""Starting what is measured, pinned to its core, and ending it with everything it started."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.gateway.bodies import MODEL

START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 8.0


class CannotRun(Exception):
    """The gateway cannot be installed or started here; the message says why."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Place:
    """What a gateway is told: its folder, its port, one more port, and the engines' ports."""

    folder: Path
    port: int
    spare_port: int
    engines: tuple[int, ...]

    @property
    def engine_urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.engines]


@dataclass(frozen=True, slots=True)
class Launch:
    """A command and what is added to its environment."""

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gateway:
    """Something that answers the engines' API on a port of its own."""

    name: str
    launch: Callable[[Place], Launch]
    version: Callable[[], str]
    install: Callable[[], None] = lambda: None
    """Raises CannotRun when it is not here and cannot be fetched."""


def start_pinned(
    command: list[str], core: int, environment: Mapping[str, str], folder: Path, log: Path
) -> subprocess.Popen[bytes]:
    """Its own process group on one core; what it says goes to the log."""
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Asks the whole group to end, then makes it."""
    for order in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, order)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_DEADLINE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _answers(port: int) -> str:
    """Empty once a chat completion comes through; else what came instead."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            text = response.read().decode(errors="replace")
            return "" if "A fixed answer" in text else text[:200]
    except OSError as error:
        return str(error)


class Running:
    """A started gateway, as a context: ready when entered, gone when left."""

    def __init__(self, gateway: Gateway, place: Place, core: int) -> None:
        self._gateway = gateway
        self._place = place
        self._core = core
        self._log = place.folder / "log"

    def __enter__(self) -> Self:
        shutil.rmtree(self._place.folder, ignore_errors=True)
        self._place.folder.mkdir(parents=True)
        launch = self._gateway.launch(self._place)
        try:
            self._process = start_pinned(
                launch.command, self._core, launch.environment, self._place.folder, self._log
            )
        except OSError as error:
            raise CannotRun(str(error)) from error
        try:
            self._wait_until_ready()
        except BaseException:
            end_group(self._process)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end_group(self._process)

    @property
    def port(self) -> int:
        return self._place.port

    @property
    def pid(self) -> int:
        return self._process.pid

    def check_alive(self, doing: str) -> None:
        """Raises CannotRun when it has ended by itself, or by someone else's hand."""
        if self._process.poll() is not None:
            message = f"ended with {self._process.returncode} ({doing}): {self.last_words()}"
            raise CannotRun(message)

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it said nothing"

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_DEADLINE_S
        while True:
            self.check_alive("starting")
            wrong = _answers(self._place.port)
            if not wrong:
                return
            if time.monotonic() > deadline:
                message = f"no answer after {START_DEADLINE_S:g} s: {wrong}"
                raise CannotRun(message)
            time.sleep(0.2)
