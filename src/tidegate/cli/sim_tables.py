"""Runs side by side, for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from tidegate.cli.shadows import print_shadows
from tidegate.sim.needs import Fixed
from tidegate.sim.oracle import Oracle, regret
from tidegate.sim.summary import Spread, Summary

NEVER = "never"
NOT_ALL = "* The cheapest keeps the promise to all requests; this one did not, and may be cheaper for that."


@dataclass(frozen=True, slots=True)
class Shown:
    """One run as the table has it."""

    policy: str
    summary: Summary
    cpu_s: float
    oracle: Oracle | None = None
    fixed: Fixed | None = None
    """The fleet that is always there and does as well as that."""


def print_table(shown: Sequence[Shown], title: str, console: Console) -> None:
    """Figures as rows, runs as columns."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("", no_wrap=True)
    for run in shown:
        table.add_column(run.policy, justify="right")
    for name, figure in _FIGURES:
        cells = [figure(run.summary) for run in shown]
        if any(cells):
            table.add_row(name, *cells)
    if any(run.oracle for run in shown):
        table.add_section()
        table.add_row("cheapest known afterwards", *(_oracle(run) for run in shown))
        table.add_row("regret", *(_regret(run) for run in shown))
        table.add_row("fixed fleet for the peak", *(_peak(run) for run in shown))
        if any(run.oracle and run.summary.attainment < 1.0 for run in shown):
            table.caption, table.caption_justify = NOT_ALL, "left"
    table.add_section()
    table.add_row("computed in", *(f"{run.cpu_s:.2f} s" for run in shown))
    console.print(table)
    for run in shown:
        print_shadows(run.summary.shadows, f" of {run.policy}" if len(shown) > 1 else "")
    _print_nodes(shown, console)
    _print_tenants(shown, console)


def _seconds(value: float | None) -> str:
    if value is None:
        return NEVER
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


def _band(found: Spread) -> str:
    """Three percentiles in one unit."""
    values = (found.p50, found.p95, found.p99)
    in_ms = all(value is None or value < 1 for value in values)
    known = [f"{v * 1000:.1f}" if in_ms else f"{v:.3g}" for v in values if v is not None]
    never = [NEVER] * (len(values) - len(known))  # a percentile beyond one that never came never came either
    if not known:
        return NEVER
    return " / ".join([*known[:-1], f"{known[-1]} {'ms' if in_ms else 's'}", *never])


def _endings(summary: Summary) -> str:
    return f"{summary.rejected} / {summary.expired} / {summary.failed}"


def _steps(summary: Summary) -> str:
    return f"{summary.scale_ups} up, {summary.scale_downs} down, {summary.reversals} reversed"


def _starts(summary: Summary) -> str:
    if not summary.cold_starts:
        return "none"
    mean = summary.cold_start_s.mean
    return f"{summary.cold_starts}" + (f", {mean:.0f} s each" if mean is not None else "")


_FIGURES: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("requests", lambda s: f"{s.requests:,}"),
    ("completed", lambda s: f"{s.completed:,}"),
    ("rejected / expired / failed", _endings),
    ("TTFT p50 / p95 / p99", lambda s: _band(s.ttft_s)),
    ("TPOT p50 / p95 / p99", lambda s: _band(s.tpot_s)),
    ("token gap p50 / p95 / p99", lambda s: _band(s.itl_s)),
    ("E2E p50 / p95 / p99", lambda s: _band(s.e2e_s)),
    ("queue wait p50 / p95 / p99", lambda s: _band(s.queue_wait_s)),
    ("promise", lambda s: f"TTFT {_seconds(s.slo.ttft_s)}, TPOT {_seconds(s.slo.tpot_s)}"),
    ("kept by", lambda s: f"{s.attainment:.1%}"),
    ("goodput", lambda s: f"{s.goodput_per_s:.2f} /s"),
    (
        "replicas mean (serving), most",
        lambda s: f"{s.mean_provisioned:.2f} ({s.mean_serving:.2f}), {s.max_provisioned}",
    ),
    ("replica-hours", lambda s: f"{s.replica_hours:.2f}"),
    ("GPU-hours", lambda s: f"{s.gpu_hours:.2f}" if s.gpu_hours else ""),
    ("cost", lambda s: f"{s.cost:.2f}" if s.cost else ""),
    ("spilt", lambda s: f"{s.spilt} for {s.spilt_cost:.2f}" if s.spilt else ""),
    ("scaling", _steps),
    ("cold starts", _starts),
    ("prompt tokens cached", lambda s: f"{s.prefix_hit_ratio:.1%}" if s.prefix_hit_ratio else ""),
)


def _oracle(run: Shown) -> str:
    if run.oracle is None:
        return ""
    cost = run.oracle.cost
    return f"{run.oracle.replica_hours:.2f} h" if cost is None else f"{cost:.2f}"


def _regret(run: Shown) -> str:
    if run.oracle is None:
        return ""
    mark = "" if run.summary.attainment >= 1.0 else " *"
    return f"{regret(run.summary.replica_hours, run.oracle, run.summary.cost):+.0%}{mark}"


def _peak(run: Shown) -> str:
    if run.fixed is None:
        return ""
    hours = run.summary.simulated_s / 3600.0
    if len(run.fixed.counts) > 1:
        mix = ", ".join(f"{count} {name}" for name, count in run.fixed.counts.items() if count)
        return f"{mix or 'none'}, {hours * run.fixed.price_per_h:.2f}"
    return f"{run.fixed.replicas} replicas, {hours * run.fixed.replicas:.2f} h"


def _print_tenants(shown: Sequence[Shown], console: Console) -> None:
    if not shown[0].summary.tenants:
        return
    table = Table(title="Tenants", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("")
    table.add_column("requests", justify="right")
    for run in shown:
        table.add_column(f"{run.policy}: kept by", justify="right")
    for place, tenant in enumerate(shown[0].summary.tenants[:10]):
        shares = [f"{run.summary.tenants[place].attainment:.1%}" for run in shown]
        table.add_row(tenant.name or "(none)", f"{tenant.requests:,}", *shares)
    console.print(table)


def _print_nodes(shown: Sequence[Shown], console: Console) -> None:
    if not shown[0].summary.nodes:
        return
    table = Table(
        title="GPU-hours in use, by node", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False
    )
    table.add_column("")
    for run in shown:
        table.add_column(run.policy, justify="right")
    names = [node.name for node in shown[0].summary.nodes]
    for name in names:
        table.add_row(name, *(_used(run.summary, name) for run in shown))
    console.print(table)


def _used(summary: Summary, name: str) -> str:
    for node in summary.nodes:
        if node.name == name:
            return (
                f"{node.used:.2f} of {node.there:.2f} ({node.used / node.there:.0%})" if node.there else "0"
            )
    return ""
