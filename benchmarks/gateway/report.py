"""The tables, on the terminal and in the docs, and the JSON with everything behind them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.gateway.ours import NAME
from benchmarks.gateway.scenarios import GOALS, MEMORY
from benchmarks.gateway.stats import Measurement, Spread, Summary, Verdict, judge, look_up, summarize

DOCS_BEGIN, DOCS_END = "<!-- gateway figures: begin -->", "<!-- gateway figures: end -->"
WIDTH_WITHOUT_TERMINAL = 200
DISTURBED_PERCENT = 10


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of one scenario."""

    title: str
    scenario: str
    figure: str
    digits: int = 0

    def cell(self, spread: Spread | None, apart: str) -> str:
        if spread is None:
            return "–"
        low, middle, high = (
            f"{value:,.{self.digits}f}" for value in (spread.low, spread.median, spread.high)
        )
        return middle if low == high else f"{middle}{apart}({low}–{high})"


COLUMNS = (
    Column("requests/s, 1 KB", "rps-1k", "per_s"),
    Column("requests/s, 16 KB", "rps-16k", "per_s"),
    Column("CPU µs per request, 1 KB", "rps-1k", "cpu_us_each", 1),
    Column("latency p50 µs, one connection", "c1-1k", "p50_us"),
    Column("of which added", "c1-1k", "added_p50_us"),
    Column("500 paced streams: chunks/s", "paced-500", "chunks_per_s"),
    Column("CPU %", "paced-500", "cpu_percent"),
    Column("added delay p99 µs", "paced-500", "added_delay_p99_us"),
    Column("64 unpaced streams: CPU µs per chunk", "flood-64", "cpu_us_each", 2),
    Column("peak MB", MEMORY, "peak_mb"),
)


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run. ``notes`` holds each gateway's version, or why it has no figures."""

    context: Mapping[str, Any]
    notes: Mapping[str, str]
    measurements: list[Measurement]

    @property
    def summary(self) -> Summary:
        return summarize(self.measurements)

    @property
    def verdicts(self) -> list[Verdict]:
        summary = self.summary
        return [judge(goal, summary, NAME) for goal in GOALS]

    @property
    def problems(self) -> list[str]:
        """What failed or answered with errors, a line each."""
        found = []
        for m in self.measurements:
            what = m.failed or (f"{m.figures['errors']:,.0f} errors" if m.figures.get("errors") else "")
            if what:
                found.append(f"{m.gateway}, {m.scenario}, repetition {m.repetition}: {what}")
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            **self.context,
            "gateways": dict(self.notes),
            "targets": [verdict.as_json() for verdict in self.verdicts],
            "problems": self.problems,
            "summary": {
                gateway: {
                    scenario: {figure: asdict(spread) for figure, spread in figures.items()}
                    for scenario, figures in scenarios.items()
                }
                for gateway, scenarios in self.summary.items()
            },
            "measurements": [asdict(measurement) for measurement in self.measurements],
        }

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n")


def _figure_rows(report: Report, apart: str) -> list[list[str]]:
    summary = report.summary
    rows = []
    for name, note in report.notes.items():
        cells = [
            column.cell(look_up(summary, name, column.scenario, column.figure), apart) for column in COLUMNS
        ]
        rows.append([f"{name}{apart}{note}" if note else name, *cells])
    return rows


def _target_rows(report: Report) -> list[list[str]]:
    rows = []
    for verdict in report.verdicts:
        goal = verdict.goal
        digits = 2 if goal.relative_to else 0
        limit = f"{'≥' if goal.at_least else '≤'} {goal.limit:,.{1 if goal.relative_to else 0}f} {goal.unit}"
        if verdict.value is None:
            rows.append([goal.what, "not measured", limit, "–", "–"])
            continue
        ratio = "–" if verdict.ratio is None else f"{verdict.ratio:.2f}"
        met = "yes" if verdict.met else "no"
        rows.append([goal.what, f"{verdict.value:,.{digits}f} {goal.unit}", limit, ratio, met])
    return rows


TARGET_TITLES = [f"target ({NAME})", "measured", "limit", "times better than the limit", "met"]


def _disturbance(report: Report) -> str:
    shares = [
        m.figures["foreign_cpu_percent"] for m in report.measurements if "foreign_cpu_percent" in m.figures
    ]
    if not shares:
        return "Nothing was measured."
    spread = Spread.of(shares)
    judgement = "" if spread.median <= DISTURBED_PERCENT else " Too much for these figures to mean anything."
    return (
        f"CPU that other programs took meanwhile, in percent of a core: median {spread.median:.0f}, at most "
        f"{spread.high:.0f}. Load average at the start: {report.context['facts']['load_average'][0]:.1f}.{judgement}"
    )


def print_report(report: Report) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_WITHOUT_TERMINAL)
    figures = Table(title="Gateways on one core: median (range)", show_lines=True)
    figures.add_column("gateway", min_width=17)
    for column in COLUMNS:
        figures.add_column(column.title, justify="right")
    for row in _figure_rows(report, apart="\n"):
        figures.add_row(*row)
    targets = Table(title="Targets")
    for title in TARGET_TITLES:
        targets.add_column(title)
    for row in _target_rows(report):
        targets.add_row(*row)
    console.print(figures, targets)
    console.print(_disturbance(report), *report.problems, sep="\n", markup=False, highlight=False)


def _markdown_table(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---"] + ["--:"] * (len(titles) - 1), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


def markdown(report: Report) -> str:
    """The same tables for the docs."""
    context = report.context
    facts = context["facts"]
    figures = _markdown_table(["gateway", *(c.title for c in COLUMNS)], _figure_rows(report, apart=" "))
    targets = _markdown_table(TARGET_TITLES, _target_rows(report))
    intro = (
        f"Printed by `{context['command']}` on {facts['cores']} cores of {facts['cpu']}, Linux {facts['kernel']}, "
        f"Python {facts['python']}; {context['repetitions']} interleaved repetitions of {context['window_s']:g} s, seed "
        f"{context['seed']}. {_disturbance(report)}"
    )
    return f"{textwrap.fill(intro, 120)}\n\n{figures}\n\n{targets}"


def write_docs(report: Report, page: Path) -> None:
    """Replaces what stands between the two marks."""
    before, begin, rest = page.read_text().partition(DOCS_BEGIN)
    _, end, after = rest.partition(DOCS_END)
    if not begin or not end:
        message = f"{page} has no place for the figures: {DOCS_BEGIN} … {DOCS_END}"
        raise ValueError(message)
    page.write_text(f"{before}{DOCS_BEGIN}\n\n{markdown(report)}\n\n{DOCS_END}{after}")
