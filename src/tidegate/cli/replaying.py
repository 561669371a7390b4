"""``tidegate replay``: does today's code decide as the journal says it did, and what would other settings have done?"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from tidegate.cli.moments import shown
from tidegate.runtime.replay import JournalError, Replayed, journal_files, replay


@click.command("replay", short_help="Play a journal again, or under other settings.")
@click.argument("journal", type=click.Path(exists=True, path_type=Path))
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def replay_command(journal: Path, file: Path | None, *, as_json: bool) -> None:
    """Play a recorded journal through the brains and compare every effect, byte for byte.

    JOURNAL is a segment, whose whole run is read, or a folder, whose newest run is read. Exit code 1
    when anything came out otherwise or lines are missing.

    With a policy FILE the recorded demand is played to a controller with its settings instead: what it would have
    decided, and what that would have cost and kept.
    """
    try:
        files = journal_files(journal)
        if file is not None:
            _other_settings(files, file, as_json=as_json)
            return
        found = replay(files)
    except JournalError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        click.echo(msgspec.json.encode(_summary(files, found)).decode())
    else:
        _print(files, found)
    if not found.is_faithful:
        sys.exit(1)


def _other_settings(files: list[Path], file: Path, *, as_json: bool) -> None:
    from tidegate.cli.replay_tables import one_object, print_courses
    from tidegate.config import load
    from tidegate.runtime.otherwise import otherwise

    settings = load(file)
    models = {model: found.fleet for model, found in settings.models.items()}
    result = otherwise(files, models, settings.limits, settings.nodes)
    if as_json:
        click.echo(msgspec.json.encode(one_object(result, file.name)).decode())
    else:
        print_courses(result, file.name)


def _summary(files: list[Path], found: Replayed) -> dict[str, object]:
    return {
        "files": [path.name for path in files],
        "turns": found.turns,
        "effects": found.effects,
        "differences": found.differences,
        "missing": found.missing,
        "unreadable": found.unreadable,
        "faithful": found.is_faithful,
        "by_event": dict(sorted(found.by_event.items())),
        "first": found.first,
    }


def _print(files: list[Path], found: Replayed) -> None:
    segments = "1 segment" if len(files) == 1 else f"{len(files)} segments"
    click.echo(f"{segments}, {found.turns} turns, {found.effects} effects")
    for name, count in sorted(found.by_event.items()):
        click.echo(f"  {name:<28} {count:>9}")
    for difference in found.first:
        click.echo(
            f"\n{difference.source}  {difference.brain} at {shown(difference.at_s)}, {difference.event}"
        )
        click.echo(f"  recorded  {difference.recorded}")
        click.echo(f"  replayed  {difference.replayed}")
    if found.missing:
        click.echo(f"{found.missing} turns are missing: the journal could not keep up")
    if found.unreadable:
        click.echo(f"{found.unreadable} lines cannot be read, as after a crash")
    if not found.turns:
        click.echo("nothing was compared: there is no turn in it")
        return
    verdict = "every effect is the same, byte for byte" if found.is_faithful else "not the same"
    click.echo(f"{found.differences} differences: {verdict}")
