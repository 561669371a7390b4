"""Runs the scenarios that are named, or all, and writes their figures to ``build/bench/fleet-NAME.json``."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from functools import partial

from benchmarks.fleet.frame import ROOT, SCENARIOS, SIZES, Asked, write
from benchmarks.fleet.loads import SHAPES
from benchmarks.gateway.machine import facts


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        prog="make bench-fleet",
        description=__doc__,
        epilog="\n".join(f"  {name:<12}{what}" for name, what in SCENARIOS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenario", nargs="*", help="only these; all when none is named")
    parser.add_argument(
        "--size", choices=SIZES, default="small", help="minutes, an hour, or every case and seed"
    )
    parser.add_argument(
        "--loads",
        default="",
        help="only these loads of field and regret, separated by commas; all when none is named",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes that may work at once"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on error"
    )
    given = parser.parse_args()
    unknown = sorted(set(given.scenario) - set(SCENARIOS))
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    named = tuple(name for name in given.loads.split(",") if name)
    if unknown := sorted(set(named) - set(SHAPES)):
        parser.error(f"no load {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    say = partial(print, file=sys.stderr if given.json else sys.stdout, flush=True)
    asked = Asked(given.size, given.jobs, say, named or tuple(SHAPES))
    command = " ".join(["make bench-fleet", *([f'ARGS="{" ".join(sys.argv[1:])}"'] if sys.argv[1:] else [])])
    found = {}
    for name in given.scenario or SCENARIOS:
        asked.say(f"\n{name}: {SCENARIOS[name]} ({asked.size} size)")
        began_s = time.monotonic()
        found[name] = importlib.import_module(f"benchmarks.fleet.{name}").run(asked)
        path = write(name, command, {"size": asked.size, **facts()}, found[name])
        asked.say(f"{time.monotonic() - began_s:.0f} s; written to {path.relative_to(ROOT)}")
    if given.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
