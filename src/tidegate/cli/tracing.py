"""``tidegate trace``: what a trace is like, and the same trace in our own formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.trace_options import trace_options

if TYPE_CHECKING:
    from tidegate.workload.describe import Description
    from tidegate.workload.figures import TokenCounts

_IN = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("trace")
def trace_group() -> None:
    """Look at traces of requests, and convert them."""


@trace_group.command("describe")
@click.argument("file", type=_IN)
@trace_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def describe_command(file: Path, **options: Any) -> None:
    """Print the statistics of the trace in FILE."""
    import msgspec

    from tidegate.cli.trace_files import load_trace, wanted_trace
    from tidegate.sim.kernel import SeededDice
    from tidegate.workload.describe import describe

    reading = load_trace(wanted_trace(file, options), SeededDice(options["seed"]))
    found = describe(reading.trace)
    if options["as_json"]:
        click.echo(msgspec.json.encode(found).decode())
        return
    for name, value in _lines(found):
        click.echo(f"{name:<34}{value}")
    click.echo(f"{'broken rows':<34}{len(reading.broken)}")
    if reading.broken:
        click.echo(str(reading.broken), err=True)


@trace_group.command("convert")
@click.argument("file", type=_IN)
@click.argument("into", type=click.Path(dir_okay=False, path_type=Path))
@trace_options
@click.option(
    "--to",
    type=click.Choice(["csv", "mooncake"]),
    default="csv",
    show_default=True,
    help="The format to write.",
)
def convert_command(file: Path, into: Path, to: str, **options: Any) -> None:
    """Write the trace in FILE, or the part that is wanted, as a CSV with named columns to INTO."""
    from tidegate.cli.trace_files import load_trace, wanted_trace
    from tidegate.sim.kernel import SeededDice
    from tidegate.workload.formats import mooncake, named_csv

    reading = load_trace(wanted_trace(file, options), SeededDice(options["seed"]))
    if to == "mooncake" and not reading.trace.is_complete:
        raise click.UsageError(f"{file} does not say how long its requests are; name --lengths")
    with into.open("w", encoding="utf-8") as out:
        out.writelines((named_csv if to == "csv" else mooncake).lines(reading.trace))
    click.echo(f"{into}: {len(reading.trace):,} requests; {reading.broken}", err=True)


def _lines(found: Description) -> list[tuple[str, str]]:
    lines = [
        ("requests", f"{found.rows:,}"),
        ("span", f"{found.span_s:,.1f} s"),
        ("mean rate", _rate(found.mean_per_s)),
        ("peak within 1 s / 60 s", f"{_rate(found.peak_1s_per_s)} / {_rate(found.peak_60s_per_s)}"),
        ("lowest within 60 s", _rate(found.lowest_60s_per_s)),
        ("variation of gaps", "not known" if found.gap_cv is None else f"{found.gap_cv:.2f}"),
    ]
    lines += [(f"dispersion at {width} s", f"{value:.1f}") for width, value in found.dispersion.items()]
    lines += [("prompt tokens", _tokens(found.prompt)), ("output tokens", _tokens(found.output))]
    if found.prompt_tokens_per_s is not None and found.output_tokens_per_s is not None:
        both = f"{found.prompt_tokens_per_s:,.0f} / {found.output_tokens_per_s:,.0f}"
        lines.append(("tokens each second, in / out", both))
    if found.sharing is not None:
        lines.append(("prompt tokens an endless cache has", f"{found.sharing.token_hit_ratio:.1%}"))
    names = (
        ("models", found.models),
        ("tenants", found.tenants),
        ("adapters", found.adapters),
        ("sessions", found.sessions),
    )
    return lines + [(name, f"{count:,}") for name, count in names if count]


def _rate(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f}/s"


def _tokens(counts: TokenCounts | None) -> str:
    if counts is None:
        return "not recorded"
    ranks = f"p50 {counts.p50:,.0f}, p95 {counts.p95:,.0f}, p99 {counts.p99:,.0f}, most {counts.max:,}"
    return f"mean {counts.mean:,.1f}, {ranks}"
