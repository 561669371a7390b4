"""The table, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from system.figures import Figure

WIDTH_WITHOUT_TERMINAL = 140


@dataclass(slots=True)
class Told:
    """One story that was told. ``skipped`` and ``failed`` say why there are no figures."""

    name: str
    title: str
    size: int
    figures: list[Figure] = field(default_factory=list)
    took_s: float = 0.0
    load_average: float = 0.0
    skipped: str = ""
    failed: str = ""

    @property
    def is_met(self) -> bool:
        """Every bound is kept."""
        return not self.failed and all(figure.is_met() for figure in self.figures)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "size": self.size,
            "is_met": self.is_met,
            "skipped": self.skipped or None,
            "failed": self.failed or None,
            "took_s": round(self.took_s, 1),
            "load_average": self.load_average,
            "figures": [figure.as_json() for figure in self.figures],
        }


def write(path: Path, context: dict[str, Any], told: list[Told]) -> None:
    """Everything, with what a reader must know to judge it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    page = {**context, "is_met": all(each.is_met for each in told), "stories": [t.as_json() for t in told]}
    path.write_text(json.dumps(page, indent=2) + "\n")


def show(told: list[Told]) -> None:
    """One table, a block for each story."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_WITHOUT_TERMINAL)
    table = Table(title="Shown")
    for title, justify in (("what", "left"), ("figure", "right"), ("bound", "right"), ("met", "left")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    for each in told:
        table.add_section()
        note = each.skipped or each.failed
        table.add_row(f"[bold]{each.title}[/] ({each.size})", "", "", _word(each) if note else "")
        if note:
            table.add_row(f"  {note}", "", "", "")
        for figure in each.figures:
            met = "" if not figure.bound else "yes" if figure.is_met() else "[red]no[/]"
            table.add_row(f"  {figure.what}", f"{figure.value:,.4g} {figure.unit}".strip(), figure.bound, met)
    console.print(table)


def _word(each: Told) -> str:
    return "skipped" if each.skipped else "[red]failed[/]"
