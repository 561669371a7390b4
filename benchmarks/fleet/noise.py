"""No flapping: a load that swings by 30 % around a level, many times a minute or once in ten seconds.

Also a day with as little traffic as one or two replicas need: how often the fleet goes from two to one and back.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.fleet.engines import MODEL, fleet
from benchmarks.fleet.field import SLO
from benchmarks.fleet.frame import Asked
from benchmarks.fleet.laws import entries, known
from tidegate.core.scaling_settings import Scaling
from tidegate.sim.fluid import flow, load_of_rates, scored
from tidegate.sim.kernel import SeededDice
from tidegate.sim.needs import full_replica
from tidegate.sim.summary import REVERSAL_WITHIN_S

LENGTHS = (1000.0, 200.0)
SWING = 0.3
AIM_PER_H = 2.0
SLOT_S = 0.5
"""Half the shortest period cannot be seen any slower."""


@dataclass(frozen=True, slots=True)
class Row:
    """One law."""

    law: str
    reversals_per_h: dict[str, float]
    """By the swings' frequency."""
    cycles_in_24_h: int
    """From two replicas to one and back within ten minutes."""


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    names = list(dict.fromkeys(entry.law for entry in _entries()))
    hours = 1.0 if asked.size == "small" else 4.0
    rows = asked.in_order(play, [(law, hours) for law in names], "noise")
    asked.say(f"{'law':<14}{'reversals/h at 1 Hz':>20}{'0.1 Hz':>8}{'2<->1 in 24 h':>15}")
    for row in rows:
        by = row.reversals_per_h
        asked.say(f"{row.law:<14}{by['1']:>20.1f}{by['0.1']:>8.1f}{row.cycles_in_24_h:>15}")
    return {"aim_per_h": AIM_PER_H, "rows": [asdict(row) for row in rows]}


def play(task: tuple[str, float]) -> Row:
    """One law's row, by its middle setting."""
    law, hours = task
    own = [entry for entry in _entries() if entry.law == law]
    scaling = own[len(own) // 2].scaling
    return Row(law, {f"{hz:g}": _reversals(scaling, hz, hours) for hz in (1.0, 0.1)}, _cycles(scaling))


def _entries() -> Any:
    setup = fleet(Scaling(max_replicas=1)).models[MODEL]
    return entries(SLO, known(setup, SLO, *LENGTHS), most=24)


def _reversals(scaling: Scaling, hz: float, hours: float) -> float:
    rate = 6.0 * _full_rate()
    load = load_of_rates(
        lambda at_s: rate * (1.0 + SWING * math.sin(2 * math.pi * hz * at_s + 0.1)),
        lambda _: LENGTHS,
        hours * 3600.0,
        SLOT_S,
        SeededDice(4),
    )
    return scored(flow({MODEL: load}, fleet(scaling, slo=SLO, running=8))).reversals_per_h


def _cycles(scaling: Scaling) -> int:
    """A day at what one replica just carries, a third more or less from minute to minute."""
    dice = SeededDice(6)
    levels = [_full_rate() * (0.85 + 0.5 * (dice.uniform() - 0.5)) for _ in range(1440)]
    load = load_of_rates(
        lambda at_s: levels[int(at_s // 60) % 1440], lambda _: LENGTHS, 86_400.0, 5.0, SeededDice(5)
    )
    run = flow({MODEL: load}, fleet(scaling, slo=SLO, running=2))
    down_s, cycles = None, 0
    for at_s, decision in run.decisions:
        if decision.before == 2 and decision.desired == 1:
            down_s = at_s
        elif decision.before == 1 and decision.desired >= 2 and down_s is not None:
            cycles += at_s - down_s <= REVERSAL_WITHIN_S
            down_s = None
    return cycles


def _full_rate() -> float:
    setup = fleet(Scaling(max_replicas=1)).models[MODEL]
    return full_replica(setup, SLO, *LENGTHS).requests_per_s
