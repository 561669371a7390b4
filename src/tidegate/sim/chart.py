"""A run over time, in a few hundred slots: what the page and the picture show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite

from tidegate.core.windows import percentile
from tidegate.sim.provision import Phase
from tidegate.sim.run import Run
from tidegate.sim.scenario import Slo
from tidegate.sim.tally import COMPLETED

SLOTS = 300
NICE_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class Mark:
    """A decision that changed a number."""

    at_s: float
    model: str
    before: int
    desired: int
    because: str
    held_by: str | None


@dataclass(frozen=True, slots=True)
class Chart:
    """One value a slot in each list; None where there is nothing to show."""

    policy: str
    slo: Slo
    slot_s: float
    arrivals_per_s: list[float]
    kept_ratio: list[float | None]
    """Of the requests that arrived in the slot, the share that kept the promise."""
    lost_ratio: list[float | None]
    """And the share that never got an answer."""
    ttft_p50_s: list[float | None]
    ttft_p95_s: list[float | None]
    queued: list[int]
    in_flight: list[int]
    replicas: dict[str, list[float]]
    """Mean number in each phase."""
    desired: list[int]
    marks: list[Mark]

    @property
    def slots(self) -> int:
        return len(self.arrivals_per_s)


def chart_of(run: Run, policy: str, slots: int = SLOTS) -> Chart:
    """The run in at most so many slots of a length that people like."""
    slot_s = nice_slot(run.simulated_s, slots)
    count = max(1, ceil(run.simulated_s / slot_s))
    arrived, kept, lost, p50, p95 = _requests(run, slot_s, count)
    queued, in_flight = _load(run, slot_s, count)
    return Chart(
        policy=policy,
        slo=run.scenario.slo,
        slot_s=slot_s,
        arrivals_per_s=arrived,
        kept_ratio=kept,
        lost_ratio=lost,
        ttft_p50_s=p50,
        ttft_p95_s=p95,
        queued=queued,
        in_flight=in_flight,
        replicas={
            phase.value: step_means(
                run.provision.at_s, run.provision.counts[phase], slot_s, count, run.simulated_s
            )
            for phase in Phase
        },
        desired=_desired(run, slot_s, count),
        marks=[
            Mark(at_s, decision.model, decision.before, decision.desired, decision.because, decision.held_by)
            for at_s, decision in run.decisions
            if decision.desired != decision.before and at_s > 0  # at 0 it says what it began with
        ],
    )


def nice_slot(span_s: float, slots: int) -> float:
    """The shortest nice slot with which so many are enough."""
    return float(next((nice for nice in NICE_S if nice * slots >= span_s), ceil(span_s / slots)))


def step_means(
    at_s: Sequence[float], counts: Sequence[int], slot_s: float, slots: int, end_s: float
) -> list[float]:
    """Mean of a step function over each slot; the last slot ends where the run does."""
    sums = [0.0] * slots
    for place, (from_s, number) in enumerate(zip(at_s, counts, strict=True)):
        until_s = min(at_s[place + 1] if place + 1 < len(at_s) else end_s, end_s)
        if not number or until_s <= from_s:
            continue
        for slot in range(int(from_s // slot_s), min(slots, int(until_s // slot_s) + 1)):
            part_s = min(until_s, (slot + 1) * slot_s) - max(from_s, slot * slot_s)
            sums[slot] += number * max(0.0, part_s)
    return [
        total / (min((slot + 1) * slot_s, end_s) - slot * slot_s or 1.0) for slot, total in enumerate(sums)
    ]


_Columns = tuple[list[float], list[float | None], list[float | None], list[float | None], list[float | None]]


def _requests(run: Run, slot_s: float, count: int) -> _Columns:
    """By slot of arrival: rate, shares kept and lost, TTFT median and 95th percentile."""
    slo, tally = run.scenario.slo, run.tally
    ttft_s: list[list[float]] = [[] for _ in range(count)]
    kept, lost = [0] * count, [0] * count
    pace_s = tally.tpot_s(run.trace.output_tokens)
    rows = zip(run.trace.arrived_s, tally.ttft_s, pace_s, tally.outcomes, strict=True)
    for at_s, first_s, pace, outcome in rows:
        slot = min(count - 1, int(at_s // slot_s))
        ttft_s[slot].append(first_s)
        kept[slot] += outcome == COMPLETED and first_s <= slo.ttft_s and pace <= slo.tpot_s
        lost[slot] += first_s == inf
    for values in ttft_s:
        values.sort()
    return (
        [len(values) / slot_s for values in ttft_s],
        [kept[slot] / len(values) if values else None for slot, values in enumerate(ttft_s)],
        [lost[slot] / len(values) if values else None for slot, values in enumerate(ttft_s)],
        [_shown(percentile(values, 0.50)) for values in ttft_s],
        [_shown(percentile(values, 0.95)) for values in ttft_s],
    )


def _shown(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _load(run: Run, slot_s: float, count: int) -> tuple[list[int], list[int]]:
    """The largest queue and the largest number in flight in each slot."""
    queued, in_flight = [0] * count, [0] * count
    for at_s, waits, runs in zip(run.series.at_s, run.series.queued, run.series.in_flight, strict=True):
        slot = min(count - 1, int(at_s // slot_s))
        queued[slot] = max(queued[slot], waits)
        in_flight[slot] = max(in_flight[slot], runs)
    return queued, in_flight


def _desired(run: Run, slot_s: float, count: int) -> list[int]:
    """What all models together wanted at the end of each slot."""
    moments: list[float] = []
    totals: list[int] = []
    by_model: dict[str, int] = {}
    for at_s, decision in run.decisions:
        by_model[decision.model] = decision.desired
        moments.append(at_s)
        totals.append(sum(by_model.values()))
    places = (bisect_right(moments, (slot + 1) * slot_s) for slot in range(count))
    return [totals[place - 1] if place else 0 for place in places]
