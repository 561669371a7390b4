"""The traffic that the laws are judged on: public days, and shapes of our own. Each is fourteen days long.

A day lasts as long as it was recorded, or less, where days pass the faster and jumps are the harder to follow. Azure conv is
one recorded hour, and each of its days is that hour; Azure functions are eight hours; ramp and noise have days of an hour.
Every load is scaled so that, on the mean, it needs ``replicas`` of the engine that serves it; so cold starts and fleets
compare.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.sim.traces import found, opened
from tidegate.core.types import Dice
from tidegate.sim.fluid import Load, load_of_rates
from tidegate.sim.kernel import SeededDice
from tidegate.sim.needs import full_replica
from tidegate.sim.scenario import ModelSetup, Slo
from tidegate.workload.chance import normal

DAYS = 14
TUNED_DAYS = 7
WINDOW_S = 21_600.0
"""ServeGen's lengths are known for each six hours."""

Lengths = Callable[[float], tuple[float, float]]
Rate = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Shape:
    """A rate over fourteen days of one unit each, and lengths; the scale of the rate means nothing."""

    rate: Rate
    lengths: Lengths
    day_s: float = 86_400.0
    """How long a day lasts as it was recorded, or as the shape is meant."""


def servegen(name: str, days: int) -> Shape:
    """Rates of each ten minutes and mean lengths of each six hours, repeated after so many days."""
    with opened(found(f"servegen/{name}-rate*")) as lines:
        rates = [float(row["rate_rps"]) for row in csv.DictReader(lines)][: days * 144]
    means = _mean_lengths(name)
    windows = days * 4

    def rate(day: float) -> float:
        return rates[int(day % days * 144)]

    def lengths(day: float) -> tuple[float, float]:
        return means[min(int(day % days * 4), windows - 1, len(means) - 1)]

    return Shape(rate, lengths)


def _mean_lengths(name: str) -> list[tuple[float, float]]:
    """Prompt and output tokens of each six hours."""
    totals: dict[int, dict[str, list[float]]] = {}
    with opened(found(f"servegen/{name}-lengths*")) as lines:
        for row in csv.DictReader(lines):
            window = totals.setdefault(int(float(row["window_s"]) // WINDOW_S), {})
            field = window.setdefault(row["field"], [0.0, 0.0])
            weight = float(row["expected_requests"])
            field[0] += weight
            field[1] += weight * (float(row["bin_lo"]) + float(row["bin_hi"])) / 2
    found_means: list[tuple[float, float]] = []
    for number in range(max(totals) + 1):
        fields = {name: total / count for name, (count, total) in totals.get(number, {}).items() if count}
        output = fields.pop("output_tokens", 0.0)
        if fields and output:
            found_means.append((sum(fields.values()), output))
        elif found_means:
            found_means.append(found_means[-1])
    return found_means


def azure_conv() -> Shape:
    """The recorded hour, minute by minute, as every day."""
    with opened(found("azure-llm-2023/*conv*")) as lines:
        rows = [
            (row["TIMESTAMP"], int(row["ContextTokens"]), int(row["GeneratedTokens"]))
            for row in csv.DictReader(lines)
        ]
    first = _seconds(rows[0][0])
    minutes: list[list[float]] = []
    for stamp, prompt, output in rows:
        minute = int((_seconds(stamp) - first) // 60)
        while len(minutes) <= minute:
            minutes.append([0.0, 0.0, 0.0])
        for place, amount in enumerate((1.0, prompt, output)):
            minutes[minute][place] += amount

    def at(day: float) -> list[float]:
        return minutes[int(day % 1.0 * len(minutes))]

    def lengths(day: float) -> tuple[float, float]:
        requests, prompts, outputs = at(day)
        return prompts / requests, outputs / requests

    return Shape(lambda day: at(day)[0], lengths, 3_600.0)


def _seconds(stamp: str) -> float:
    hours, minutes, seconds = stamp.split()[1].split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def azure_functions() -> Shape:
    """All functions but the largest, which has 63 % of the calls; eight hours are a day."""
    with opened(found("azure-functions/invocations*")) as lines:
        rows = list(csv.reader(lines))
    calls = sorted(([int(cell) for cell in row[4:]] for row in rows[1:]), key=sum)[:-1]
    minutes = [float(sum(column)) for column in zip(*calls, strict=True)]
    return Shape(lambda day: minutes[int(day % 1.0 * len(minutes))], lambda _: (500.0, 100.0), 28_800.0)


def flash(day_s: float) -> Shape:
    """Level, and once a day, at an hour of its own, six times as much: within a minute, for ten minutes, and then
    fading by halves every five."""

    def rate(day: float) -> float:
        since_s = (day % 1.0 - (0.31 + 0.37 * int(day)) % 0.6) * day_s
        if since_s < 0:
            return 1.0
        return 1.0 + 5.0 * (min(1.0, since_s / 60) if since_s < 660 else 0.5 ** ((since_s - 660) / 300))

    return Shape(rate, lambda _: (1000.0, 200.0))


def ramp() -> Shape:
    """Up in a straight line to ten times as much, and down again, once a day."""
    return Shape(
        lambda day: 1.0 + 9.0 * (1.0 - abs(2.0 * (day % 1.0) - 1.0)), lambda _: (1000.0, 200.0), 3_600.0
    )


def noise(day_s: float) -> Shape:
    """A level rate; each minute takes its own, log-normal around it by 40 %."""
    dice = SeededDice(99)
    levels = [math.exp(normal(0.0, 0.4, dice)) for _ in range(max(1, int(day_s / 60)))]
    return Shape(lambda day: levels[int(day % 1.0 * len(levels))], lambda _: (1000.0, 200.0), 3_600.0)


SHAPES: dict[str, Callable[[float], Shape]] = {
    "azure-conv": lambda _: azure_conv(),
    "m-large": lambda _: servegen("language-m-large", 14),
    "m-small": lambda _: servegen("language-m-small", 14),
    "mm-image": lambda _: servegen("multimodal-mm-image", 1),
    "functions": lambda _: azure_functions(),
    "flash": flash,
    "ramp": lambda _: ramp(),
    "noise": noise,
}
"""Each is made for days of so many seconds: what comes suddenly does so in seconds, not in shares of a day."""


def load(
    shape: Shape, setup: ModelSetup, slo: Slo, *, replicas: float, day_s: float, slot_s: float, dice: Dice
) -> Load:
    """All fourteen days, scaled so that they need so many replicas on the mean."""
    steps = [DAYS * (place + 0.5) / 2016 for place in range(2016)]
    needed = sum(
        shape.rate(day) / full_replica(setup, slo, *shape.lengths(day)).requests_per_s for day in steps
    ) / len(steps)
    scale = replicas / needed

    return load_of_rates(
        lambda at_s: scale * shape.rate(min(at_s / day_s, DAYS - 1e-9)),
        lambda at_s: shape.lengths(min(at_s / day_s, DAYS - 1e-9)),
        DAYS * day_s,
        slot_s,
        dice,
    )


def tuned_part(whole: Load, day_s: float) -> Load:
    """Days 1-7."""
    return whole.between(0.0, TUNED_DAYS * day_s)


def reported_part(whole: Load, day_s: float) -> Load:
    """Days 8-14."""
    return whole.between(TUNED_DAYS * day_s, math.inf)
