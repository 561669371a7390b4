"""What a scenario of ``make bench-fleet`` is given, and where its figures go.

A scenario is a module of this package with a function ``run(asked) -> dict``: it says its table line by line with
``asked.say`` and returns its figures. ``SCENARIOS`` names it; it is imported when it is asked for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "bench"

SIZES = ("small", "medium", "full")

SCENARIOS: dict[str, str] = {
    "episode": "a published episode, beside the law that it was published for",
    "check": "the fluid world beside the simulator that moves each request",
    "field": "every law by name on public days: promise kept and replica-hours",
    "regret": "our law beside the cheapest schedule known afterwards",
    "p1": "slots of ten minutes and starts of one slot: ServeGen's fortnight in a published setting",
    "noise": "reversals under a load that swings, and two-to-one cycles",
    "speed": "policy evaluations of one hour of traffic, and decisions of large fleets",
    "caps": "a million random turns: no cap is ever exceeded",
    "calm": "after random turns nobody meddles any more: whoever is asked for serves, and nothing moves",
    "packing": "where replicas go: the share of starts that find a place, beside first-fit and worst-fit",
    "blind": "lost, stale and senseless data: the promise, and nothing lowered in the dark",
    "wakes": "requests that race with the end of the last replica: none is lost",
    "drains": "scale-downs under long streams: no error that a client sees",
    "large": "decisions for 200 models, and 1,000 replicas at one tick a second",
    "real": "the default policy on llama.cpp: starts predicted and measured, a crowd, each step explained",
    "tail": "a hundred models by Zipf's law: sleepers instead of one warm replica each",
}
"""Modules of this package, in the order in which they run."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Asked:
    """How much of a scenario is wanted."""

    size: str
    """``small``: what a few minutes allow; ``medium``: an hour; ``full``: every case and seed, many hours."""
    jobs: int
    """Processes that may work at once."""
    say: Callable[[str], None]
    """Prints a line of the table, wherever that goes."""
    loads: tuple[str, ...]
    """Those that are wanted, where a scenario has several."""

    def each(
        self, work: Callable[[Task], Answer], tasks: Sequence[Task], what: str = ""
    ) -> Iterator[tuple[int, Answer]]:
        """Every task's number and answer, as they come; ``work`` is a function of a module."""
        if self.jobs <= 1 or len(tasks) <= 1:
            for number, task in enumerate(tasks):
                yield number, work(task)
            return
        with ProcessPoolExecutor(self.jobs) as pool:
            waiting = {pool.submit(work, task): number for number, task in enumerate(tasks)}
            for done, future in enumerate(as_completed(waiting), 1):
                if what and sys.stderr.isatty():
                    print(f"\r{what}: {done} of {len(tasks)} ", end="", file=sys.stderr, flush=True)
                yield waiting[future], future.result()
        if what and sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def in_order(self, work: Callable[[Task], Answer], tasks: Sequence[Task], what: str = "") -> list[Answer]:
        """The answers in the order of the tasks."""
        answers = dict(self.each(work, tasks, what))
        return [answers[number] for number in range(len(tasks))]


def write(name: str, command: str, facts: dict[str, Any], figures: dict[str, Any]) -> Path:
    """``build/bench/fleet-NAME.json``."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"fleet-{name}.json"
    path.write_text(json.dumps({"command": command, **facts, **figures}, indent=1) + "\n")
    return path
