"""``python -m benchmarks.gateway``: measure, print, write ``build/bench/gateway.json``."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks.gateway import machine, ours
from benchmarks.gateway.bodies import write_bodies
from benchmarks.gateway.build import NoCompiler, compile_program
from benchmarks.gateway.gateways import (
    CannotRun,
    Gateway,
    Launch,
    Place,
    Running,
    end_group,
    free_port,
    start_pinned,
)
from benchmarks.gateway.measure import Bench, LoadClient
from benchmarks.gateway.peers import peers
from benchmarks.gateway.report import Report, print_report, write_docs
from benchmarks.gateway.scenarios import SCENARIOS, Scenario
from benchmarks.gateway.stats import BASELINE, ONE_CORE, Measurement

BUILD = Path("build/bench")
DOCS_PAGE = Path("docs/benchmarks.md")
progress = Console(stderr=True, highlight=False)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="counted in each measurement (default 3)")
    parser.add_argument("--scenarios", help=f"of {', '.join(s.name for s in SCENARIOS)}; all unless told")
    parser.add_argument("--gateways", help="names of the first column; all unless told")
    parser.add_argument("--seed", type=int, default=1, help="of the request bodies (default 1)")
    parser.add_argument("--out", type=Path, default=BUILD / "gateway.json")
    parser.add_argument("--write-docs", action="store_true", help=f"put the tables into {DOCS_PAGE}")
    parser.add_argument(
        "--max-foreign",
        type=float,
        default=10,
        help="measure again when other programs took more %% of a core",
    )
    parser.add_argument("--attempts", type=int, default=2, help="at most so many times (default 2)")
    peers_wanted = os.environ.get("BENCH_PEERS", "") not in ("", "0")
    parser.add_argument(
        "--peers", action="store_true", default=peers_wanted, help="the same as BENCH_PEERS=1"
    )
    parser.add_argument("--litellm", action="store_true", help="that peer too; it installs 400 MB")
    return parser.parse_args()


def chosen_scenarios(arguments: argparse.Namespace) -> list[Scenario]:
    wanted = arguments.scenarios.split(",") if arguments.scenarios else [s.name for s in SCENARIOS]
    unknown = set(wanted) - {s.name for s in SCENARIOS}
    if unknown:
        sys.exit(f"unknown scenario: {', '.join(sorted(unknown))}")
    return [s for s in SCENARIOS if s.name in wanted]


def chosen_gateways(arguments: argparse.Namespace, engine: Path) -> list[Gateway]:
    """The baselines first, so that every repetition has something to subtract."""
    direct = Gateway(
        BASELINE,
        lambda place: Launch([str(engine), str(place.port)]),
        lambda: "engine on the gateway's core",
    )
    file = BUILD.resolve() / "gateway.yaml"
    found = [direct, ours.gateway(file), ours.gateway(file, ours.BY_TOKENS, routing="least_tokens")]
    if arguments.peers:
        found += peers(BUILD.resolve() / "venvs", optional=arguments.litellm)
    if arguments.gateways:
        wanted = {BASELINE, *arguments.gateways.split(",")}
        unknown = wanted - {gateway.name for gateway in found}
        if unknown:
            sys.exit(f"unknown gateway: {', '.join(sorted(unknown))} (peers are known with BENCH_PEERS=1)")
        found = [gateway for gateway in found if gateway.name in wanted]
    return found


@contextmanager
def running_engines(program: Path, core: int, ports: tuple[int, ...], folder: Path) -> Iterator[int]:
    """Two replicas in one process; its pid."""
    folder.mkdir(parents=True, exist_ok=True)
    process = start_pinned([str(program), *map(str, ports)], core, {}, folder, folder / "engine.log")
    try:
        yield process.pid
    finally:
        end_group(process)


def install(gateways: list[Gateway], notes: dict[str, str]) -> list[Gateway]:
    """Those that can be measured; the others get a note that says why not."""
    usable = []
    for gateway in gateways:
        progress.print(f"  preparing {gateway.name}")
        try:
            gateway.install()
            notes[gateway.name] = gateway.version()
            usable.append(gateway)
        except CannotRun as error:
            notes[gateway.name] = str(error)
    return usable


def run(arguments: argparse.Namespace, folder: Path, notes: dict[str, str]) -> list[Measurement]:
    """Every gateway in every scenario, then all again: what disturbs the machine disturbs all alike."""
    cores = machine.choose_cores()
    if cores.shared:
        progress.print("  [yellow]only one core is usable: gateway, client and engines share it[/]")
    scenarios = chosen_scenarios(arguments)
    engine, load = (compile_program(name, folder) for name in ("engine", "load"))
    bodies = {s.kind.name: write_bodies(folder, s.kind, arguments.seed) for s in scenarios}
    bench = Bench(
        LoadClient(load, cores.load),
        bodies,
        arguments.seconds,
        arguments.max_foreign,
        max(1, arguments.attempts),
    )
    os.sched_setaffinity(0, {cores.load})  # nothing of ours but the gateway may run on its core
    gateways = install(chosen_gateways(arguments, engine), notes)
    notes[ONE_CORE] = "engines on the client's core"
    engine_ports = (free_port(), free_port())
    measured: list[Measurement] = []
    with running_engines(engine, cores.load, engine_ports, folder) as engine_pid:
        for repetition in range(1, arguments.repetitions + 1):
            measured += [
                bench.measure(ONE_CORE, engine_ports[0], None, engine_pid, scenario, repetition)
                for scenario in scenarios
            ]
            for gateway in list(gateways):
                place = Place(folder / gateway.name, free_port(), free_port(), engine_ports)
                try:
                    with Running(gateway, place, cores.gateway) as running:
                        for scenario in scenarios:
                            turn = f"{repetition}/{arguments.repetitions} {gateway.name} {scenario.name}"
                            progress.print(f"  {turn}")
                            found = bench.measure(
                                gateway.name, running.port, running.pid, engine_pid, scenario, repetition
                            )
                            measured.append(found)
                            running.check_alive(turn)
                except CannotRun as error:
                    notes[gateway.name] = f"{notes[gateway.name]}: {error}"
                    gateways.remove(gateway)
    return measured


def main() -> int:
    arguments = read_arguments()
    facts = machine.facts()
    notes: dict[str, str] = {}
    began_s = time.monotonic()
    try:
        measurements = run(arguments, BUILD.resolve() / "gateway", notes)
    except (NoCompiler, subprocess.CalledProcessError) as error:
        progress.print(f"[red]{error}[/]")
        return 1
    context = {
        "benchmark": "gateway",
        "command": shlex.join(["python", "-m", "benchmarks.gateway", *sys.argv[1:]]),
        "peers": arguments.peers,
        "seed": arguments.seed,
        "repetitions": arguments.repetitions,
        "window_s": arguments.seconds,
        "took_s": round(time.monotonic() - began_s, 1),
        "facts": facts,
    }
    report = Report(context, notes, measurements)
    report.write(arguments.out)
    print_report(report)
    if arguments.write_docs:
        write_docs(report, DOCS_PAGE)
    wanted = not arguments.gateways or ours.NAME in arguments.gateways.split(",")
    return 1 if wanted and ours.NAME not in report.summary else 0


if __name__ == "__main__":
    sys.exit(main())
