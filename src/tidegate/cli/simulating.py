"""``tidegate simulate``: what a policy would have done on a trace, decided by the code that serves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.trace_options import Duration, trace_options
from tidegate.core.scaling_settings import ScalingPolicy
from tidegate.core.settings import Routing

if TYPE_CHECKING:
    from tidegate.cli.sim_policies import Wishes

LAWS = (
    ", ".join(policy.value for policy in ScalingPolicy) + ", static (max_replicas at all times) or static:N"
)
ROUTERS = ", ".join(routing.value for routing in Routing)
_OUT = click.Path(dir_okay=False, path_type=Path)


@click.command("simulate", short_help="Play a trace in virtual time.")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--trace",
    "trace_path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The requests to play.",
)
@trace_options
@click.option("--policy", metavar="NAME", help=f"A law by name: {LAWS}; constants as in ray:target=8.")
@click.option("--compare", multiple=True, metavar="OTHER", help="Another law or policy file. Repeatable.")
@click.option("--router", metavar="NAME", help=f"How a replica is chosen: {ROUTERS}.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change a setting. Repeatable.")
@click.option("--profile", metavar="NAME", help="Engine and GPU: MODEL-GPUxCOUNT[-PRECISION].")
@click.option("--cold-start", metavar="TIMES", help="From launch to ready: 100s, or image=60s,weights=20s,…")
@click.option("--slo", metavar="PROMISE", help="The promise, such as ttft=3s,tpot=100ms.")
@click.option(
    "--settle", "settle_s", type=Duration(), default=0.0, help="Wait so long for the fleet to shrink."
)
@click.option(
    "--fault", "faults", multiple=True, metavar="KIND:KEY=VALUE,…", help="What goes wrong. Repeatable."
)
@click.option("--nodes", type=click.IntRange(min=1), help="Machines; as many as needed when left out.")
@click.option("--gpus-per-node", type=click.IntRange(min=1), default=8, show_default=True)
@click.option(
    "--oracle", "with_oracle", is_flag=True, help="Compare with the cheapest schedule, known afterwards."
)
@click.option("--journal", type=_OUT, help="Write every turn of the first policy's run.")
@click.option("--html", type=_OUT, help="Write a page with the runs over time.")
@click.option("--png", type=_OUT, help="Write a picture of the runs over time.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def simulate_command(
    file: Path | None, trace_path: Path, policy: str | None, compare: tuple[str, ...], **options: Any
) -> None:
    """Play a trace against a policy FILE in virtual time; without one, against a built-in policy.

    The dispatcher and the controller are those of `tidegate serve`; only clients, engines and machines are
    simulated. Percentiles count every request: whoever was turned away waited for ever.
    """
    import msgspec
    from rich.console import Console

    from tidegate.cli.sim_policies import scenarios
    from tidegate.cli.sim_runs import one_object, run_all, write_pictures
    from tidegate.cli.sim_tables import print_table
    from tidegate.cli.trace_files import load_trace, wanted_trace
    from tidegate.sim.kernel import SeededDice

    for name in ("journal", "html", "png"):
        _check_place(name, options[name])
    seed = options["seed"]
    reading = load_trace(wanted_trace(trace_path, options), SeededDice(seed))
    trace = reading.trace
    if not trace.is_complete:
        raise click.UsageError(f"{trace_path} does not say how long its requests are; name --lengths")
    console = Console(stderr=True)
    if reading.broken:
        console.print(f"{trace_path}: {reading.broken}", style="yellow", highlight=False)
    named = scenarios(file, policy, compare, _wishes(options), trace)
    done = run_all(named, trace, seed, options["journal"], console, with_oracle=options["with_oracle"])
    title = f"{trace_path.name}: {len(trace):,} requests in {trace.span_s:,.0f} s, seed {seed}"
    write_pictures(done, title, options["html"], options["png"])
    if options["as_json"]:
        click.echo(msgspec.json.encode(one_object(done, trace_path.name)).decode())
    else:
        print_table([each.shown for each in done], title, Console())


def _check_place(option: str, path: Path | None) -> None:
    """Before the run and not after it: a file can be written there."""
    folder = None if path is None else path.absolute().parent
    if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise click.UsageError(f"--{option} {path}: there is no folder {folder} that can be written to")


def _wishes(options: dict[str, Any]) -> Wishes:
    from tidegate.cli.sim_policies import Wishes
    from tidegate.sim.faults import Fault
    from tidegate.sim.scenario import Machines

    try:
        faults = tuple(Fault.parse(text) for text in options["faults"])
    except ValueError as error:
        raise click.UsageError(f"--fault: {error}") from None
    return Wishes(
        sets=options["sets"],
        router=options["router"],
        profile=options["profile"],
        cold_start=None if options["cold_start"] is None else cold_start_of(options["cold_start"]),
        slo=None if options["slo"] is None else slo_of(options["slo"]),
        faults=faults,
        machines=Machines(nodes=options["nodes"], gpus_per_node=options["gpus_per_node"]),
        settle_s=options["settle_s"],
    )


def cold_start_of(text: str) -> Any:
    """A span in all, or what takes how long."""
    from tidegate.config.units import parse_duration
    from tidegate.emulator.options import cold_start
    from tidegate.engine.coldstart import ColdStart

    if "=" in text:
        try:
            return cold_start(text)
        except ValueError as error:
            raise click.UsageError(f"--{error}") from None
    try:
        return ColdStart.lasting(parse_duration(text))
    except ValueError:
        message = (
            f"--cold-start: {text!r} is not a duration such as 100s, nor times such as image=60s,weights=20s"
        )
        raise click.UsageError(message) from None


def slo_of(text: str) -> Any:
    """``ttft=3s,tpot=100ms``; a part that is left out keeps its default."""
    from tidegate.config.units import parse_duration
    from tidegate.sim.scenario import Slo

    parts: dict[str, float] = {}
    for pair in text.split(","):
        key, _, value = pair.strip().partition("=")
        if key not in ("ttft", "tpot"):
            raise click.UsageError(f"--slo {text}: {key!r} is no part of it; write ttft=3s,tpot=100ms")
        if f"{key}_s" in parts:
            raise click.UsageError(f"--slo {text}: {key} is there twice")
        try:
            parts[f"{key}_s"] = parse_duration(value)
        except ValueError:
            raise click.UsageError(f"--slo {text}: {value!r} is not a duration such as 100ms") from None
        if not parts[f"{key}_s"]:
            raise click.UsageError(f"--slo {text}: {key} is {value}; it must be above 0")
    return Slo(**parts)
