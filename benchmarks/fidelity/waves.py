"""What a closed loop makes of an engine, in units of its own decode step.

Clients that all begin at once and each send their next prompt when they have their answer, ten times over,
as the benchmarks behind the measured points do it: lengths between 0.8 and 1 of the stated ones. How long
a first token waits, and how much prompts slow down decoding, then depend on four numbers only: clients,
prompt time in decode steps, and both lengths. The engine is run once for each point of a grid of these,
and a fit may ask the grid thousands of times.
"""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

import numpy as np

from tidegate.engine.batch import Engine
from tidegate.engine.latency import LinearLaw
from tidegate.engine.sequence import Limits, Sequence

CLIENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
PROMPT_STEPS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
LENGTHS = (115, 920, 7373)
WAVES = 10
STEP_TOKENS = 8192
SPREAD = 1 / 9
"""Lengths lie evenly between 0.8 and 1 of the stated ones: 0.9 of them, give or take a ninth."""


def run(clients: int, prompt_steps: float, output_tokens: int, prompt_tokens: int) -> tuple[float, float]:
    """Mean time to the first token and mean time per token of one closed loop, in decode steps."""
    dice = random.Random(1)
    law = LinearLaw(a=1, b=0, c=0, d=1, e=prompt_steps / prompt_tokens * 1e3, f=0)
    limits = Limits(max_sequences=clients, max_step_tokens=STEP_TOKENS, kv_blocks=10**9, prefix_caching=False)
    engine, sent = Engine(limits, law), list[Sequence]()

    def send(now_s: float) -> None:
        lengths = (
            round(mean * dice.uniform(1 - SPREAD, 1 + SPREAD)) for mean in (prompt_tokens, output_tokens)
        )
        sent.append(Sequence(len(sent), *lengths))
        engine.add(sent[-1], now_s)

    for _ in range(clients):
        send(0.0)
    while (wake_s := engine.wake_s) is not None:
        for ended in engine.advance(wake_s).ended:
            if len(sent) < WAVES * clients:
                send(ended.finished_s)
    first = [one.first_token_s - one.queued_s for one in sent]
    each = [(one.finished_s - one.first_token_s) / (one.output_tokens - 1) for one in sent]
    return 1e3 * float(np.mean(first)), 1e3 * float(np.mean(each))


class Waves:
    """The grid, looked up between its points."""

    def __init__(self, grid: np.ndarray) -> None:
        self._axes = [np.log(axis) for axis in (CLIENTS, PROMPT_STEPS, LENGTHS, LENGTHS)]
        self._grid = np.log(grid)

    @classmethod
    def made(cls, cache: Path) -> Waves:
        """From a file, or made in some ten seconds and kept there."""
        if cache.exists():
            return cls(np.array(json.loads(cache.read_text())))
        points = [run(*point) for point in product(CLIENTS, PROMPT_STEPS, LENGTHS, LENGTHS)]
        grid = np.array(points).reshape(len(CLIENTS), len(PROMPT_STEPS), len(LENGTHS), len(LENGTHS), 2)
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(grid.tolist()))
        return cls(grid)

    def at(self, clients, prompt_steps, output_tokens, prompt_tokens) -> tuple[np.ndarray, np.ndarray]:
        """Waits for first tokens and time per token, in decode steps, of many loops at once."""
        corners = [
            _between(axis, np.log(values))
            for axis, values in zip(
                self._axes, (clients, prompt_steps, output_tokens, prompt_tokens), strict=True
            )
        ]
        found = 0.0
        for sides in product((0, 1), repeat=4):
            weight, index = 1.0, []
            for side, (low, share) in zip(sides, corners, strict=True):
                weight = weight * (share if side else 1 - share)
                index.append(low + side)
            found = found + weight[:, None] * self._grid[tuple(index)]
        first, each = np.exp(found).T
        # Beyond the grid both grow with the clients.
        beyond = np.maximum(clients / CLIENTS[-1], 1.0)
        return first * beyond, 1 + (each - 1) * beyond


def _between(axis: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low = np.clip(np.searchsorted(axis, values) - 1, 0, len(axis) - 2)
    return low, np.clip((values - axis[low]) / (axis[low + 1] - axis[low]), 0, 1)
