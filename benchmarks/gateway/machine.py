"""What the kernel says about processes and the machine, and what a reader must know to judge the figures."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def _stat_fields(pid: int) -> list[str]:
    """The fields after the process's name, which may hold spaces itself."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def with_descendants(pid: int) -> list[int]:
    """The process and all that it started, directly or not."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                children.setdefault(int(_stat_fields(int(entry.name))[1]), []).append(int(entry.name))
    family, unvisited = [], [pid]
    while unvisited:
        member = unvisited.pop()
        family.append(member)
        unvisited += children.get(member, [])
    return family


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time of the processes so far."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            fields = _stat_fields(pid)
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_S


def memory_mb(pids: Iterable[int]) -> float:
    """Proportional set size: pages that several of them share are counted once in all."""
    kilobytes = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            found = re.search(r"^Pss:\s+(\d+)", (PROC / str(pid) / "smaps_rollup").read_text(), re.MULTILINE)
            kilobytes += int(found[1]) if found else 0
    return kilobytes / 1024


def machine_cpu_s() -> tuple[float, float]:
    """Of the whole machine: user, nice and system time, and what its host took away."""
    user, nice, system, _, _, _, _, stolen = map(int, (PROC / "stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system) / TICKS_PER_S, stolen / TICKS_PER_S


@dataclass(frozen=True, slots=True)
class Cores:
    """Where the gateway runs, and where the load client and the engines run."""

    gateway: int
    load: int

    @property
    def shared(self) -> bool:
        return self.gateway == self.load


def choose_cores() -> Cores:
    usable = sorted(os.sched_getaffinity(0))
    return Cores(usable[0], usable[min(1, len(usable) - 1)])


def first_line(*command: str) -> str:
    """The first line that the command prints on either stream; empty when it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter((done.stdout or done.stderr).splitlines()), "").strip()


def facts() -> dict[str, Any]:
    """The machine, the versions of what was measured with, and the state of the sources."""
    model = re.search(r"^model name\s*:\s*(.+)$", (PROC / "cpuinfo").read_text(), re.MULTILINE)
    return {
        "cpu": model[1] if model else platform.processor(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "gcc": first_line("gcc", "--version"),
        "commit": first_line("git", "rev-parse", "HEAD"),
        "uncommitted_changes": bool(first_line("git", "status", "--porcelain", "--untracked-files=no")),
        "load_average": os.getloadavg(),
    }
