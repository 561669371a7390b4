"""``python -m benchmarks.dispatch``: play, measure, print, write ``build/bench/dispatch.json``."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from benchmarks.dispatch.fleet import OTHERS, OURS, Fleet, Seen, means, play, play_sticky
from benchmarks.dispatch.report import Report
from benchmarks.dispatch.workloads import (
    SYSTEM_TOKENS,
    adapters,
    chats,
    hot_prefix,
    mooncake,
    unrelated,
)
from benchmarks.gateway import machine
from benchmarks.sim.traces import NoTrace
from tidegate import __version__
from tidegate.core.settings import Routing
from tidegate.workload.lengths import LogNormal
from tidegate.workload.traces import BLOCK_TOKENS, Trace

OUT = Path("build/bench/dispatch.json")
progress = Console(stderr=True, highlight=False)

DOCUMENTS = LogNormal(1_500, 1.5, 16, 20_000)
"""What a user adds each turn: mostly a sentence, now and then some pages."""


class Asked(NamedTuple):
    """How much of a part is to be played."""

    seeds: range
    loads: int
    quick: bool


PURE_LEAST_LOAD = (Routing.LEAST_TOKENS, Routing.LEAST_REQUEST)


def compare(
    report: Report, name: str, traces: dict[int, Trace], fleet: Fleet, shared_tokens: int, *, bounded: bool
) -> None:
    """Must be shown 2: everybody on the same traces."""
    seen: dict[Routing, Seen] = {}
    for routing in (OURS, *OTHERS):
        progress.print(f"  {name}: {routing.value}")
        seen[routing] = means([play(trace, fleet, routing, seed) for seed, trace in traces.items()])
        report.router(name, routing.value, seen[routing])
    sticky = {}
    for label, tokens in (("sessions kept for ever", shared_tokens), ("longest match always", 0)):
        progress.print(f"  {name}: {label}")
        sticky[label] = means([play_sticky(trace, fleet, seed, tokens) for seed, trace in traces.items()])
        report.router(name, label, sticky[label])
    best = min(OTHERS, key=lambda routing: seen[routing].p90_s)
    ratio = seen[OURS].p90_s / seen[best].p90_s
    if bounded:
        report.row(name, f"TTFT p90, of the best other's ({best.value})", ratio, 0.8, at_most=True)
    else:
        report.note(name, f"TTFT p90, of the best other's ({best.value})", f"{ratio:.3g}")
    ours = seen[OURS].hit_ratio
    kept = ours / sticky["sessions kept for ever"].hit_ratio
    report.row(name, "hit rate, of sessions kept for ever", kept, 0.95, at_most=False)
    # Where all prompts begin alike this one sends everything to one replica, and so hits little: no bound.
    always = ours / sticky["longest match always"].hit_ratio
    report.note(name, "hit rate, of the longest match always", f"{always:.1%}")


def recorded(report: Report, asked: Asked) -> None:
    """Must be shown 2, on the recorded trace, at several times its rate."""
    try:
        for rate in (3.0, 2.0, 3.5)[: asked.loads]:
            trace = mooncake(rate)
            trace = trace.take(range(3_000)) if asked.quick else trace
            fleet = Fleet(profile="llama-3.1-8b-h200x1")
            name = f"Mooncake conversation x {rate:g}, 8 H200"
            compare(report, name, dict.fromkeys(asked.seeds, trace), fleet, BLOCK_TOKENS, bounded=rate >= 3.0)
    except NoTrace as absent:
        report.note("Mooncake conversation", "not measured", str(absent))


def conversations(report: Report, asked: Asked) -> None:
    """Must be shown 2, on generated chats, at two loads."""
    for per_s in (2.6, 2.0)[: asked.loads]:
        seconds = 300.0 if asked.quick else 800.0
        made = {seed: chats(seed, per_s, seconds, DOCUMENTS) for seed in asked.seeds}
        name = f"chats about documents, {per_s:g} starts/s, 8 H100"
        # Shorter, and all sessions fit into the caches: then everybody hits, and little is to be won.
        compare(report, name, made, Fleet(), SYSTEM_TOKENS, bounded=per_s > 2.5 and not asked.quick)


def hot(report: Report, asked: Asked) -> None:
    """Must be shown 2: one prefix that is asked for by 80 % of the traffic."""
    size = 3_000 if asked.quick else 12_000
    for per_s in (60.0, 120.0):
        name = f"hot prefix, {per_s:g}/s on 8"
        traces = {seed: hot_prefix(seed, size, per_s, 0.8, 4_096) for seed in asked.seeds}
        for routing in (OURS, *OTHERS):
            seen = means([play(trace, Fleet(), routing, seed) for seed, trace in traces.items()])
            report.router(name, routing.value, seen)
            if routing is OURS:
                report.row(name, "max/mean load", seen.max_to_mean, 1.2, at_most=True)
                report.note(name, "the same of engines' time at work", f"{seen.busy_max_to_mean:.3g}")
                report.note(name, "the same of computed tokens", f"{seen.computed_max_to_mean:.3g}")
                # What could hit at best: the prefix's share of the tokens of those that have it.
                best = (
                    0.8
                    * 4_096
                    * size
                    / (sum(sum(trace.prompt_tokens) for trace in traces.values()) / len(traces))
                )
                report.row(name, "hit rate, of what can hit", seen.hit_ratio / best, 0.95, at_most=False)


def control(report: Report, asked: Asked) -> None:
    """Must be shown 3: where nothing is shared, looking for it costs nothing."""
    size = 3_000 if asked.quick else 12_000
    for replicas, per_s in ((2, 16.0), (8, 64.0)):
        name = f"no affinity, {per_s:g}/s on {replicas}"
        traces = {seed: unrelated(seed, size, per_s) for seed in asked.seeds}
        seen = {}
        for routing in (OURS, *PURE_LEAST_LOAD, *(r for r in OTHERS if r not in PURE_LEAST_LOAD)):
            fleet = Fleet(replicas)
            seen[routing] = means([play(trace, fleet, routing, seed) for seed, trace in traces.items()])
            report.router(name, routing.value, seen[routing])
        least = min(seen[routing].p99_s for routing in PURE_LEAST_LOAD)
        report.row(name, "TTFT p99, of pure least load", seen[OURS].p99_s / least, 1.02, at_most=True)
        report.row(name, "max/mean load", seen[OURS].max_to_mean, 1.05, at_most=True)


def memory(report: Report, asked: Asked) -> None:
    """Must be shown 8, in a process that does nothing else."""
    size = 100_000 if asked.quick else 1_000_000
    command = [sys.executable, "-m", "benchmarks.dispatch.memory", str(size)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(told.stdout)
    name = f"{size:,} unique prompts of 2 KB"
    report.row("memory", f"growth, {name}", found["growth_bytes"] / 2**20, 64, at_most=True, unit=" MiB")
    report.row("memory", "lookup p99", found["lookup_p99_us"], 200, at_most=True, unit=" us")
    report.row("memory", "CPU for a body of 400 kB", found["cpu_ms"], 10, at_most=True, unit=" ms")
    for blocks in (0, 1, 2):
        took_us = found[f"turn_us_{blocks}_blocks"]
        report.note("memory", f"a request's turns, {blocks} blocks, 2 replicas", f"{took_us:.1f} us")


def lora(report: Report, asked: Asked) -> None:
    """Must be shown 10. The optimum loads each adapter once: four replicas have a place for each."""
    size, names = (2_000 if asked.quick else 8_000), 32
    fleet = Fleet(4, slots=64, adapter_load_s=0.3)
    for per_s in (6.0, 12.0):
        name = f"32 adapters, {per_s:g}/s on 4 x 8"
        traces = {seed: adapters(seed, size, per_s, names) for seed in asked.seeds}
        for routing in (OURS, Routing.LEAST_TOKENS, Routing.LLM_D_STICKY, Routing.DYNAMO_KV):
            runs = [play(trace, fleet, routing, seed) for seed, trace in traces.items()]
            report.router(name, routing.value, means(runs))
            loads = max(run.adapter_loads for run in runs) / names
            if routing is OURS:
                report.row(name, "loads, of the optimum (worst seed)", loads, 1.2, at_most=True)
            else:
                report.note(name, f"the same under {routing.value}", f"{loads:.3g}")


PARTS = {
    "mooncake": recorded,
    "chats": conversations,
    "hot": hot,
    "control": control,
    "memory": memory,
    "lora": lora,
}


def main() -> int:
    """Everything, or what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dispatch", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--seeds", type=int, default=3, help="how many (default 3)")
    parser.add_argument(
        "--loads", type=int, default=3, help="of a part's several loads, how many (default 3)"
    )
    parser.add_argument("--quick", action="store_true", help="short traces, to see that it runs")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    report, asked = Report(), Asked(range(1, arguments.seeds + 1), arguments.loads, arguments.quick)
    for part in arguments.only.split(","):
        progress.print(f"{part} ...")
        PARTS[part](report, asked)
    context: dict[str, Any] = {
        "benchmark": "dispatch",
        "command": shlex.join(["python", "-m", "benchmarks.dispatch", *sys.argv[1:]]),
        "tidegate": __version__,
        "seeds": list(range(1, arguments.seeds + 1)),
        "facts": machine.facts(),
    }
    report.write(arguments.out, context)
    report.show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
