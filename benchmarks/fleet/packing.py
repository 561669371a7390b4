"""Where replicas go: the share of starts that find a place, by ours and by the two usual rules, on the same sequence.

Starts come at random and stay for a random time; one that finds no place is lost. Every rule sees the same starts, so what
it loses is what it has split. Offered is what the sequence would hold on the mean if nothing were lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from benchmarks.fleet.frame import Asked
from tidegate.core.fleet.placement import Ground, Outlook
from tidegate.core.fleet.sizes import Size
from tidegate.core.nodes import Gpu, Node, Place

GIB = 2**30
KINDS = ("h100", "l40s")
NODES = tuple(
    Node(f"n{number:02}", tuple(Gpu(index, 80 * GIB, KINDS[number // 8]) for index in range(8)))
    for number in range(16)
)
"""Eight of each kind."""
STARTS = {"small": 4_000, "medium": 20_000, "full": 100_000}
SEEDS = {"small": 3, "medium": 5, "full": 10}
OFFERED = (0.8, 0.95, 1.1)
STAY_S = 600.0

Choice = Callable[[Ground, Size], Place | None]

MIXES: dict[str, Sequence[tuple[Size, float]]] = {
    "whole GPUs: 1, 2, 4, 8": [
        (Size(1, 0.0), 0.6),
        (Size(2, 0.0), 0.2),
        (Size(4, 0.0), 0.15),
        (Size(8, 0.0), 0.05),
    ],
    "shares and wholes": [
        (Size(1, 0.0, "", 20 * GIB), 0.4),
        (Size(1, 0.0, "", 40 * GIB), 0.25),
        (Size(1, 0.0), 0.2),
        (Size(4, 0.0), 0.15),
    ],
    "half of them want one kind": [
        (Size(1, 0.0), 0.4),
        (Size(2, 0.0), 0.1),
        (Size(1, 0.0, "h100"), 0.25),
        (Size(2, 0.0, "h100"), 0.15),
        (Size(4, 0.0, "h100"), 0.1),
    ],
}


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    found: dict[str, Any] = {}
    for mix in MIXES:
        asked.say(
            f"  {mix}; {len(NODES)} nodes of 8 GPUs, {STARTS[asked.size]} starts, {SEEDS[asked.size]} seeds"
        )
        asked.say(
            f"  {'offered':>9}  {'rule':<10}{'starts placed':>15}{'of the largest':>16}{'GPU-hours placed':>18}"
        )
        for offered in OFFERED:
            tasks = [(mix, offered, seed, STARTS[asked.size]) for seed in range(SEEDS[asked.size])]
            runs = asked.in_order(played, tasks, f"{mix} at {offered:g}")
            for rule in RULES:
                figures = [_mean([one[rule][n] for one in runs]) for n in range(3)]
                found[f"{mix}, {offered:g}, {rule}"] = dict(zip(FIGURES, figures, strict=True))
                asked.say(
                    f"  {offered:>8.0%}  {rule:<10}{figures[0]:>15.2%}{figures[1]:>16.2%}{figures[2]:>18.2%}"
                )
    return {"nodes": len(NODES), "starts": STARTS[asked.size], "seeds": SEEDS[asked.size], "placed": found}


FIGURES = ("starts", "largest", "gpu_hours")


def played(task: tuple[str, float, int, int]) -> dict[str, tuple[float, float, float]]:
    """One sequence under every rule."""
    mix, offered, seed, count = task
    sequence = list(_starts(MIXES[mix], offered, random.Random(seed), count))
    return {rule: _placed(choose, MIXES[mix], sequence) for rule, choose in RULES.items()}


def _starts(
    mix: Sequence[tuple[Size, float]], offered: float, dice: random.Random, count: int
) -> Iterator[tuple[float, Size, float]]:
    """Moment, size, and for how long."""
    sizes, weights = [size for size, _ in mix], [weight for _, weight in mix]
    each = sum(_gpus(size) * weight for size, weight in mix)
    gap_s = each * STAY_S / (offered * sum(len(node.gpus) for node in NODES))
    at_s = 0.0
    for _ in range(count):
        at_s += dice.expovariate(1.0 / gap_s)
        yield at_s, dice.choices(sizes, weights)[0], dice.expovariate(1.0 / STAY_S)


def _placed(
    choose: Choice, mix: Sequence[tuple[Size, float]], sequence: Sequence[tuple[float, Size, float]]
) -> tuple[float, float, float]:
    """Share of the starts, of those of the largest size, and of the GPU-hours that found a place."""
    ground = Ground(NODES, Outlook(size for size, _ in mix))
    largest = max((size for size, _ in mix), key=_gpus)
    ends: list[tuple[float, int, Place]] = []
    placed = [0.0, 0.0, 0.0]
    asked = [0.0, 0.0, 0.0]
    for number, (at_s, size, stay_s) in enumerate(sequence):
        while ends and ends[0][0] <= at_s:
            ground.free(heappop(ends)[2])
        place = choose(ground, size)
        weights = (1.0, float(size == largest), _gpus(size) * stay_s)
        asked = [total + weight for total, weight in zip(asked, weights, strict=True)]
        if place is not None:
            placed = [total + weight for total, weight in zip(placed, weights, strict=True)]
            ground.hold(place)
            heappush(ends, (at_s + stay_s, number, place))
    return placed[0] / asked[0], placed[1] / asked[1], placed[2] / asked[2]


def _gpus(size: Size) -> float:
    return size.gpus * (1.0 if size.memory_bytes is None else size.memory_bytes / (80 * GIB))


def _ours(ground: Ground, size: Size) -> Place | None:
    return ground.find(size)


def _first_fit(ground: Ground, size: Size) -> Place | None:
    """The first node that has room, and there the first GPUs."""
    return next((place for node in NODES if (place := _on(ground, node, size)) is not None), None)


def _worst_fit(ground: Ground, size: Size) -> Place | None:
    """The node with the most GPUs free for it: the load is spread."""
    fitting = [(node, place) for node in NODES if (place := _on(ground, node, size)) is not None]
    if not fitting:
        return None
    return min(fitting, key=lambda found: (-len(_free(ground, found[0], size)), found[0].name))[1]


def _on(ground: Ground, node: Node, size: Size) -> Place | None:
    free = _free(ground, node, size)
    return Place(node.name, tuple(free[: size.gpus]), size.memory_bytes) if len(free) >= size.gpus else None


def _free(ground: Ground, node: Node, size: Size) -> list[int]:
    return [
        gpu.index
        for gpu in node.gpus
        if size.kind in ("", gpu.kind) and ground.fits(Place(node.name, (gpu.index,), size.memory_bytes))
    ]


RULES: dict[str, Choice] = {"ours": _ours, "first-fit": _first_fit, "worst-fit": _worst_fit}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
