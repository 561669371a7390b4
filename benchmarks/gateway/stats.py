"""Medians with their ranges, differences to the baseline within a repetition, and goals."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.gateway.scenarios import MEMORY, Goal

BASELINE = "direct"
"""The engine where the gateway would be: what the way to another core costs without a gateway."""
ONE_CORE = "direct, one core"
"""Client and engine together on one core: the most that the load client can do."""

# The added figure, and the figure that it is the difference of.
DIFFERENCES = {
    "added_p50_us": "p50_us",
    "added_p99_us": "p99_us",
    "added_first_chunk_p50_us": "first_chunk_p50_us",
    "added_delay_p50_us": "delay_p50_us",
    "added_delay_p99_us": "delay_p99_us",
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """One gateway in one scenario, once. ``failed`` says why there are no figures."""

    gateway: str
    scenario: str
    repetition: int
    figures: Mapping[str, float]
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of the repetitions, and what they lay between."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[0], ordered[-1], len(ordered))


Summary = dict[str, dict[str, dict[str, Spread]]]
"""Gateway, scenario, figure."""


def with_differences(measurements: list[Measurement]) -> list[Measurement]:
    """The same with what each added to the baseline of its own repetition."""
    baselines = {(m.scenario, m.repetition): m.figures for m in measurements if m.gateway == BASELINE}
    extended = []
    for m in measurements:
        base = baselines.get((m.scenario, m.repetition), {})
        added = {
            name: m.figures[figure] - base[figure]
            for name, figure in DIFFERENCES.items()
            if m.gateway not in (BASELINE, ONE_CORE) and figure in m.figures and figure in base
        }
        extended.append(Measurement(m.gateway, m.scenario, m.repetition, {**m.figures, **added}, m.failed))
    return extended


def memory_peaks(measurements: list[Measurement]) -> list[Measurement]:
    """One more measurement for each gateway and repetition: the most memory it was seen with."""
    seen: dict[tuple[str, int], list[float]] = {}
    for m in measurements:
        if "memory_mb" in m.figures:
            seen.setdefault((m.gateway, m.repetition), []).append(m.figures["memory_mb"])
    return [
        Measurement(gateway, MEMORY, repetition, {"peak_mb": max(mb)})
        for (gateway, repetition), mb in seen.items()
    ]


def summarize(measurements: list[Measurement]) -> Summary:
    """Every figure of every scenario over its repetitions, the failed ones left out."""
    everything = with_differences(measurements) + memory_peaks(measurements)
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    for m in everything:
        for figure, value in m.figures.items():
            if not m.failed:
                values.setdefault(m.gateway, {}).setdefault(m.scenario, {}).setdefault(figure, []).append(
                    value
                )
    return {
        gateway: {
            scenario: {figure: Spread.of(found) for figure, found in figures.items()}
            for scenario, figures in scenarios.items()
        }
        for gateway, scenarios in values.items()
    }


def look_up(summary: Summary, gateway: str, scenario: str, figure: str) -> Spread | None:
    return summary.get(gateway, {}).get(scenario, {}).get(figure)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal beside what was measured; ``value`` is None when it was not."""

    goal: Goal
    value: float | None
    ratio: float | None
    met: bool | None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self.goal), "value": self.value, "ratio": self.ratio, "met": self.met}


def judge(goal: Goal, summary: Summary, gateway: str) -> Verdict:
    """Whether the gateway meets the goal, by its median."""
    ours = look_up(summary, gateway, goal.scenario, goal.figure)
    if ours is None:
        return Verdict(goal, None, None, None)
    value = ours.median
    if goal.relative_to is not None:
        theirs = look_up(summary, goal.relative_to, goal.scenario, goal.figure)
        if theirs is None or theirs.median <= 0:
            return Verdict(goal, None, None, None)
        value /= theirs.median
    return Verdict(goal, value, goal.ratio_of(value), goal.met_by(value))
