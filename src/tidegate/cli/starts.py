"""``tidegate starts``: what cold starts consist of, stage by stage, and what would shorten them most."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidegate.core.fleet.levers import StartReport

BAR_WIDTH = 30


@click.command("starts", short_help="Say what cold starts consist of.")
@click.argument("journal", type=click.Path(exists=True, path_type=Path))
@click.option("--model", help="Starts of this model only.")
@click.option(
    "--png", type=click.Path(dir_okay=False, path_type=Path), help="Write a picture of stages and levers."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def starts_command(journal: Path, model: str | None, png: Path | None, *, as_json: bool) -> None:
    """Say what cold starts consist of, and what would shorten them most.

    JOURNAL is a folder: all its runs count; or one of its files. Only what was measured there is looked at.
    """
    import msgspec

    from tidegate.runtime.replay import JournalError
    from tidegate.runtime.started import start_files, starts_of

    try:
        reports = starts_of(start_files(journal)).reports(_can_sleep)
    except JournalError as error:
        raise click.UsageError(str(error)) from error
    reports = [one for one in reports if model in (None, one.model)]
    if not reports:
        raise click.ClickException(f"{journal} has no start" + (f" of {model!r}" if model else ""))
    if png is not None:
        _draw(reports, png)
    if as_json:
        click.echo(msgspec.json.encode({"starts": reports}).decode())
        return
    for one in reports:
        _tell(one)


def _can_sleep(engine: str) -> bool:
    from tidegate.adapters.registry import ADAPTERS

    return engine in ADAPTERS and ADAPTERS[engine].sleep_api is not None


def _draw(reports: list[StartReport], png: Path) -> None:
    try:
        from tidegate.cli.starts_picture import draw
    except ImportError:
        raise click.UsageError(
            "--png needs matplotlib: in a clone run make setup, else pip install 'tidegate[report]'"
        ) from None
    if not any(one.starts for one in reports):
        raise click.ClickException("--png: no start became ready, so there is nothing to draw")
    draw(reports, png)


# ---- for people ----


def _tell(one: StartReport) -> None:
    kind = f" ({one.kind})" if one.kind else ""
    failed = f", {one.failed} failed" if one.failed else ""
    starts = "1 start" if one.starts == 1 else f"{one.starts} starts"
    wakes = "1 wake-up" if one.wakes == 1 else f"{one.wakes} wake-ups"
    click.echo(f"{one.model}{kind}: {starts}{failed}, {wakes}")
    if one.p50_s is not None and one.p90_s is not None:
        click.echo(f"  a start takes {one.p50_s:,.1f} s, one in ten more than {one.p90_s:,.1f} s")
    if one.wake_p50_s is not None:
        click.echo(f"  a wake-up takes {one.wake_p50_s:,.1f} s")
    if one.spans:
        click.echo(f"\n  {'stage':<22}{'starts':>7}{'p50 s':>10}{'p90 s':>10}{'share':>8}")
    for span in one.spans:
        bar = "#" * round(BAR_WIDTH * span.share)
        # A part lies within its stage, so its share is one of the stage's again.
        name = span.name if ": " not in span.name else "  " + span.name.partition(": ")[2]
        click.echo(
            f"  {name:<22}{span.starts:>7}{span.p50_s:>10,.2f}{span.p90_s:>10,.2f}{span.share:>8.0%}  {bar}".rstrip()
        )
    if one.levers:
        click.echo("\n  what would shorten it, by so much at the median and for one start in ten:")
    elif one.starts:
        click.echo("\n  Nothing that was measured says what would shorten it.")
    for place, lever in enumerate(one.levers, 1):
        head = f"{place}. {lever.name}"
        click.echo(f"  {head:<26}{lever.gain_s:>8,.1f} s{lever.gain_p90_s:>8,.1f} s  {lever.ground.value}")
        click.echo(textwrap.fill(lever.because, 96, initial_indent=" " * 6, subsequent_indent=" " * 6))
    click.echo()
