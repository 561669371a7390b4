"""``tidegate tune``: settings that suit a trace, what they cost, and how they do on traffic they were not tuned on."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.trace_options import trace_options

if TYPE_CHECKING:
    from rich.console import Console

    from tidegate.core.scaling_settings import ScalingPolicy
    from tidegate.core.types import ModelId
    from tidegate.planner.search import Tried
    from tidegate.planner.trial import Ground, Settings
    from tidegate.sim.fluid import Score
    from tidegate.sim.scenario import Scenario
    from tidegate.workload.traces import Trace

_OUT = click.Path(dir_okay=False, path_type=Path)


@click.command("tune", short_help="Search for settings on a trace.")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--trace",
    "trace_path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The requests to tune for.",
)
@trace_options
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="Only this law. Repeatable.")
@click.option("--goal", default=0.99, show_default=True, type=click.FloatRange(0, 1), help="Share to keep.")
@click.option("--trials", default=200, show_default=True, type=click.IntRange(min=1), help="Settings to try.")
@click.option(
    "--hold-out",
    default=0.3,
    show_default=True,
    type=click.FloatRange(0, 0.9),
    help="Last part, not tuned on; it decides.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; as many as there are cores.")
@click.option("--profile", metavar="NAME", help="Engine and GPU: MODEL-GPUxCOUNT[-PRECISION].")
@click.option("--cold-start", metavar="TIME", help="From launch to ready; or times of its stages.")
@click.option("--slo", metavar="PROMISE", help="The promise, such as ttft=3s,tpot=100ms.")
@click.option("--out", type=_OUT, help="Write the policy file.")
@click.option("--html", type=_OUT, help="Write a page with the frontier.")
@click.option("--png", type=_OUT, help="Write a picture of the frontier.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def tune_command(file: Path | None, trace_path: Path, **options: Any) -> None:
    """Search for the settings that keep the promise on a trace for the least replica-hours, or the least money where the
    model has variants.

    Tried in the fluid world, days in a second each: the five settings, the law, and how much tighter than the promise a
    law plans. The last part of the trace is held out: of the settings that keep the goal on the first part the cheapest
    that keeps it there too is taken. Exit code 1 when none does.
    """
    from rich.console import Console

    from tidegate.cli.tune_report import Report, print_report, write_all
    from tidegate.planner.frontier import able, frontier, thinned
    from tidegate.planner.trial import Ground, Settings, split
    from tidegate.sim.fluid import load_of_trace

    trace, scenario, model = _ground_of(file, trace_path, options)
    load = load_of_trace(trace, _slot_s(trace.span_s))
    tuned_on, held_out = split(load, options["hold_out"])
    if not len(tuned_on):
        raise click.UsageError(
            f"--hold-out {options['hold_out']:g} leaves nothing of {trace_path.name} to tune on"
        )
    ground = Ground(model, tuned_on, scenario)
    scaling = scenario.models[model].fleet.scaling
    if "cron" in options["policies"] and not scaling.schedule.floors:
        raise click.UsageError(
            "--policy cron: without a schedule in the policy file nothing asks for replicas"
        )
    if "forecast" in options["policies"]:
        raise click.UsageError("--policy forecast: by itself it asks for nobody before it has proven itself")
    current = Settings.of(scaling)
    tried = _search(ground, current, options, Console(stderr=True))
    allowed = _allowed(tried, options["policies"])
    shown = thinned(frontier(allowed), 8)
    candidates = able(allowed, options["goal"])
    taken, held = _held_out(Ground(model, held_out, scenario), candidates, [*shown, tried[0]], options)
    report = Report(
        trace_path.name, model, options["goal"], load, tuned_on, tried, shown, taken, held, scenario
    )
    write_all(report, file, options)
    if options["as_json"]:
        import msgspec

        from tidegate.cli.tune_report import one_object

        click.echo(msgspec.json.encode(one_object(report)).decode())
    else:
        print_report(report)
    if not report.keeps_goal:
        sys.exit(1)


def _held_out(
    rest: Ground, candidates: list[Tried], shown: list[Tried], options: dict[str, Any]
) -> tuple[Tried, dict[int, Score]]:
    """The one to take, and what was judged on the part held out; where nothing came then, the cheapest."""
    from tidegate.planner.frontier import HeldOut
    from tidegate.planner.search import judges

    if not sum(rest.load.requests):
        return candidates[0], {}
    with ExitStack() as stack:
        held = HeldOut(judges(stack, rest, _jobs(options)))
        taken = held.choose(candidates, options["goal"])
        held.judge(shown)
    return taken, held.scores


def _jobs(options: dict[str, Any]) -> int:
    return options["jobs"] or os.cpu_count() or 1


def _ground_of(
    file: Path | None, trace_path: Path, options: dict[str, Any]
) -> tuple[Trace, Scenario, ModelId]:
    """The trace, the fleet that serves it, and its one model."""
    from tidegate.cli.sim_policies import Wishes, scenarios
    from tidegate.cli.simulating import cold_start_of, slo_of
    from tidegate.cli.trace_files import load_trace, wanted_trace
    from tidegate.sim.kernel import SeededDice

    trace = load_trace(wanted_trace(trace_path, options), SeededDice(options["seed"])).trace
    if not trace.is_complete:
        raise click.UsageError(f"{trace_path} does not say how long its requests are; name --lengths")
    wishes = Wishes(
        profile=options["profile"],
        cold_start=None if options["cold_start"] is None else cold_start_of(options["cold_start"]),
        slo=None if options["slo"] is None else slo_of(options["slo"]),
    )
    scenario = scenarios(file, None, (), wishes, trace)[0].scenario
    if len(scenario.models) != 1:
        names = ", ".join(scenario.models)
        raise click.UsageError(f"tune is for one model at a time; here are {names}")
    model = next(iter(scenario.models))
    return trace, scenario, model


def _slot_s(span_s: float) -> float:
    """Short where the trace is: an hour in slots of 2 s, a day and more in slots of 5."""
    return 2.0 if span_s <= 7_200 else 5.0


def _search(ground: Ground, current: Settings, options: dict[str, Any], console: Console) -> list[Tried]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from tidegate.cli.progress import Lines
    from tidegate.planner.search import search

    lines, trials = Lines("tuning"), options["trials"]
    columns = (TextColumn("tuning"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=trials)

        def show(done: int) -> None:
            if console.is_terminal:
                bar.update(task, completed=done)
            else:
                lines.show(done / trials)

        try:
            return search(
                ground,
                _policies(options["policies"]),
                current,
                trials,
                _jobs(options),
                options["seed"],
                show,
            )
        except ImportError as error:
            raise click.UsageError(
                "tune needs optuna: in a clone run make setup, else pip install 'tidegate[tune]'"
            ) from error


def _allowed(tried: list[Tried], names: tuple[str, ...]) -> list[Tried]:
    """Those whose law may be taken: the settings as they were are always tried first, whatever their law."""
    laws = set(_policies(names)) if names else {one.settings.policy for one in tried}
    found = [one for one in tried if one.settings.policy in laws]
    if not found:
        raise click.UsageError(f"--trials {len(tried)}: the settings as they were are the first; allow more")
    return found


def _policies(names: tuple[str, ...]) -> list[ScalingPolicy]:
    from tidegate.core.scaling_settings import ScalingPolicy
    from tidegate.planner.trial import SEARCHED

    known = {policy.value: policy for policy in ScalingPolicy}
    for name in names:
        if name not in known:
            raise click.UsageError(f"--policy {name}: it must be one of {', '.join(known)}")
    return [known[name] for name in names] or list(SEARCHED)
