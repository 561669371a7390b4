"""Every law by name on public days and on shapes of our own, at several cold starts.

Each law is tuned on the last of days 1-7: of its settings the cheapest that keeps 99 % there, or the one that keeps most.
What is printed is what that setting does on days 8-14: with each seed it begins a day later, and all arrivals are
drawn anew. A rival beats ours when it keeps as much at no more hours, and one of
the two is better. At equal promise: hours of ours by those of the cheapest rival that keeps no less than ours does
(or 99 %, when ours keeps more than that).
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from benchmarks.fleet import loads
from benchmarks.fleet.engines import MODEL, fleet
from benchmarks.fleet.frame import Asked
from benchmarks.fleet.laws import Entry, entries, known, ours, rivals
from tidegate.core.scaling_settings import Scaling
from tidegate.sim.fluid import Load, flow, oracle_of_load, scored
from tidegate.sim.fluid.score import Score
from tidegate.sim.kernel import SeededDice
from tidegate.sim.scenario import Slo

GOAL = 0.99
REPLICAS = 6.0
MOST = 12.0
"""Times that: no load needs so many, so that no maximum decides."""
SLOT_S = 5.0
LEAST_S = 4 * 3_600.0
"""Short days are at least so many that they last as long."""
SLO = Slo(ttft_s=2.0, tpot_s=0.05)
NEAR = 0.001
"""Of the promise: less is no difference."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is played."""

    colds_s: tuple[float, ...]
    seeds: int
    longest_day_s: float
    """A day that is recorded as longer passes the faster."""
    days: int
    """Of the seven to tune on, the last; of the seven to report, from a day that goes by the seed on."""


SIZES = {
    "small": Size((120.0,), 1, 3_600.0, 2),
    "medium": Size((5.0, 45.0, 120.0, 300.0), 5, 7_200.0, 1),
    "full": Size((5.0, 45.0, 120.0, 300.0), 5, 86_400.0, 7),
}


@dataclass(frozen=True, slots=True)
class Task:
    """One law's turn on one load."""

    shape: str
    cold_s: float
    size: str
    law: str


@dataclass(frozen=True, slots=True)
class Result:
    """What the tuned setting did on the days to report."""

    shape: str
    cold_s: float
    seed: int
    law: str
    setting: str
    kept: float
    hours: float
    reversals_per_h: float
    regret: float


def run(asked: Asked) -> dict[str, Any]:
    """The tables and their figures."""
    size = SIZES[asked.size]
    every = list(dict.fromkeys(entry.law for entry in settings_of("ramp")))
    mine = ours(every)
    names = [mine, *rivals(every)]
    tasks = [
        Task(shape, cold_s, asked.size, law)
        for shape in asked.loads
        for cold_s in size.colds_s
        for law in names
    ]
    asked.say(
        f"{len(asked.loads)} loads, cold starts of {', '.join(f'{c:g}' for c in size.colds_s)} s, {size.seeds} seed(s), "
        f"{len(names)} laws; a day lasts {size.longest_day_s:,.0f} s at most, {size.days} tuned on and {size.days} reported; "
        f"about {REPLICAS:g} replicas needed; TTFT {SLO.ttft_s:g} s, TPOT {SLO.tpot_s * 1e3:g} ms"
    )
    results: list[Result] = []
    for done, (_, found) in enumerate(asked.each(play, tasks, "field"), 1):
        results += found
        if done % len(names) == 0:
            print(f"field: {done} of {len(tasks)}", file=sys.stderr, flush=True)
    table = _by_law(asked, results, names)
    verdicts = _verdicts(asked, results, mine, rivals(names))
    return {
        "slo": asdict(SLO),
        "size_played": asdict(size),
        "ours": mine,
        "laws": table,
        **verdicts,
        "results": [asdict(result) for result in results],
    }


# ---- one law on one case ----


def play(task: Task) -> list[Result]:
    """Tune on the first part, report on the second; a result for each seed."""
    size = SIZES[task.size]
    chosen = _tuned([entry for entry in settings_of(task.shape) if entry.law == task.law], task)
    results = []
    for seed in range(1, size.seeds + 1):
        score = _score(chosen, parts(task.shape, seed, size)[1], task, seed)
        results.append(
            Result(
                task.shape,
                task.cold_s,
                seed,
                task.law,
                chosen.setting,
                score.attainment,
                score.replica_hours,
                score.reversals_per_h,
                score.regret or 0.0,
            )
        )
    return results


def _tuned(own: list[Entry], task: Task) -> Entry:
    """The cheapest that keeps the goal, or the one that keeps most."""
    if len(own) == 1:
        return own[0]
    tuned_on, _ = parts(task.shape, 1, SIZES[task.size])
    tried = [_score(entry, tuned_on, task, 1) for entry in own]
    good = [(score.replica_hours, number) for number, score in enumerate(tried) if score.attainment >= GOAL]
    return own[min(good)[1] if good else max(range(len(tried)), key=lambda n: tried[n].attainment)]


