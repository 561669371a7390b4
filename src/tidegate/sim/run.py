"""What a run leaves behind; ``summary``, ``chart`` and ``needs`` make figures of it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.effects import Decision, Shadowed
from tidegate.sim.pace import Pace
from tidegate.sim.provision import Provision
from tidegate.sim.scenario import Scenario
from tidegate.sim.series import Series
from tidegate.sim.tally import Tally
from tidegate.workload.traces import Trace


@dataclass(frozen=True, slots=True)
class Run:
    """One run."""

    trace: Trace
    scenario: Scenario
    seed: int
    tally: Tally
    provision: Provision
    gpu_seconds: dict[str, float]
    """In which GPUs carried anything, by node; empty where the controller knows none."""
    pace: Pace
    series: Series
    decisions: tuple[tuple[float, Decision], ...]
    """Every decision and when it was made."""
    shadows: tuple[Shadowed, ...]
    """How each model's second policy stood at the end, where there is one."""
    launches: int
    cold_starts_s: tuple[float, ...]
    """From launch to ready, of each replica that got there."""
    simulated_s: float
    turns: int
    """Of both brains."""
