"""The same load while what the controller is told gets lost, goes stale or is no number: 0 to 100 % of it.

Pages are the engines' metrics, reports the gateways' figures. For each the share lost, in random seconds; then both
sources broken in other ways for the whole run. Beside the promise it is counted how often the number of replicas was
lowered while a report had been missing for longer than a gateway may be silent.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from benchmarks.fleet.frame import Asked
from benchmarks.fleet.worlds import scenario, setup, trace_of
from tidegate.core.fleet.heard import SILENT_AFTER_S
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import Pool
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import ColdStart
from tidegate.sim.faults import Fault, FaultKind
from tidegate.sim.scenario import Scraping
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate

M = ModelId("m")
SHARES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
POINTS = 0.02
UPTO = 0.4
BROKEN = {"stale pages": FaultKind.STALE_METRICS, "pages of NaN": FaultKind.NAN_METRICS}


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    span_s = 3600.0 if asked.size == "full" else 1200.0
    cases = [(what, share) for what in ("pages lost", "reports lost") for share in SHARES]
    cases += [(what, 1.0) for what in BROKEN]
    answers = asked.in_order(played, [(what, share, span_s) for what, share in cases], "blind")
    found = {f"{what}, {share:.0%}": answer for (what, share), answer in zip(cases, answers, strict=True)}
    sound = answers[0]["attainment"]
    asked.say(
        f"  {'what':<16}{'share':>7}{'promise kept':>14}{'points lost':>13}{'replica-hours':>15}{'blind shrinks':>15}"
    )
    for (what, share), answer in zip(cases, answers, strict=True):
        asked.say(
            f"  {what:<16}{100 * share:>5.0f} %{100 * answer['attainment']:>12.2f} %"
            f"{100 * (sound - answer['attainment']):>13.2f}{answer['replica_hours']:>15.2f}{answer['blind_shrinks']:>15.0f}"
        )
    worst = max(
        sound - a["attainment"] for (_, share), a in zip(cases, answers, strict=True) if share <= UPTO
    )
    shrinks = sum(answer["blind_shrinks"] for answer in answers)
    asked.say(
        f"  at most {100 * worst:.2f} points up to {100 * UPTO:g} % (goal {100 * POINTS:g}); {shrinks:.0f} blind shrinks"
    )
    return {
        "cases": found,
        "worst_points": 100 * worst,
        "goal_points": 100 * POINTS,
        "blind_shrinks": shrinks,
    }


def lost(share: float, span_s: float, dice: random.Random) -> tuple[Fault, ...]:
    """Seconds in which no report arrives; in runs of 5 s on the mean, as networks lose them."""
    if share <= 0:
        return ()
    if share >= 1:
        return (Fault(kind=FaultKind.NO_REPORTS, at_s=60.0),)
    faults, at_s = [], 60.0
    while at_s < span_s:
        gone_s = dice.expovariate(1 / 5.0)
        faults.append(Fault(kind=FaultKind.NO_REPORTS, at_s=at_s, for_s=gone_s))
        at_s += gone_s + dice.expovariate(share / (1 - share) / 5.0)
    return tuple(faults)


def played(task: tuple[str, float, float]) -> dict[str, float]:
    """One run: a tide up and down, twice."""
    what, share, span_s = task
    dice = random.Random(7)
    at_s, rows = 0.0, []
    while True:
        rate = 9.0 - 6.0 * math.cos(4 * math.pi * at_s / span_s)
        at_s += dice.expovariate(rate)
        if at_s >= span_s:
            break
        rows.append((at_s, dice.randint(200, 1500), dice.randint(50, 400)))
    scaling = Scaling(
        ScalingPolicy.TIDAL,
        min_replicas=1,
        max_replicas=12,
        window_s=30.0,
        scale_down_delay_s=60.0,
        concurrency_target=16,
    )
    world = scenario({M: setup(scaling, Pool(), ColdStart(engine_start_s=30.0))})
    faults: tuple[Fault, ...] = ()
    if what == "reports lost":
        faults = lost(share, span_s, random.Random(3))
    elif what in BROKEN:
        faults = (Fault(kind=BROKEN[what], at_s=60.0),)
    scraping = Scraping(loss_ratio=share if what == "pages lost" else 0.0)
    done = simulate(trace_of(rows), replace(world, faults=faults, scraping=scraping), 1)
    figures = summarize(done)
    deaf = [fault for fault in faults if fault.kind is FaultKind.NO_REPORTS]
    shrinks = sum(
        decision.desired < decision.before
        and any(fault.is_on(at) and at > fault.at_s + SILENT_AFTER_S + 1 for fault in deaf)
        for at, decision in done.decisions
    )
    return {
        "attainment": figures.attainment,
        "replica_hours": figures.replica_hours,
        "blind_shrinks": float(shrinks),
        "requests": float(len(rows)),
    }