def _score(entry: Entry, load: Load, task: Task, seed: int) -> Score:
    running = max(1, round(REPLICAS))
    scenario = fleet(entry.scaling, cold_start_s=task.cold_s, slo=SLO, running=running)
    oracle = oracle_of_load(load, scenario.models[MODEL], SLO)
    return scored(flow({MODEL: load}, scenario, seed=seed), oracle)


@lru_cache(maxsize=8)
def parts(shape: str, seed: int, size: Size) -> tuple[Load, Load]:
    """The days to tune on and those to report."""
    setup = fleet(Scaling(max_replicas=1)).models[MODEL]
    made = loads.SHAPES[shape]
    day_s = min(size.longest_day_s, made(size.longest_day_s).day_s)
    whole = loads.load(
        made(day_s), setup, SLO, replicas=REPLICAS, day_s=day_s, slot_s=SLOT_S, dice=SeededDice(seed)
    )
    tuned_on, reported = loads.tuned_part(whole, day_s), loads.reported_part(whole, day_s)
    span_s = max(min(LEAST_S, size.days * size.longest_day_s), size.days * day_s)
    first_s = (seed - 1) * day_s % max(day_s, reported.span_s - span_s + 1.0)
    return tuned_on.between(tuned_on.span_s - span_s, math.inf), reported.between(first_s, first_s + span_s)


@lru_cache(maxsize=16)
def settings_of(shape: str) -> tuple[Entry, ...]:
    setup = fleet(Scaling(max_replicas=1)).models[MODEL]
    lengths = loads.SHAPES[shape](3_600.0).lengths(5.0)
    return tuple(entries(SLO, known(setup, SLO, *lengths), most=round(MOST * REPLICAS)))


# ---- all of them ----


def _by_law(asked: Asked, results: list[Result], names: list[str]) -> list[dict[str, Any]]:
    """A row for each law: medians over all cases."""
    asked.say(
        f"{'law':<14}{'kept, median':>13}{'least':>8}{'at 99 %':>9}{'hours by oracle':>17}{'reversals/h':>13}"
    )
    rows: list[dict[str, Any]] = []
    for law in names:
        own = [result for result in results if result.law == law]
        row: dict[str, Any] = {
            "law": law,
            "kept_median": median(result.kept for result in own),
            "kept_least": min(result.kept for result in own),
            "cases_at_goal": sum(result.kept >= GOAL - NEAR for result in own),
            "cases": len(own),
            "regret_median": median(result.regret for result in own),
            "reversals_per_h": median(result.reversals_per_h for result in own),
        }
        rows.append(row)
        asked.say(
            f"{law:<14}{row['kept_median']:>13.2%}{row['kept_least']:>8.1%}{row['cases_at_goal']:>5} of {len(own):<3}"
            f"{1 + row['regret_median']:>14.2f}{row['reversals_per_h']:>13.1f}"
        )
    return rows


def _verdicts(asked: Asked, results: list[Result], mine: str, others: list[str]) -> dict[str, Any]:
    beaten: list[dict[str, Any]] = []
    ratios: list[float] = []
    asked.say(
        f"{'load':<12}{'cold':>5}{'seed':>5}{'kept':>8}{'hours':>9}{'regret':>8}  cheapest rival that keeps as much"
    )
    for own in (result for result in results if result.law == mine):
        case = [r for r in results if (r.shape, r.cold_s, r.seed) == (own.shape, own.cold_s, own.seed)]
        against = [r for r in case if r.law in others]
        beaten += [asdict(r) for r in against if beats(r, own)]
        floor = min(own.kept, GOAL) - NEAR
        equal = min((r for r in against if r.kept >= floor), key=lambda r: r.hours, default=None)
        said = "none"
        if equal is not None:
            ratios.append(own.hours / equal.hours)
            said = f"{equal.law} ({equal.setting}): {equal.kept:.2%} at {equal.hours:.1f} h, ours {ratios[-1] - 1:+.0%}"
        asked.say(
            f"{own.shape:<12}{own.cold_s:>5g}{own.seed:>5}{own.kept:>8.2%}{own.hours:>9.1f}{own.regret:>+8.0%}  {said}"
        )
    cases = sum(result.law == mine for result in results)
    middle = median(ratios) if ratios else None
    asked.say(
        f"{mine}: a rival keeps as much at no more hours {len(beaten)} times in {cases} cases x {len(others)} rivals; "
        + (
            "no rival to compare hours with"
            if middle is None
            else f"hours at equal promise, median of {len(ratios)}: {middle - 1:+.0%}"
        )
    )
    return {"beaten": beaten, "cases": cases, "ratio_median": middle, "ratios": ratios}


def beats(rival: Result, own: Result) -> bool:
    """It keeps as much at no more hours, and one of the two is better by more than nothing."""
    is_no_worse = rival.kept >= own.kept - NEAR and rival.hours <= own.hours * 1.001
    return is_no_worse and (rival.kept > own.kept + NEAR or rival.hours < own.hours * 0.999)
