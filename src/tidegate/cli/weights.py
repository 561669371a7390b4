"""``tidegate weights``: fetch weights by hand, see what is kept on this machine, throw away what is not used."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tidegate.weights.fetching import Progress
    from tidegate.weights.refs import Ref
    from tidegate.weights.room import Kept
    from tidegate.weights.settings import WeightsSettings
    from tidegate.weights.source import Source
    from tidegate.weights.store import Store

_POLICY = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _where(command: Callable[..., None]) -> Callable[..., None]:
    """The options that every one of these commands has."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output."),
        click.option("--cache-dir", type=_FOLDER, help="Where they are kept, if not where the policy says."),
        click.option("--policy", type=_POLICY, help="A policy file whose `weights` section holds."),
    ):
        command = option(command)
    return command


@click.group("weights", short_help="Weights on this machine.")
def weights_group() -> None:
    """Weights on this machine: fetch them, list them, throw them away."""


@weights_group.command("fetch")
@click.argument("source", required=False)
@click.option("--sha256", help="What the file, or the folder's list, must have.")
@click.option("--again", is_flag=True, help="Ask the source although it is here: a branch may have moved.")
@click.option(
    "--connections", type=click.IntRange(1, 64), help="Requests at once, if not as the policy says."
)
@_where
def fetch_command(source: str | None, sha256: str | None, **options: Any) -> None:
    """Fetch SOURCE, or all that the models of a policy need."""
    import msgspec

    from tidegate.weights.errors import WeightsError
    from tidegate.weights.store import Store

    settings, sources = _wanted(source, sha256, options)
    store = Store(settings.cache_dir, settings.max_bytes)
    fetched = []
    for each in sources:
        try:
            ref = asyncio.run(_fetch(store, each, settings, options))
        except WeightsError as error:
            raise click.ClickException(f"{each.shown}: {error.because}") from None
        except OSError as error:
            raise click.ClickException(f"{store.folder}: {error.strerror}") from None
        fetched.append(_fetched(store, each, ref))
        if not options["as_json"]:
            click.echo(_line(fetched[-1]))
    if options["as_json"]:
        click.echo(msgspec.json.encode({"fetched": fetched}).decode())


@weights_group.command("list")
@_where
def list_command(**options: Any) -> None:
    """List what is kept, those used last at the end."""
    import msgspec

    from tidegate.weights.store import Store

    store = Store(_settings(options).cache_dir)
    kept, used = store.room.kept(), store.room.used_bytes()
    if options["as_json"]:
        told = {"cache_dir": str(store.folder), "bytes": used, "kept": [_kept(each) for each in kept]}
        click.echo(msgspec.json.encode(told).decode())
        return
    for each in kept:
        click.echo(_kept_line(each))
    click.echo(f"{_size(used)} in {store.folder}")


