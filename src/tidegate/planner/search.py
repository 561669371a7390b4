"""The search for settings: a tree-structured Parzen estimator over two aims, cost and promise.

Optuna's multi-objective TPE (Ozaki et al., Multiobjective Tree-Structured Parzen Estimator, JAIR 73, 2022) proposes,
processes judge. Proposals are asked for in rows of a fixed length and told in their order, so a seed gives the same
search on one core and on many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tidegate.core.scaling_settings import ScalingPolicy
from tidegate.planner.trial import BY_CONCURRENCY, BY_PROMISE, Ground, Settings
from tidegate.sim.fluid import Score

ROW = 8
"""Proposals that are made before the first of them is judged."""
STARTUP = 24
"""Drawn evenly before the estimator is asked."""
ROOM = 2
"""``max_replicas`` is never less than so many times what the busiest minute tuned on needs."""

_ground: Ground | None = None
"""Of a process that judges."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Settings and what they came to on the part that is tuned on."""

    number: int
    settings: Settings
    score: Score


def search(
    ground: Ground,
    policies: Sequence[ScalingPolicy],
    current: Settings,
    trials: int,
    jobs: int,
    seed: int,
    progress: Callable[[int], None],
) -> list[Tried]:
    """Everything that was tried, the settings as they are first. ``progress`` is told how many are judged.

    Raises:
        ImportError: optuna is not installed.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Each setting is estimated by itself: only some laws read some of them.
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP)
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    space = Space(ground, policies, current)
    tried: list[Tried] = []
    with ExitStack() as stack:
        judge_all = judges(stack, ground, jobs)
        tried.append(Tried(0, current, next(judge_all([current]))))
        while len(tried) < trials:
            row = [study.ask() for _ in range(min(ROW, trials - len(tried)))]
            wanted = [space.suggest(trial) for trial in row]
            for trial, settings, score in zip(row, wanted, judge_all(wanted), strict=True):
                study.tell(trial, [score.spent, score.attainment])
                tried.append(Tried(len(tried), settings, score))
                progress(len(tried))
    return tried


class Space:
    """What may be proposed."""

    def __init__(self, ground: Ground, policies: Sequence[ScalingPolicy], current: Settings) -> None:
        self._names = [policy.value for policy in policies]
        self._slots = ground.scenario.models[ground.model].fleet.slots
        self._peak = max(1, ground.most_needed)
        # Whoever is told of twice the traffic can still answer it; and nobody's ceiling is lowered for one quiet trace.
        self._room = max(ROOM * self._peak, current.max_replicas)

    def suggest(self, trial: Any) -> Settings:
        """Settings in the ranges that make sense for this load; only those that the law reads are drawn."""
        policy = ScalingPolicy(trial.suggest_categorical("policy", self._names))
        target: float | None = None
        margin = 1.0
        if policy in BY_CONCURRENCY:
            target = max(1.0, round(trial.suggest_float("target", 0.1, 1.0) * self._slots))
        if policy in BY_PROMISE:
            margin = trial.suggest_float("margin", 0.3, 1.0)
        return Settings(
            policy=policy,
            min_replicas=trial.suggest_int("min_replicas", 0, max(1, round(0.75 * self._peak))),
            max_replicas=trial.suggest_int("max_replicas", self._room, self._room + self._peak + 2),
            window_s=round(trial.suggest_float("window_s", 5.0, 300.0, log=True)),
            scale_down_delay_s=round(trial.suggest_float("scale_down_delay_s", 10.0, 1_800.0, log=True)),
            concurrency_target=target,
            margin=round(margin, 2),
        )


def judges(stack: ExitStack, ground: Ground, jobs: int) -> Callable[[list[Settings]], Iterator[Score]]:
    """Something that judges a row, in order, here or in processes that each hold the load."""
    if jobs <= 1:
        return lambda row: map(ground.judge, row)
    pool = stack.enter_context(ProcessPoolExecutor(jobs, initializer=_begin, initargs=(ground,)))
    return lambda row: pool.map(_judge, row)


def _begin(ground: Ground) -> None:
    global _ground
    _ground = ground


def _judge(settings: Settings) -> Score:
    assert _ground is not None
    return _ground.judge(settings)
