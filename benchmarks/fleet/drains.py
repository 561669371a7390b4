"""Scale-downs under streams of 1 to 300 s: every stream that a leaving replica has goes on to its end."""

from __future__ import annotations

import math
import random
from typing import Any

from benchmarks.fleet.frame import Asked
from benchmarks.fleet.wakes import Counted
from benchmarks.fleet.worlds import CLOCKWORK, scenario, setup, trace_of
from tidegate.core.outcomes import Outcome
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import Pool
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import ColdStart
from tidegate.sim.world import simulate

DOWNS = 10_000
SMALL = 1_000
A_BURST = 9
"""Replicas that go in each burst, of ten."""
STREAMS = 40
M = ModelId("m")
POOLS = {
    "drained and stopped": Pool(),
    "demoted, then asleep": Pool(max_warm=2, max_sleeping=8, sleep_after_s=0.0),
}


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    downs = DOWNS if asked.size == "full" else SMALL
    runs = max(2, downs // 500)
    bursts = math.ceil(downs / runs / A_BURST) + 1
    tasks = [(name, seed, bursts) for seed in range(runs // 2) for name in POOLS]
    answers = asked.in_order(played, tasks, "drains")
    found: dict[str, Any] = {}
    asked.say(f"  {'how':<22}{'scale-downs':>12}{'under streams':>15}{'streams':>9}{'errors':>8}{'cut':>5}")
    for name in POOLS:
        own = [answer for task, answer in zip(tasks, answers, strict=True) if task[0] == name]
        row = {key: sum(answer[key] for answer in own) for key in own[0]}
        found[name] = row
        asked.say(
            f"  {name:<22}{row['downs']:>12}{row['busy']:>15}{row['streams']:>9}{row['errors']:>8}{row['cut']:>5}"
        )
    total = {
        key: sum(row[key] for row in found.values()) for key in ("downs", "busy", "streams", "errors", "cut")
    }
    asked.say(f"  {total['errors']} client-visible errors in {total['downs']} scale-downs")
    return {**total, "ways": found}


class Watched(Counted):
    """Also counts those that leave while somebody is served there."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = self.downs = 0
        self._loads: dict[str, int] = {}
        self._states: dict[str, str] = {}

    def turn(self, brain: str, now_s: float, event: Any, effects: Any) -> None:
        """Look at what every table says has begun to leave."""
        super().turn(brain, now_s, event, effects)
        if brain != "fleet":
            return
        report = getattr(event, "report", None)
        if report is not None:
            self._loads = {load.replica_id: load.in_flight for load in report.replicas}
        for effect in effects:
            if type(effect).__name__ != "PublishRoutes":
                continue
            states = {route.replica_id: route.state.value for route in effect.table.routes}
            for name, state in states.items():
                if state in ("draining", "warm") and self._states.get(name) == "serving":
                    self.downs += 1
                    self.busy += self._loads.get(name, 0) > 0
            self._states = states


def played(task: tuple[str, int, int]) -> dict[str, int]:
    """Burst after burst of streams with random lengths; the fleet shrinks as they end."""
    name, seed, bursts = task
    dice = random.Random(seed)
    rows = []
    for burst in range(bursts):
        for _ in range(STREAMS):
            stream_s = math.exp(dice.uniform(0.0, math.log(300.0)))
            rows.append((400.0 * burst + dice.uniform(0, 2), 50, round(stream_s * 50)))
    rows.sort()
    scaling = Scaling(
        ScalingPolicy.CONCURRENCY, 0, 10, window_s=1.0, scale_down_delay_s=2.0, concurrency_target=4
    )
    cold = ColdStart(engine_start_s=2.0, wake_s=0.5, sleep_s=0.5, sigma=0.3)
    model = setup(scaling, POOLS[name], cold, slots=4, law=CLOCKWORK, drain_deadline_s=400.0)
    journal = Watched()
    done = simulate(trace_of(rows), scenario({M: model}, settle_s=60.0), seed, journal)
    completed = done.tally.counts().get(Outcome.COMPLETED, 0)
    return {
        "downs": journal.downs,
        "busy": journal.busy,
        "streams": len(rows),
        "errors": len(rows) - completed,
        "cut": done.tally.retries,
    }
