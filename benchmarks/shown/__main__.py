"""``python -m benchmarks.shown``: tell every story at full size, print the figures, write them down."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shlex
import shutil
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchmarks.gateway import machine
from benchmarks.shown import aiperf
from benchmarks.shown.report import Told, show, write
from engines.tiny import tiny_gguf
from system.catalogue import STORIES, World, tell
from tidegate import __version__

BUILD = Path("build/bench")
progress = Console(stderr=True, highlight=False)


def read_arguments() -> argparse.Namespace:
    names = [*STORIES, aiperf.NAME]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shown", description=__doc__)
    parser.add_argument("--only", help=f"some of {', '.join(names)}")
    parser.add_argument("--scale", type=float, default=1.0, help="of the full sizes (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="of all random moments (default 1)")
    parser.add_argument("--out", type=Path, default=BUILD / "shown.json")
    arguments = parser.parse_args()
    arguments.names = arguments.only.split(",") if arguments.only else names
    unknown = set(arguments.names) - set(names)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(names)}")
    return arguments


async def tell_one(name: str, world: World, scale: float) -> Told:
    """The figures of one story; a story that breaks off is a result too."""
    if name == aiperf.NAME:
        told = Told(name, aiperf.TITLE, aiperf.REQUESTS, skipped=aiperf.why_not())
    else:
        told = Told(name, STORIES[name].title, STORIES[name].size(scale))
    if told.skipped:
        return told
    began_s = time.monotonic()
    try:
        if name == aiperf.NAME:
            told.figures = await aiperf.run(world.folder, world.weights)
        else:
            told.figures = await tell(name, world, told.size)
    except Exception as error:
        told.failed = f"{type(error).__name__}: {error}"[:500]
        progress.print(escape(traceback.format_exc()))
    told.took_s = time.monotonic() - began_s
    told.load_average = os.getloadavg()[0]
    return told


async def tell_all(names: list[str], scale: float, seed: int, folder: Path) -> list[Told]:
    weights = tiny_gguf(folder / "tiny.gguf")
    all_told = []
    for number, name in enumerate(names, 1):
        progress.print(f"  {number}/{len(names)} {name}")
        told = await tell_one(name, World(folder / name, weights, random.Random(seed)), scale)
        verdict = "skipped" if told.skipped else "met" if told.is_met else "[red]not met[/]"
        progress.print(f"      {verdict}, {told.took_s:.0f} s")
        all_told.append(told)
    return all_told


def main() -> int:
    arguments = read_arguments()
    folder = (BUILD / "shown").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    context: dict[str, Any] = {
        "benchmark": "shown",
        "command": shlex.join(["python", "-m", "benchmarks.shown", *sys.argv[1:]]),
        "tidegate": __version__,
        "seed": arguments.seed,
        "scale": arguments.scale,
        "facts": machine.facts(),
    }
    told = asyncio.run(tell_all(arguments.names, arguments.scale, arguments.seed, folder))
    write(arguments.out, context, told)
    show(told)
    return 0 if all(each.is_met for each in told) else 1


if __name__ == "__main__":
    sys.exit(main())
