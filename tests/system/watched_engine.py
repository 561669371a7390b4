"""The emulated engine with a notebook: ``python watched_engine.py --notes FOLDER [--metrics-lag S] EMULATOR-OPTIONS``.

It notes when it was ready, and for each request when it came and when the engine had done with it, by the id
that the gateway forwards, and how many were open then. What the engine saw does not depend on anything that Tidegate says.
``--metrics-lag`` hands out every metrics page so long after it was written.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from aiohttp import web

from tidegate.emulator import server
from tidegate.emulator.__main__ import main as emulate
from tidegate.emulator.routes import Routes


class Mark(Enum):
    """What a line is about."""

    READY = "="
    BEGUN = "+"
    ENDED = "-"


class Notebook:
    """One line for being ready, each beginning and each end: wall time, mark, number open, id."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{os.getpid()}.notes").open("w", buffering=1)
        self._open = 0

    def ready(self) -> None:
        self._write(Mark.READY, "")

    def begun(self, request_id: str) -> None:
        self._open += 1
        self._write(Mark.BEGUN, request_id)

    def ended(self, request_id: str) -> None:
        self._open -= 1
        self._write(Mark.ENDED, request_id)

    def _write(self, mark: Mark, request_id: str) -> None:
        self._file.write(f"{time.time():.6f} {mark.value} {self._open} {request_id}\n")


@dataclass(frozen=True, slots=True)
class Note:
    """One line, read back."""

    at_s: float
    mark: Mark
    open: int
    request_id: str


def notes(folder: Path) -> dict[str, list[Note]]:
    """What each engine wrote, by file."""
    found: dict[str, list[Note]] = {}
    for path in sorted(folder.glob("*.notes")):
        lines = [line.split(" ", 3) for line in path.read_text().splitlines()]
        found[path.stem] = [
            Note(float(at_s), Mark(mark), int(count), request_id) for at_s, mark, count, request_id in lines
        ]
    return found


def most_open(folder: Path) -> dict[str, int]:
    """The most requests that each engine ever had open at once."""
    return {name: max(note.open for note in lines) for name, lines in notes(folder).items() if lines}


def command(folder: Path, *options: str, metrics_lag_s: float = 0.0) -> list[str]:
    """For ``command`` in a policy file."""
    ours = [sys.executable, str(Path(__file__).resolve()), "--notes", str(folder)]
    ours += ["--metrics-lag", str(metrics_lag_s)]
    return [*ours, "--model", "{model}", "--port", "{port}", "--max-sequences", "{slots}", *options]


def _watching(notebook: Notebook, metrics_lag_s: float) -> type[Routes]:
    @web.middleware
    async def watch(request, handler):
        if request.path == "/metrics":
            page = await handler(request)
            await asyncio.sleep(metrics_lag_s)
            return page
        request_id = request.headers.get("x-request-id")
        if request_id is None:  # A readiness probe, or somebody who asks for the state.
            return await handler(request)
        notebook.begun(request_id)
        try:
            return await handler(request)
        finally:
            notebook.ended(request_id)

    class WatchedRoutes(Routes):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "stage" and value is None:
                notebook.ready()

        def app(self) -> web.Application:
            app = super().app()
            app.middlewares.append(watch)
            return app

    return WatchedRoutes


def main() -> int:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--metrics-lag", type=float, default=0.0)
    ours, options = parser.parse_known_args()
    server.Routes = _watching(Notebook(ours.notes), ours.metrics_lag)  # type: ignore[misc]
    return emulate(options)


if __name__ == "__main__":
    sys.exit(main())
