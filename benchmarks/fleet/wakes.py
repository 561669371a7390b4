"""Requests that come while the last replica goes: idle, draining, on its way to sleep, asleep, gone. None may be lost.

Each request is a race: the time from one to the next is drawn around the idle time, so about every other one meets a
replica that is being taken away. Starts, wake-ups and falling asleep take random times. Where the model may be run in two
ways, some of the requests come by the dozen: more than the cheaper variant takes at once.
"""

from __future__ import annotations

import random
from math import ceil
from typing import Any

from benchmarks.fleet.frame import Asked
from benchmarks.fleet.worlds import CLOCKWORK, scenario, setup, trace_of, with_variant
from tidegate.core.outcomes import Outcome
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import Pool, Variant
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import ColdStart
from tidegate.sim.world import simulate

RACES = 100_000
SMALL = 8_000
M = ModelId("m")
TIERS = {
    "cold": Pool(),
    "asleep": Pool(max_sleeping=1, sleep_after_s=0.0, expected_wake_s=1.0),
    "warm, then asleep": Pool(max_warm=1, max_sleeping=1, sleep_after_s=0.5, warm_ttl_s=2.0),
    "warm, then gone": Pool(max_warm=1, warm_ttl_s=1.0),
    "asleep, two variants": Pool(max_sleeping=2, sleep_after_s=0.0, expected_wake_s=1.0),
    "warm, two variants": Pool(max_warm=1, max_sleeping=2, sleep_after_s=0.5, warm_ttl_s=2.0),
}
SMALL_ONE = Variant("small", slots=4, gpus=1, price_per_h=1.0, expected_start_s=2.0)
VARIED = ("asleep, two variants", "warm, two variants")
CHUNK = 2_500


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    races = RACES if asked.size == "full" else SMALL
    tasks = [(tier, seed) for tier in TIERS for seed in range(max(1, races // CHUNK // len(TIERS)))]
    size = ceil(races / len(tasks))
    answers = asked.in_order(played, [(tier, seed, size) for tier, seed in tasks], "wakes")
    found: dict[str, Any] = {}
    asked.say(
        f"  {'tier':<22}{'races':>8}{'lost':>6}{'starts':>8}{'wakes':>8}{'promotions':>12}{'longest wait':>14}"
    )
    for tier in TIERS:
        own = [answer for (name, _), answer in zip(tasks, answers, strict=True) if name == tier]
        row = {
            key: sum(answer[key] for answer in own)
            for key in ("races", "lost", "starts", "wakes", "promotions")
        }
        row["longest_s"] = max(answer["longest_s"] for answer in own)
        found[tier] = row
        asked.say(
            f"  {tier:<22}{row['races']:>8}{row['lost']:>6}{row['starts']:>8}{row['wakes']:>8}"
            f"{row['promotions']:>12}{row['longest_s']:>12.1f} s"
        )
    lost, races = (sum(row[key] for row in found.values()) for key in ("lost", "races"))
    asked.say(f"  {lost} of {races} lost")
    return {"races": races, "lost": lost, "tiers": found}


class Counted:
    """A journal that counts orders."""

    def __init__(self) -> None:
        self.orders: dict[str, int] = {}

    def turn(self, brain: str, now_s: float, event: object, effects: Any) -> None:
        """Count them."""
        if brain == "fleet":
            for effect in effects:
                name = type(effect).__name__
                self.orders[name] = self.orders.get(name, 0) + 1


def played(task: tuple[str, int, int]) -> dict[str, Any]:
    """One run of races."""
    tier, seed, count = task
    dice = random.Random(seed)
    at_s, rows = 0.0, []
    while len(rows) < count:
        at_s += dice.choice([dice.uniform(0.0, 6.0), dice.gauss(2.2, 0.3), dice.gauss(3.2, 0.3)])
        together = dice.choice([1, 1, 1, 12]) if tier in VARIED else 1
        rows += [
            (max(0.0, at_s), 20, dice.choice([1, 5, 40])) for _ in range(min(together, count - len(rows)))
        ]
    rows.sort()
    most = 3 if tier in VARIED else 1
    scaling = Scaling(
        ScalingPolicy.CONCURRENCY, 0, most, window_s=0.5, scale_down_delay_s=dice.choice([0.0, 1.0, 2.0])
    )
    cold = ColdStart(engine_start_s=2.0, wake_s=0.7, sleep_s=0.5, sigma=0.6)
    model = setup(scaling, TIERS[tier], cold, law=CLOCKWORK)
    if tier in VARIED:
        model = with_variant(model, SMALL_ONE, CLOCKWORK)
    journal = Counted()
    done = simulate(trace_of(rows), scenario({M: model}), seed, journal)
    completed = done.tally.counts().get(Outcome.COMPLETED, 0)
    return {
        "races": count,
        "lost": count - completed,
        "starts": journal.orders.get("Launch", 0),
        "wakes": journal.orders.get("Wake", 0),
        "promotions": journal.orders.get("Promote", 0),
        "longest_s": max(done.tally.ttft_s),
    }
