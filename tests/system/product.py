"""The whole product as a subprocess, as a user starts it: ``tidegate serve FILE`` on free ports.

    async with product(policy, folder) as p:
        await p.until_serving(2)
        p.kill()

State, journal and log are in ``folder``. A failure inside the block carries the end of the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from system import processes

START_WITHIN_S = 60.0
STOP_WITHIN_S = 60.0
POLL_S = 0.005
LOG_LINES_SHOWN = 60
READY = re.compile(rb"^gateway ready on (\S+)$", re.MULTILINE)
ADMIN = re.compile(rb"^dashboard on (\S+)$", re.MULTILINE)


class Product:
    """One folder and whichever process of Tidegate runs on it now."""

    def __init__(self, policy: dict[str, Any] | Path, folder: Path) -> None:
        if isinstance(policy, Path):
            policy = yaml.safe_load(policy.read_text())
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.policy = {
            **policy,
            "gateway": {"port": 0, "admin_port": 0, **policy.get("gateway", {})},
            "fleet": {"state_dir": str(folder / "state"), **policy.get("fleet", {})},
        }
        self.journal_dir = folder / "state" / "journal"
        self.url = self.admin = ""
        self._policy_file = folder / "policy.yaml"
        self._policy_file.write_text(yaml.safe_dump(self.policy, sort_keys=False))
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._session: aiohttp.ClientSession | None = None
        state = str((folder / "state").resolve())
        self.fleet_mark = hashlib.sha256(state.encode()).hexdigest()[:16]

    # ---- the process ----

    async def start(self) -> float:
        """Start it; returns after how many seconds ``GET /ready`` said 200."""
        self._starts += 1
        began_s = time.monotonic()
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidegate", "serve", str(self._policy_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        await self.wait_until(self._has_said_where, START_WITHIN_S)
        await self.wait_until(self._is_ready, START_WITHIN_S)
        return time.monotonic() - began_s

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def cpu_s(self) -> float:
        """The processor time of the running process so far: of a start, what no neighbour can stretch."""
        return processes.cpu_s(self.pid)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """``kill -9``, and wait for its end: nothing is tidied up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_WITHIN_S)

    def terminate(self) -> None:
        """SIGTERM; does not wait."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    async def stop(self) -> int:
        """SIGTERM and wait for the end; the exit code."""
        self.terminate()
        await self.wait_until(lambda: not self.is_running, STOP_WITHIN_S)
        code = self.exit_code
        assert code is not None
        return code

    # ---- what it shows ----

    def log(self) -> str:
        """What it has said since its last start."""
        return self._log_file.read_text(errors="replace")

    async def fleet(self) -> dict[str, Any]:
        """``GET /fleet``."""
        async with self._http.get(f"{self.admin}/fleet") as answer:
            return await answer.json()

    async def model(self, name: str) -> dict[str, Any]:
        """One model's part of it."""
        return next(model for model in (await self.fleet())["models"] if model["id"] == name)

    async def serving(self, name: str | None = None) -> list[dict[str, Any]]:
        """The replicas that serve, of one model or of all."""
        models = (await self.fleet())["models"]
        return [
            replica
            for model in models
            if name in (None, model["id"])
            for replica in model["replicas"]
            if replica["state"] == "serving"
        ]

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of the series that have these labels; 0 when there is none."""
        async with self._http.get(f"{self.admin}/metrics") as answer:
            page = await answer.text()
        total = 0.0
        for line in page.splitlines():
            series, _, value = line.rpartition(" ")
            known, _, given = series.partition("{")
            if known == name and all(f'{key}="{wanted}"' in given for key, wanted in labels.items()):
                total += float(value)
        return total

    def replica_processes(self) -> dict[str, list[processes.Process]]:
        """What really runs, by replica."""
        return processes.of_replicas(self.fleet_mark)

    # ---- waiting ----

    async def wait_until(self, condition: Callable[[], Any], within_s: float) -> Any:
        """The first true value of ``condition``, which may be async; the log when there is none in time."""
        deadline_s = time.monotonic() + within_s
        while True:
            value = condition()
            if isinstance(value, Awaitable):
                value = await value
            if value:
                return value
            if time.monotonic() >= deadline_s:
                message = f"not within {within_s} s: {getattr(condition, '__name__', condition)}"
                raise AssertionError(message)
            await asyncio.sleep(POLL_S)

    async def until_serving(self, count: int, name: str | None = None, within_s: float = 60.0) -> None:
        """Return once so many replicas serve."""

        async def so_many_serve() -> bool:
            return len(await self.serving(name)) == count

        await self.wait_until(so_many_serve, within_s)

    async def until_idle(self, within_s: float = 30.0) -> None:
        """Return once no request is open and no replica has any in flight."""

        async def is_idle() -> bool:
            models = (await self.fleet())["models"]
            busy = sum(m["in_flight"] + m["queue"]["requests"] for m in models)
            return not busy and not await self.metric("tidegate_open_requests")

        await self.wait_until(is_idle, within_s)

    # ---- the pieces ----

    @property
    def _log_file(self) -> Path:
        return self.folder / f"serve-{self._starts}.log"

    @property
    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        return self._session

    def _has_said_where(self) -> bool:
        assert self.is_running, f"it ended with {self.exit_code}"
        said = self._log_file.read_bytes()
        gateway, admin = READY.search(said), ADMIN.search(said)
        if gateway and admin:
            self.url, self.admin = gateway[1].decode(), admin[1].decode()
        return bool(gateway and admin)

    async def _is_ready(self) -> bool:
        async with self._http.get(f"{self.url}/ready") as answer:
            return answer.status == 200

    async def close(self) -> None:
        """End everything, whatever state it is in."""
        if self._session is not None:
            await self._session.close()
        if self.is_running:
            self.terminate()
            with contextlib.suppress(AssertionError):
                await self.wait_until(lambda: not self.is_running, STOP_WITHIN_S)
        if self.is_running:
            self.kill()
        for left in self.replica_processes().values():
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)


@asynccontextmanager
async def product(policy: dict[str, Any] | Path, folder: Path) -> AsyncIterator[Product]:
    """Tidegate, ready; everything it started is gone at the end of the block. Ports and folders are its own."""
    made = Product(policy, folder)
    try:
        await made.start()
        yield made
    except BaseException as error:
        lines = made.log().splitlines()[-LOG_LINES_SHOWN:]
        error.add_note("\n".join(("the product's last words:", *lines)))
        raise
    finally:
        await made.close()
