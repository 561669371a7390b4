"""``python -m benchmarks.dispatch_queue``: measure, print, write ``build/bench/dispatch_queue.json``."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.dispatch_queue.conservation import conserved
from benchmarks.dispatch_queue.draining import drained
from benchmarks.dispatch_queue.emulated import emulated
from benchmarks.dispatch_queue.fairness import MEAN_PROMPT, beside, shares
from benchmarks.dispatch_queue.newcomer import joined, scale_up
from benchmarks.dispatch_queue.overload import capacity_per_s, overload
from benchmarks.dispatch_queue.resuming import resumed
from benchmarks.dispatch_queue.world import STEP_TOKENS
from tidegate import __version__
from tidegate.core.settings import HANDOVER_S, DispatchConfig

OUT = Path("build/bench/dispatch_queue.json")
PARTS = ("newcomer", "overload", "fairness", "drain", "conservation", "emulated", "resume")


class Report:
    """Rows of the table: what was measured, its bound, and whether it holds."""

    def __init__(self) -> None:
        self.table = Table("part", "figure", "measured", "bound", "", title="dispatch: the queue")
        self.figures: dict[str, Any] = {}

    def row(self, part: str, name: str, value: float, bound: float, *, at_most: bool, unit: str = "") -> None:
        """One figure. A bound holds when the value is at most, or at least, that."""
        holds = value <= bound if at_most else value >= bound
        sign = "≤" if at_most else "≥"
        self.table.add_row(
            part, name, f"{value:.3g}{unit}", f"{sign} {bound:g}{unit}", "yes" if holds else "NO"
        )
        self.figures[f"{part}: {name}"] = {"value": value, "bound": bound, "at_most": at_most, "holds": holds}

    def note(self, part: str, name: str, value: str) -> None:
        """A figure without a bound."""
        self.table.add_row(part, name, value, "", "")
        self.figures[f"{part}: {name}"] = {"value": value}


def newcomer(report: Report, seeds: range, _quick: bool) -> None:
    """Must be shown 4."""
    first = [joined(seed) for seed in seeds]
    report.row(
        "newcomer",
        "first dispatch after ready",
        1e3 * max(j.first_s for j in first),
        50,
        at_most=True,
        unit=" ms",
    )
    report.row(
        "newcomer",
        "slots full after ready",
        1e3 * max(j.full_s for j in first),
        200,
        at_most=True,
        unit=" ms",
    )
    report.row("newcomer", "runs out of order", sum(not j.in_order for j in first), 0, at_most=True)
    for per_s in (30.0, 60.0, 75.0):
        ramped = max(scale_up(seed, per_s, ramp=True).ratio for seed in seeds)
        name = f"p99 TTFT while a cold one joins, {per_s:g}/s"
        report.row("newcomer", name, ramped, 1.5, at_most=True, unit="x")
        plain = max(scale_up(seed, per_s, ramp=False).ratio for seed in seeds)
        report.note("newcomer", f"the same without a ramp, {per_s:g}/s", f"{plain:.3g}x")


def overloads(report: Report, seeds: range, quick: bool) -> None:
    """Must be shown 5."""
    seconds = 30.0 if quick else 60.0
    for timeout_s in (5.0, 12.0, 30.0):
        for times in (2.0, 5.0, 10.0):
            runs = [overload(seed, capacity_per_s(seed), times, timeout_s, seconds) for seed in seeds]
            name = f"{times:g}x, deadline {timeout_s:g} s"
            report.row("overload", f"goodput, {name}", min(r.goodput_ratio for r in runs), 0.9, at_most=False)
            report.row(
                "overload", f"let in as told, {name}", min(r.let_in_ratio for r in runs), 0.9, at_most=False
            )
            slowest = max(r.refusal_p99_us for r in runs) / 1e3
            report.row("overload", f"refusal p99, {name}", slowest, 50, at_most=True, unit=" ms")


def fairness(report: Report, seeds: range, _quick: bool) -> None:
    """Must be shown 6."""
    equal = {"a": (500, 200), "b": (500, 200)}
    unequal = {"a": (500, 200), "b": (4_000, 100), "c": (100, 400)}
    for name, sizes in (("alike", equal), ("of unequal size", unequal)):
        off = max(abs(share - 1.0) for seed in seeds for share in shares(seed, sizes).values())
        report.row("fairness", f"farthest from an equal share, requests {name}", off, 0.05, at_most=True)
    for step_tokens, prompt in ((2_048, 500), (2_048, 8_000), (1_024, 8_000)):
        quiet_beside(report, seeds, prompt, step_tokens)


def quiet_beside(report: Report, seeds: range, prompt: int, step_tokens: int) -> None:
    """A quiet tenant alone, and beside one of a hundred times its rate. The worst of the seeds counts."""
    name = f"beside 100x, prompts of {prompt:,}" + (
        "" if step_tokens == STEP_TOKENS else f", steps of {step_tokens:,}"
    )
    solo = [beside(seed, 0.0, step_tokens=step_tokens) for seed in seeds]
    loud = [beside(seed, 100.0, prompt=prompt, step_tokens=step_tokens) for seed in seeds]
    ratios = [one.ttft_p99_s / alone.ttft_p99_s for one, alone in zip(loud, solo, strict=True)]
    report.row("fairness", f"p99 TTFT {name}", max(ratios), 2.0, at_most=True, unit="x")
    spelled = ", ".join(
        f"{1e3 * alone.ttft_p99_s:.0f} to {1e3 * one.ttft_p99_s:.0f} ms"
        for one, alone in zip(loud, solo, strict=True)
    )
    report.note("fairness", f"the same, alone and {name}", spelled)
    errors = 100 * max(one.error_ratio for one in loud)
    report.row("fairness", f"errors {name}", errors, 1.0, at_most=True, unit=" %")
    if prompt == MEAN_PROMPT:
        return
    never = DispatchConfig(max_yields=0)
    plain = [beside(seed, 100.0, prompt=prompt, step_tokens=step_tokens, config=never) for seed in seeds]
    without = max(one.ttft_p99_s / alone.ttft_p99_s for one, alone in zip(plain, solo, strict=True))
    report.note("fairness", f"the same with max_yields: 0, {name}", f"{without:.3g}x")
    kept = min(
        one.loud_tokens_per_s / other.loud_tokens_per_s for one, other in zip(loud, plain, strict=True)
    )
    report.note(
        "fairness", f"prompts of the loud one per second, of those then, {name}", f"{100 * kept:.0f} %"
    )


def drain(report: Report, seeds: range, _quick: bool) -> None:
    """Of section E: what a replica that drains leaves to the others."""
    found = [drained(seed) for seed in seeds]
    report.row("drain", "requests sent to it", sum(one.sent_there for one in found), 0, at_most=True)
    times = max(one.computed / max(1, one.alone) for one in found)
    report.row("drain", "computations of a beginning that it alone had", times, 1.0, at_most=True)
    ratio = max(one.ttft_p99_ratio for one in found)
    report.note("drain", "p99 TTFT in the ten seconds after it", f"{ratio:.3g}x")
    ratio = max(one.announced_p99_ratio for one in found)
    report.note("drain", f"and in the {HANDOVER_S:g} s before it, when its leave is known", f"{ratio:.3g}x")
    steady = max(one.steady_p99_ratio for one in found)
    report.note("drain", "the same with a replica less from the start", f"{steady:.3g}x")
    at_once = [drained(seed, 0.0) for seed in seeds]
    ratio = max(one.ttft_p99_ratio for one in at_once)
    report.note("drain", "after one that was not announced (handover: 0s)", f"{ratio:.3g}x")
    slow, slow_at_once = (sum(one.slow for one in each) / len(each) for each in (found, at_once))
    report.note("drain", "requests three times as slow as p99 before, in 20 s", f"{slow:.3g}")
    report.note("drain", "the same when it was not announced", f"{slow_at_once:.3g}")


def conservation(report: Report, seeds: range, quick: bool) -> None:
    """Must be shown 7."""
    requests = 10_000 if quick else 100_000
    found = conserved(seeds[0], requests)
    report.row("conservation", "requests without exactly one outcome", found.ended_twice, 0, at_most=True)
    report.row("conservation", "left in any book at the end", found.left, 0, at_most=True)
    report.note("conservation", f"of {found.records} requests", json.dumps(found.outcomes))


def emulators(report: Report, seeds: range, quick: bool) -> None:
    """Must be shown 7 again, through real sockets."""
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # engines that are cut off say so
    found = asyncio.run(emulated(seeds[0], 5_000 if quick else 100_000))
    name = f"of {found.requests:,} on emulated engines"
    report.row("emulated", f"without exactly one outcome, {name}", found.ended_otherwise, 0, at_most=True)
    report.row("emulated", f"told one thing and counted as another, {name}", found.untrue, 0, at_most=True)
    report.row("emulated", "left in any book, engine or task at the end", found.left, 0, at_most=True)
    report.note("emulated", "outcomes", json.dumps(found.outcomes))
    report.note("emulated", "as clients saw it", json.dumps(found.seen))
    report.note("emulated", "by attempts", json.dumps(found.attempts))
    report.note("emulated", "engines that joined", str(found.joined))


def resume(report: Report, seeds: range, quick: bool) -> None:
    """Must be shown 11."""
    found = asyncio.run(resumed(seeds[0], 100 if quick else 1_000))
    whole = found.identical / max(1, found.identical + found.told + found.false_ends)
    report.row("resume", f"identical text, {found.kills} kills", 100 * whole, 99, at_most=False, unit=" %")
    report.row("resume", "false ends", found.false_ends, 0, at_most=True)
    report.note("resume", "ended with an explicit error", str(found.told))
    report.figures["resume: detail"] = asdict(found) | {
        "attempts": {str(tries): count for tries, count in found.attempts.items()}
    }


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dispatch_queue", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}; all unless told")
    parser.add_argument("--seeds", type=int, default=2, help="how many (default 2)")
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--out", type=Path, default=OUT)
    told = parser.parse_args()
    measures = {
        "newcomer": newcomer,
        "overload": overloads,
        "fairness": fairness,
        "drain": drain,
        "conservation": conservation,
        "emulated": emulators,
        "resume": resume,
    }
    report = Report()
    progress = Console(stderr=True)
    for part in told.parts.split(","):
        progress.print(f"measuring {part} ...")
        measures[part](report, range(1, 1 + told.seeds), told.quick)
    Console(width=120).print(report.table)
    told.out.parent.mkdir(parents=True, exist_ok=True)
    whole = {
        "command": shlex.join(sys.argv),
        "tidegate": __version__,
        "python": platform.python_version(),
        "seeds": list(range(1, 1 + told.seeds)),
        "load_average": os.getloadavg(),
        "figures": report.figures,
    }
    told.out.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
