"""Fitting what work costs to measured points, and predicting other points with it.

Parameters are logarithms, each drawn towards a plain assumption (``PRIORS``: 80 % of the memory's
bandwidth, 3 us a kernel and so on) as strongly as its spread says. The sum of absolute logarithmic errors
is made small (iteratively reweighted least squares with Levenberg's damping), so that outliers don't bend it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.fidelity.features import Table
from benchmarks.fidelity.waves import Waves
from tidegate.engine.roofline import Work

# parameter: (values of which column it has, assumption, spread of its logarithm)
PRIORS = {
    "weights_s": ("generation", 1.25, 0.3),
    "experts_s": ("precision, generation", 1.5, 0.3),
    "kv_s": ("generation", 1.4, 0.4),
    "dense_s": ("precision, generation", 1.8, 0.5),
    "routed_s": ("precision, generation", 3.0, 0.8),
    "attention_s": ("generation", 2.5, 0.7),
    "sending_s": ("generation", 1.7, 0.5),
    "messages": ("generation", 3e-6, 0.5),
    "kernels": ("backend, generation", 3e-6, 0.4),
    "launches": ("backend", 10e-6, 1.5),
    "sequences": ("backend", 7e-6, 0.8),
    "steps": ("backend", 0.4e-3, 0.8),
    "of this GPU": ("gpu", 1.0, 0.1),
    "entry": ("backend", 15e-3, 1.5),  # seconds before a request is queued
    "of each client": ("backend", 0.1e-3, 1.5),  # seconds, since all begin at once
    "of each token": ("all", 2e-6, 1.0),  # seconds of reading a prompt's text
    "polls": ("backend", 1.0, 1.5),  # decode steps until a new request is looked at
    "burst": ("backend", 1.1, 0.5),  # waiting behind others, beyond what the closed loop says
    "mixing": ("backend", 1.0, 0.5),  # slowing of decoding by prompts, the same
}
STRENGTH = 5.0
"""How many points' worth of error a deviation of one spread from the assumption costs."""
STEPS = 20


def seconds(work: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """As ``Costs.seconds``, of many steps at once."""
    spent = work * costs
    return np.hypot(spent[:, :3].sum(1), spent[:, 3:6].sum(1)) + spent[:, 6:].sum(1)


@dataclass(frozen=True, slots=True)
class Model:
    """Which parameter each point uses; ``predict`` is the whole law."""

    data: Table
    waves: Waves
    names: tuple[str, ...]
    assumed: np.ndarray
    spread: np.ndarray
    used: dict[str, np.ndarray]

    @classmethod
    def of(cls, data: Table, waves: Waves) -> Model:
        names, assumed, spread, used = [], [], [], {}
        for parameter, (column, value, width) in PRIORS.items():
            groups, indices = np.unique(data[column], return_inverse=True)
            used[parameter] = indices + len(names)
            names += [f"{parameter} ({group})" for group in groups]
            assumed += [np.log(value)] * len(groups)
            spread += [width] * len(groups)
        return cls(data, waves, tuple(names), np.array(assumed), np.array(spread), used)

    def predict(self, logs: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Logarithms of time to first token (first half) and time per token of these rows, in seconds."""
        data, values = self.data, np.exp(logs)

        def value(name: str) -> np.ndarray:
            return values[self.used[name][rows]]

        def column(name: str) -> np.ndarray:
            return data[name][rows]

        costs = np.stack([value(name) for name in Work._fields], 1) * value("of this GPU")[:, None]
        step_s, with_prompt_s = (seconds(work[rows], costs) for work in (data.decode, data.prompt))
        prompt_s = np.maximum(with_prompt_s - np.where(column("is_split"), 0.0, step_s), 1e-7)
        is_split, output = column("is_split"), column("output_tokens")
        first, each = self.waves.at(column("batch"), prompt_s / step_s, output, column("prompt_tokens"))
        tpot_s = step_s * np.where(is_split, 1.0, 1 + value("mixing") * (each - 1))
        # Prompts with GPUs of their own: a tenth of them come in the first burst, the others at leisure.
        queue = column("clients") / column("prompt_copies")
        load = np.minimum(queue * prompt_s / (output * tpot_s + prompt_s), 0.95)
        in_line = 0.05 * queue + np.minimum(load / (2 - 2 * load), queue / 2)
        behind_s = np.where(is_split, prompt_s * (1 + in_line), step_s * first) * value("burst")
        own_s = prompt_s * (column("prompt_data") - 1) / 2  # alone in its group, it uses a part of the GPUs
        text_s = value("of each token") * column("prompt_tokens") * (1 + column("clients") / 20)
        entry_s = value("entry") + value("of each client") * column("clients") + text_s
        ttft_s = entry_s + value("polls") * step_s + behind_s + own_s
        # Who finds no room in the cache waits for others to end; who finds no group of GPUs, too.
        turn_s = ttft_s + output * tpot_s
        ttft_s = ttft_s + 0.9 * turn_s * (column("asked") - column("batch")) / column("batch")
        ttft_s = ttft_s + np.where(is_split, np.maximum(queue * prompt_s - turn_s, 0.0), 0.0)
        return np.log(np.concatenate([ttft_s, tpot_s]))

    def measured(self, rows: np.ndarray) -> np.ndarray:
        return np.log(np.concatenate([self.data["ttft_s"][rows], self.data["tpot_s"][rows]]))

    def fit(self, rows: np.ndarray, weights: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
        """Parameters for these rows, each counted with its weight."""
        logs = self.assumed if start is None else start
        truth = self.measured(rows)
        both = np.concatenate([weights, weights])
        errors = self.predict(logs, rows) - truth
        loss, damping = self._loss(logs, errors, both), 1.0
        for _ in range(STEPS):
            slopes = self._slopes(logs, rows, errors + truth)
            tilt = both / np.maximum(np.abs(errors), 0.03)
            weighted = slopes * tilt[:, None]
            curve = weighted.T @ slopes + np.diag(2 * STRENGTH / self.spread**2)
            slope = weighted.T @ errors + 2 * STRENGTH * (logs - self.assumed) / self.spread**2
            before = loss
            while damping < 1e6:
                step = np.linalg.solve(curve + damping * np.diag(np.diag(curve)), -slope)
                tried = logs + np.clip(step, -1, 1)
                tried_errors = self.predict(tried, rows) - truth
                tried_loss = self._loss(tried, tried_errors, both)
                if tried_loss < loss:
                    logs, errors, loss, damping = tried, tried_errors, tried_loss, max(damping / 3, 1e-4)
                    break
                damping *= 4
            if before - loss < 1e-3 * before:
                break
        return logs

    def _loss(self, logs: np.ndarray, errors: np.ndarray, weights: np.ndarray) -> float:
        pull = STRENGTH * ((logs - self.assumed) ** 2 / self.spread**2).sum()
        return float((weights * np.abs(errors)).sum() + pull)

    def _slopes(self, logs: np.ndarray, rows: np.ndarray, here: np.ndarray) -> np.ndarray:
        slopes = np.empty((len(here), len(logs)))
        for index in range(len(logs)):
            moved = logs.copy()
            moved[index] += 1e-3
            slopes[:, index] = (self.predict(moved, rows) - here) / 1e-3
        return slopes
