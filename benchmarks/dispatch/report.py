"""Rows of the table, and the file that they are written to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


class Report:
    """What was measured, its bound, and whether it holds."""

    def __init__(self) -> None:
        self.table = Table("part", "figure", "measured", "bound", "", title="dispatch: the router")
        self.routers = Table(
            "workload", "router", "TTFT p50", "p90", "p99 s", "E2E p90 s", "hit", "max/mean", title="routers"
        )
        self.figures: dict[str, Any] = {}
        self.rows: list[dict[str, Any]] = []

    def row(self, part: str, name: str, value: float, bound: float, *, at_most: bool, unit: str = "") -> None:
        """One figure. A bound holds when the value is at most, or at least, that."""
        holds = value <= bound if at_most else value >= bound
        sign = "≤" if at_most else "≥"
        verdict = "yes" if holds else "NO"
        self.table.add_row(part, name, f"{value:.3g}{unit}", f"{sign} {bound:g}{unit}", verdict)
        self.figures[f"{part}: {name}"] = {"value": value, "bound": bound, "at_most": at_most, "holds": holds}

    def note(self, part: str, name: str, value: str) -> None:
        """A figure without a bound."""
        self.table.add_row(part, name, value, "", "")
        self.figures[f"{part}: {name}"] = {"value": value}

    def router(self, workload: str, name: str, seen: Any) -> None:
        """One router on one workload."""
        self.routers.add_row(
            workload,
            name,
            *(f"{value:.3f}" for value in (seen.p50_s, seen.p90_s, seen.p99_s, seen.e2e_p90_s)),
            f"{seen.hit_ratio:.1%}",
            f"{seen.max_to_mean:.2f}",
        )
        self.rows.append({"workload": workload, "router": name, **seen._asdict()})

    def show(self) -> None:
        """Print both tables."""
        console = Console(width=130)
        console.print(self.routers)
        console.print(self.table)

    def write(self, path: Path, context: dict[str, Any]) -> None:
        """Everything as one JSON object."""
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = context | {
            "load_average_after": os.getloadavg(),
            "figures": self.figures,
            "routers": self.rows,
        }
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")

    @property
    def holds(self) -> bool:
        """Every bound is kept."""
        return all(figure.get("holds", True) for figure in self.figures.values())
