"""What one gateway last said of one model: checked, and kept where it has stopped making sense."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from tidegate.core.fleet.scaling.past import Totals
from tidegate.core.types import LatencySummary, ModelDemand

SILENT_AFTER_S = 10.0
"""A gateway reports about once a second. One that has missed ten is not heard."""

GONE_AFTER_S = 600.0
"""A gateway silent for so long while others are heard has been taken away: it holds nothing any more."""


def known(number: float | None) -> float | None:
    """The number if it can be a count or a measurement; None for NaN, infinity, negatives and None."""
    return number if number is not None and isfinite(number) and number >= 0 else None


@dataclass(slots=True)
class Figures:
    """What one gateway last said about one model."""

    since_s: float
    """Start of the unbroken run of good reports."""
    heard_s: float
    is_good: bool
    queued: int = 0
    in_flight: int = 0
    concurrency: float = 0.0
    last_active_s: float | None = None
    queued_tokens: int = 0
    queued_prompt_tokens: int | None = None
    in_flight_tokens: int = 0
    oldest_wait_s: float = 0.0
    latency_p95_s: float | None = None
    latency_at_s: float = 0.0
    ttft_p90_s: float | None = None
    tpot_p90_s: float | None = None
    totals: Totals = Totals()
    """As it counts them; they begin at nothing when it does."""

    def is_heard(self, now_s: float) -> bool:
        return self.is_good and now_s <= self.heard_s + SILENT_AFTER_S


def added(figures: list[Figures], now_s: float) -> tuple[int, int, float, float | None, list[Figures]]:
    """All gateways together: queued, in flight, concurrency, when a request last arrived or ended; and those of them that
    are heard."""
    queued = in_flight = 0
    concurrency: float = 0
    last_active_s: float | None = None
    are_heard: list[Figures] = []
    for said in figures:
        queued += said.queued
        in_flight += said.in_flight
        concurrency += said.concurrency
        active_s = said.last_active_s
        if active_s is not None and (last_active_s is None or active_s > last_active_s):
            last_active_s = active_s
        if said.is_heard(now_s):
            are_heard.append(said)
    return queued, in_flight, concurrency, last_active_s, are_heard


def prompts_waiting(figures: list[Figures]) -> int | None:
    """Tokens of the prompts that wait, at all gateways; None where one has some and does not say."""
    said = [0 if one.queued == 0 else one.queued_prompt_tokens for one in figures]
    known_ones = [tokens for tokens in said if tokens is not None]
    return sum(known_ones) if len(known_ones) == len(said) else None


def counted(sums: Totals, before: Totals, said: Totals) -> Totals:
    """The sums with what a gateway has counted since it last reported. One that began anew counts from nothing."""
    if said.arrivals < before.arrivals or said.ended < before.ended:
        before = Totals()
    return Totals(
        sums.arrivals + max(0, said.arrivals - before.arrivals),
        sums.prompt_tokens + max(0, said.prompt_tokens - before.prompt_tokens),
        sums.output_tokens + max(0, said.output_tokens - before.output_tokens),
        sums.ended + max(0, said.ended - before.ended),
        sums.refused + max(0, said.refused - before.refused),
    )


def heard(before: Figures | None, demand: ModelDemand, now_s: float) -> Figures:
    """The figures after a report. Bad ones leave the last good ones in force, as a lower bound."""
    queued, in_flight, peak = known(demand.queued), known(demand.in_flight), known(demand.peak)
    is_good = queued is not None and in_flight is not None and peak is not None
    concurrency = max((queued or 0) + (in_flight or 0), peak or 0)
    runs_on = is_good and before is not None and before.is_heard(now_s)
    figures = Figures(
        since_s=before.since_s if runs_on and before is not None else now_s,
        heard_s=now_s,
        is_good=is_good,
        queued=int(queued or 0),
        in_flight=int(in_flight or 0),
        concurrency=concurrency,
        last_active_s=_last_active_s(demand, now_s),
        queued_tokens=int(known(demand.queued_tokens) or 0),
        queued_prompt_tokens=_count(demand.queued_prompt_tokens),
        in_flight_tokens=int(known(demand.in_flight_tokens) or 0),
        oldest_wait_s=known(demand.oldest_wait_s) or 0.0,
        ttft_p90_s=known(demand.latency.ttft_p90_s),
        tpot_p90_s=known(demand.latency.tpot_p90_s),
        totals=Totals(
            demand.arrivals_total,
            demand.prompt_tokens_total,
            demand.output_tokens_total,
            demand.ended_total,
            demand.refused_total,
        ),
    )
    if before is not None and not is_good:
        figures.queued = max(figures.queued, before.queued)
        figures.in_flight = max(figures.in_flight, before.in_flight)
        figures.concurrency = max(concurrency, before.concurrency)
        if before.queued_prompt_tokens is not None:
            figures.queued_prompt_tokens = max(figures.queued_prompt_tokens or 0, before.queued_prompt_tokens)
    _keep_latency(figures, before, demand.latency, now_s)
    return figures


def _count(number: int | None) -> int | None:
    found = known(number)
    return None if found is None else int(found)


def _last_active_s(demand: ModelDemand, now_s: float) -> float | None:
    """Never in the future. A moment that is no number may have been this one."""
    if demand.last_active_s is None:
        return None
    return min(demand.last_active_s, now_s) if isfinite(demand.last_active_s) else now_s


def _keep_latency(figures: Figures, before: Figures | None, latency: LatencySummary, now_s: float) -> None:
    """A span without a finished request says nothing about latency; the span before it did."""
    p95_s = known(latency.e2e_p95_s)
    if p95_s is not None:
        figures.latency_p95_s, figures.latency_at_s = p95_s, now_s
    elif before is not None:
        figures.latency_p95_s, figures.latency_at_s = before.latency_p95_s, before.latency_at_s
