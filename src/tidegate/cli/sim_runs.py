"""Runs policies one after the other and puts what came of them into files."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tidegate.cli.progress import Lines
from tidegate.cli.sim_policies import Named
from tidegate.cli.sim_tables import Shown
from tidegate.runtime.plain_journal import PlainJournal
from tidegate.sim.chart import Chart, chart_of
from tidegate.sim.figures import as_json
from tidegate.sim.needs import Fixed, oracle_of
from tidegate.sim.oracle import Oracle
from tidegate.sim.page import page
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate
from tidegate.workload.traces import Trace


@dataclass(frozen=True, slots=True)
class Done:
    """A run as the reports need it."""

    shown: Shown
    chart: Chart


def run_all(
    named: Sequence[Named],
    trace: Trace,
    seed: int,
    journal: Path | None,
    console: Console,
    *,
    with_oracle: bool,
) -> list[Done]:
    """Run every policy, with a bar for each while people look on, else with a line now and then. The journal is of the
    first."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    done = []
    with bar, ExitStack() as stack:
        kept = stack.enter_context(PlainJournal(journal, "simulation")) if journal else None
        for one in named:
            task = bar.add_task(one.name, total=1.0)
            show = partial(_show, bar, task) if console.is_terminal else Lines(f"simulating {one.name}").show
            done.append(_run(one, trace, seed, kept, show, with_oracle=with_oracle))
            bar.update(task, completed=1.0)
            kept = None
    return done


def _show(bar: Progress, task: object, share: float) -> None:
    bar.update(task, completed=share)  # type: ignore[arg-type]  # rich keeps its TaskID to itself


def _run(
    one: Named,
    trace: Trace,
    seed: int,
    journal: PlainJournal | None,
    progress: Callable[[float], None],
    *,
    with_oracle: bool,
) -> Done:
    with _without_collector():
        began_s = time.process_time()
        run = simulate(trace, one.scenario, seed, journal, progress)
        summary = summarize(run)
        cpu_s = time.process_time() - began_s
    oracle: Oracle | None = None
    fixed: Fixed | None = None
    if with_oracle:
        try:
            oracle, fixed = oracle_of(run)
        except ValueError as error:
            raise click.UsageError(f"--oracle: {error}") from error
    return Done(Shown(one.name, summary, cpu_s, oracle, fixed), chart_of(run, one.name))


@contextmanager
def _without_collector() -> Iterator[None]:
    """A run makes no cycles worth finding, and looking for them costs a tenth of it."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def one_object(done: Sequence[Done], trace: str) -> dict[str, object]:
    """The figures for scripts; several runs stand in a list."""
    runs = [
        as_json(
            each.shown.summary,
            policy=each.shown.policy,
            trace=trace,
            cpu_s=each.shown.cpu_s,
            oracle=each.shown.oracle,
        )
        for each in done
    ]
    return runs[0] if len(runs) == 1 else {"runs": runs}


def write_pictures(done: Sequence[Done], title: str, html: Path | None, png: Path | None) -> None:
    """The runs over time, as a page and as a picture."""
    charts = [each.chart for each in done]
    if html is not None:
        html.write_text(page(charts, [each.shown.summary for each in done], title), encoding="utf-8")
    if png is not None:
        try:
            from tidegate.sim.picture import draw
        except ImportError as error:
            raise click.UsageError(
                "--png needs matplotlib: in a clone run make setup, else pip install 'tidegate[report]'"
            ) from error
        draw(charts, title, png)