@weights_group.command("prune")
@click.option(
    "--older-than", default="0s", show_default=True, help="Only what nobody has used for so long, such as 7d."
)
@click.option("--keep-partial", is_flag=True, help="Keep what has come of downloads that were broken off.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@_where
def prune_command(older_than: str, keep_partial: bool, dry_run: bool, **options: Any) -> None:
    """Throw away what no engine uses."""
    import msgspec

    from tidegate.config.units import parse_duration
    from tidegate.weights.store import Store

    try:
        span_s = parse_duration(older_than)
    except ValueError:
        raise click.UsageError(
            f"--older-than is {older_than}; it must be a duration such as 12h or 7d"
        ) from None
    room = Store(_settings(options).cache_dir).room
    before = room.used_bytes()
    gone = room.prune(older_than_s=span_s, partial=not keep_partial, dry=dry_run)
    freed = sum(each.bytes for each in gone) if dry_run else before - room.used_bytes()
    if options["as_json"]:
        told = {"gone": [_kept(each) for each in gone], "freed_bytes": freed, "dry_run": dry_run}
        click.echo(msgspec.json.encode(told).decode())
        return
    for each in gone:
        click.echo(_kept_line(each))
    click.echo(f"{'would free' if dry_run else 'freed'} {_size(freed)}")


def _settings(options: dict[str, Any]) -> WeightsSettings:
    from dataclasses import replace

    from tidegate.config import default_weights, load

    policy, folder = options["policy"], options["cache_dir"]
    settings = default_weights() if policy is None else load(policy).weights
    if options.get("connections"):
        settings = replace(settings, connections=options["connections"])
    return settings if folder is None else replace(settings, cache_dir=folder.absolute())


def _wanted(
    source: str | None, sha256: str | None, options: dict[str, Any]
) -> tuple[WeightsSettings, Sequence[Source]]:
    from tidegate.config import load
    from tidegate.weights.needs import needs
    from tidegate.weights.source import parsed

    settings, policy = _settings(options), options["policy"]
    if source is not None:
        try:
            return settings, [parsed(source, sha256)]
        except ValueError as error:
            raise click.UsageError(f"SOURCE cannot be fetched; {error}") from None
    if policy is None:
        raise click.UsageError("name a SOURCE, or a --policy whose models need some")
    models = load(policy).models.values()
    found = [each for model in models if model.spec is not None for each in needs(model.spec).values()]
    return settings, list({each.key: each for each in found}.values())


async def _fetch(store: Store, source: Source, settings: WeightsSettings, options: dict[str, Any]) -> Ref:
    from rich import progress as bars
    from rich.console import Console

    from tidegate.weights.fetching import Fetching
    from tidegate.weights.pace import Pace
    from tidegate.weights.settings import endpoints_from

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with bars.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(source.shown, total=None)

        def tell(progress: Progress) -> None:
            words = "another process fetches it" if progress.is_waiting else source.shown
            bar.update(task, completed=progress.done_bytes, total=progress.total_bytes, description=words)

        fetching = Fetching(
            store,
            source,
            endpoints_from(settings, os.environ),
            connections=settings.connections,
            pace=Pace(None, time.monotonic),
            tell=tell,
        )
        return await fetching.run(again=options["again"])


def _fetched(store: Store, source: Source, ref: Ref) -> dict[str, Any]:
    pin = store.pin(source)
    path = "" if pin is None else str(pin.path)
    if pin is not None:
        pin.let_go()
    return {
        "source": ref.source,
        "sha256": ref.digest,
        "revision": ref.revision,
        "path": path,
        "bytes": ref.bytes,
        "files": len(ref.files),
        "fetched_bytes": ref.fetched_bytes,
        "fetched_in_s": ref.fetched_in_s,
    }


def _line(fetched: dict[str, Any]) -> str:
    files = "" if fetched["files"] == 1 else f" in {fetched['files']} files"
    speed = ""
    if fetched["fetched_in_s"]:
        per_s = fetched["fetched_bytes"] / fetched["fetched_in_s"]
        speed = f", {per_s / 1e6:,.0f} MB/s"
    at = f" at {fetched['revision'][:12]}" if fetched["revision"] else ""
    head = f"{fetched['source']}{at}: {_size(fetched['bytes'])}{files}{speed}"
    return f"{head}\n  sha256 {fetched['sha256']}\n  {fetched['path']}"


def _kept(kept: Kept) -> dict[str, Any]:
    return {
        "sha256" if not kept.is_compiled else "key": kept.name,
        "kind": "compiled" if kept.is_compiled else "weights",
        "sources": list(kept.sources),
        "bytes": kept.bytes,
        "in_use": kept.is_used,
        "used_at": datetime.fromtimestamp(kept.used_at_s, UTC).isoformat(timespec="seconds"),
        "path": str(kept.path),
    }


def _kept_line(kept: Kept) -> str:
    used = (
        "in use" if kept.is_used else datetime.fromtimestamp(kept.used_at_s, UTC).strftime("%Y-%m-%d %H:%M")
    )
    what = ", ".join(kept.sources) or ("compiled by engines" if kept.is_compiled else "of no source any more")
    return f"{kept.name}  {_size(kept.bytes):>9}  {used:<16}  {what}"


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} B"
