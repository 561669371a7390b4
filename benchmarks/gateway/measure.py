"""One scenario against one gateway: the load client's figures, and the CPU clocks of the same span."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gateway import machine
from benchmarks.gateway.scenarios import Scenario
from benchmarks.gateway.stats import Measurement

QUIET_CPU_S = 0.02
GRACE_S = 30.0


class LoadFailed(Exception):
    """The load client gave no figures."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """CPU time so far, and the wall."""

    wall_s: float
    gateway_s: float
    engine_s: float
    machine_s: float
    stolen_s: float

    @classmethod
    def read(cls, gateway: list[int], engine: list[int]) -> Clocks:
        return cls(time.monotonic(), machine.cpu_s(gateway), machine.cpu_s(engine), *machine.machine_cpu_s())


@dataclass(frozen=True, slots=True)
class LoadClient:
    """The compiled client on its core."""

    program: Path
    core: int

    def run(
        self,
        port: int,
        bodies: Path,
        scenario: Scenario,
        window_s: float,
        gateway: list[int],
        engine: list[int],
    ) -> dict[str, float]:
        """Its figures, with the share of a core that each party took while it counted."""
        command = [str(self.program), "--port", str(port), "--bodies", str(bodies)]
        process = subprocess.Popen(
            [*command, *scenario.load_options(window_s)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {self.core}),
        )
        assert process.stdout is not None
        try:
            opened = process.stdout.readline()
            before, client_before = Clocks.read(gateway, engine), machine.cpu_s([process.pid])
            text = process.stdout.readline()
            after = Clocks.read(gateway, engine)
            client_s = _cpu_of_ended(process) - client_before
        finally:
            process.kill()
            process.wait(GRACE_S)
        try:
            report: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise LoadFailed(f"{opened} {text}".strip()[:200]) from error
        return _figures(report, scenario) | _shares(before, after, client_s)


def _cpu_of_ended(process: subprocess.Popen[str]) -> float:
    """User and system time of the client, which has printed its last line."""
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime


def _shares(before: Clocks, after: Clocks, client_s: float) -> dict[str, float]:
    wall_s = after.wall_s - before.wall_s
    gateway_s, engine_s = after.gateway_s - before.gateway_s, after.engine_s - before.engine_s
    foreign_s = max(0.0, after.machine_s - before.machine_s - gateway_s - engine_s - client_s)
    seconds = {"cpu": gateway_s, "engine_cpu": engine_s, "client_cpu": client_s, "foreign_cpu": foreign_s}
    seconds["stolen_cpu"] = after.stolen_s - before.stolen_s
    return {f"{name}_percent": 100 * spent_s / wall_s for name, spent_s in seconds.items()}


def _figures(report: dict[str, Any], scenario: Scenario) -> dict[str, float]:
    figures: dict[str, float] = {"per_s": report["per_s"], "errors": sum(report["errors"].values())}
    times = {"": "latency_us"}
    if scenario.streams:
        figures["chunks_per_s"] = report["chunks_per_s"]
        times |= {"first_chunk_": "first_chunk_us", "delay_": "delay_us", "gap_": "gap_us"}
    for prefix, name in times.items():
        if report[name] is not None:
            figures |= {f"{prefix}{q}_us": report[name][q] for q in ("p50", "p99")}
    if figures["errors"] and not report["completed"]:
        raise LoadFailed(report["first_error"] or "no request was answered")
    return figures


def _wait_until_quiet(pids: list[int]) -> None:
    """Lets a slow gateway work off what the scenario before left behind."""
    for _ in range(40):
        before = machine.cpu_s(pids)
        time.sleep(0.1)
        if machine.cpu_s(pids) - before < QUIET_CPU_S:
            return


@dataclass(frozen=True, slots=True)
class Bench:
    """What stays the same from one measurement to the next."""

    client: LoadClient
    bodies: dict[str, Path]
    window_s: float
    max_foreign_percent: float
    attempts: int

    def measure(
        self,
        name: str,
        port: int,
        gateway_pid: int | None,
        engine_pid: int,
        scenario: Scenario,
        repetition: int,
    ) -> Measurement:
        """Measures again when others took the CPU meanwhile, and keeps the least disturbed attempt."""
        gateway = machine.with_descendants(gateway_pid) if gateway_pid is not None else []
        best: dict[str, float] | None = None
        problem = ""
        for _ in range(self.attempts):
            _wait_until_quiet(gateway)
            try:
                figures = self.client.run(
                    port, self.bodies[scenario.kind.name], scenario, self.window_s, gateway, [engine_pid]
                )
            except LoadFailed as error:
                problem = str(error)
                continue
            if best is None or figures["foreign_cpu_percent"] < best["foreign_cpu_percent"]:
                best = figures
            if best["foreign_cpu_percent"] <= self.max_foreign_percent:
                break
        if best is None:
            return Measurement(name, scenario.name, repetition, {}, problem)
        if gateway:
            best |= {"memory_mb": machine.memory_mb(gateway)} | _costs(best, scenario)
        return Measurement(name, scenario.name, repetition, best)


def _costs(figures: dict[str, float], scenario: Scenario) -> dict[str, float]:
    """CPU per request, or per chunk of a stream."""
    rate = figures["chunks_per_s"] if scenario.streams else figures["per_s"]
    return {"cpu_us_each": figures["cpu_percent"] * 1e4 / rate} if rate else {}
