"""What really runs, read from ``/proc`` and not from the product: it is the product that is on trial."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

FLEET, REPLICA = "TIDEGATE_FLEET", "TIDEGATE_REPLICA"


@dataclass(frozen=True, slots=True)
class Process:
    """One living process of a replica."""

    pid: int
    group: int


def of_replicas(fleet: str) -> dict[str, list[Process]]:
    """Every living process that carries this fleet's mark, by replica."""
    found: dict[str, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        marks = _environment(entry)
        if marks.get(FLEET) != fleet or REPLICA not in marks:
            continue
        group = _group_of_the_living(entry)
        if group is not None:
            found.setdefault(marks[REPLICA], []).append(Process(int(entry.name), group))
    return found


def groups(processes: list[Process]) -> set[int]:
    """The process groups that these are in."""
    return {process.group for process in processes}


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _environment(entry: Path) -> dict[str, str]:
    try:
        words = os.fsdecode((entry / "environ").read_bytes()).split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if word.startswith("TIDEGATE_") and "=" in word)


def _group_of_the_living(entry: Path) -> int | None:
    """Its process group; None for a zombie, or when it is gone."""
    try:
        fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[2])
