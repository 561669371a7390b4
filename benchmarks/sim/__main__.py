"""Measures each case in a process of its own and writes ``build/bench/sim.json``.

CPU time, one process, the best of the repetitions: what others do on the machine makes a run slower and
never faster. The garbage collector is off during a run, as in ``tidegate simulate``. Beside each run the yardstick is
measured, a plain Python loop: what a figure is worth on another day is the figure over that day's yardstick.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from benchmarks.gateway.machine import facts
from benchmarks.sim.cases import CASES, Case, Measured
from benchmarks.sim.traces import ROOT, NoTrace
from benchmarks.yardstick import LOOP, TURNS, turns_per_cpu_s

OUT = ROOT / "build" / "bench" / "sim.json"
SKIPPED = 77


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="make bench-sim", description=__doc__)
    parser.add_argument(
        "--case", action="append", choices=[case.name for case in CASES], help="only this one"
    )
    parser.add_argument("--repetitions", type=int, help="instead of each case's own")
    parser.add_argument("--one", choices=[case.name for case in CASES], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        return _measure(next(case for case in CASES if case.name == asked.one), asked.repetitions)
    wanted = [case for case in CASES if not asked.case or case.name in asked.case]
    print(f"{'case':<12}{'requests':>10}{'CPU s':>9}{'per CPU s':>12}{'times real':>12}{'MB':>7}  goal")
    rows = [row for case in wanted if (row := _in_a_process(case, asked.repetitions)) is not None]
    yardstick = _yardstick(rows)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    command = "make bench-sim" + (f' ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else "")
    OUT.write_text(
        json.dumps(
            {"command": command, "seed": 1, **facts(), "yardstick": yardstick, "cases": rows}, indent=1
        )
        + "\n"
    )
    print(f"written to {OUT.relative_to(ROOT)}")
    return 0


def _in_a_process(case: Case, repetitions: int | None) -> dict[str, Any] | None:
    """Its figures, printed as a row; None when its trace is not here."""
    command = [sys.executable, "-m", "benchmarks.sim", "--one", case.name]
    if repetitions:
        command += ["--repetitions", str(repetitions)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode == SKIPPED:
        print(f"{case.name:<12}skipped: {done.stdout.strip()}")
        return None
    if done.returncode:
        sys.exit(done.stderr)
    row: dict[str, Any] = json.loads(done.stdout)
    print(
        f"{case.name:<12}{row['requests']:>10,}{row['cpu_s']:>9.2f}{row['per_cpu_s']:>12,.0f}"
        f"{row['times_real']:>12,.0f}{row['memory_mb']:>7.0f}  {_goal(case, row)}",
        flush=True,
    )
    return row


def _yardstick(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The loop's rate in this run, printed as a row: the best, as the figures are, and the worst."""
    rates = [row["yardstick_per_cpu_s"] for row in rows] or [turns_per_cpu_s()]
    worst = min((row["yardstick_worst_per_cpu_s"] for row in rows), default=rates[0])
    print(
        f"{'yardstick':<12}{TURNS:>10,}{TURNS / max(rates):>9.2f}{max(rates):>12,.0f}  {LOOP}; worst {worst:,.0f}"
    )
    return {"loop": LOOP, "best_per_cpu_s": max(rates), "worst_per_cpu_s": worst}


def _goal(case: Case, row: dict[str, Any]) -> str:
    if case.goal_per_s is not None:
        return f"{case.goal_per_s:,.0f}/s: {row['per_cpu_s'] / case.goal_per_s:.2f}"
    return f"{case.goal_s:.0f} s: {(case.goal_s or 0) / row['cpu_s']:.2f}"


def _measure(case: Case, repetitions: int | None) -> int:
    """In the child: print the best run as JSON."""
    try:
        trace = case.prepare()
    except NoTrace as error:
        print(error)
        return SKIPPED
    gc.collect()
    gc.freeze()
    gc.disable()
    runs: list[Measured] = []
    rates: list[float] = []
    for _ in range(repetitions or case.repetitions):
        rates.append(turns_per_cpu_s())
        runs.append(case.run(trace))
    best = min(runs, key=lambda run: run.cpu_s)
    row = {
        "case": case.name,
        "what": case.what,
        **asdict(best),
        "per_cpu_s": best.requests / best.cpu_s,
        "times_real": best.simulated_s / best.cpu_s,
        "all_cpu_s": [run.cpu_s for run in runs],
        "yardstick_per_cpu_s": max(rates),
        "yardstick_worst_per_cpu_s": min(rates),
        "per_million_turns": best.requests / best.cpu_s / max(rates) * 1e6,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "goal_per_s": case.goal_per_s,
        "goal_s": case.goal_s,
    }
    print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
