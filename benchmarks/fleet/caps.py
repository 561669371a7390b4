"""The caps over random fleets: every cap is looked at after every event, by somebody who is not the controller."""

from __future__ import annotations

from typing import Any

from benchmarks.fleet.driven import World
from benchmarks.fleet.frame import Asked

STEPS = 1_000_000
SMALL = 40_000
WORLDS = 100


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    steps = STEPS if asked.size == "full" else SMALL
    tasks = [(seed, steps // WORLDS) for seed in range(WORLDS)]
    answers = asked.in_order(played, tasks, "caps")
    broken = [
        f"world {seed}: {what}"
        for (seed, _), answer in zip(tasks, answers, strict=True)
        for what in answer[2]
    ]
    peaks: dict[str, float] = {}
    full: dict[str, int] = {}
    for _, _, _, peak, _, _ in answers:
        for what, share in peak.items():
            peaks[what] = max(peaks.get(what, 0.0), share)
            full[what] = full.get(what, 0) + (share > 0.9)
    total, launches = sum(answer[0] for answer in answers), sum(answer[1] for answer in answers)
    days = sum(answer[4] for answer in answers)
    asked.say(f"{total} turns in {WORLDS} worlds, {launches} launches, {days:.0f} days")
    for what, share in sorted(peaks.items()):
        asked.say(f"  {what:<18} at most {100 * share:6.2f} % of its cap; above 90 % in {full[what]} worlds")
    cheaper = sum(answer[5] for answer in answers)
    asked.say(f"  adopted warm, at less than the whole price, at a restart: {cheaper} replicas")
    asked.say(f"  exceeded: {len(broken)} times")
    for line in broken[:5]:
        asked.say(f"    {line}")
    return {
        "turns": total,
        "worlds": WORLDS,
        "launches": launches,
        "days": days,
        "adopted_warm": cheaper,
        "exceeded": len(broken),
        "peaks": peaks,
        "worlds_above_90_percent": full,
    }


def played(task: tuple[int, int]) -> tuple[int, int, list[str], dict[str, float], float, int]:
    """One world: turns, launches, what was broken, the peaks, days, cheaper warm ones adopted at restarts."""
    seed, steps = task
    world = World(seed)
    while world.steps < steps:
        world.step()
    days = world.now_s / 86_400
    return world.steps, world.launches, world.books.broken, world.books.peak, days, world.adopted_cheaper
