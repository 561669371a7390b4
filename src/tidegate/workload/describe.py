"""What a trace is like, in numbers. A number that cannot be told from it is None.

Conventions: the mean rate is rows by span; windows of a width start at the first arrival and the last
one counts as it is, except for the lowest rate, for which a window must be full; variances are those of
the whole population; percentiles interpolate between ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.workload.figures import TokenCounts, dispersion, gap_cv, token_counts, window_counts
from tidegate.workload.sharing import Sharing, sharing
from tidegate.workload.traces import Trace


@dataclass(frozen=True, slots=True)
class Description:
    """The statistics of ``tidegate trace describe``."""

    rows: int
    span_s: float
    mean_per_s: float | None
    peak_1s_per_s: float | None
    peak_60s_per_s: float | None
    lowest_60s_per_s: float | None
    gap_cv: float | None
    """Coefficient of variation of the gaps between arrivals; 1 for Poisson."""
    dispersion: dict[int, float]
    """Variance by mean of the counts in windows of so many seconds; 1 at every width for Poisson."""
    prompt: TokenCounts | None
    output: TokenCounts | None
    prompt_tokens_per_s: float | None
    output_tokens_per_s: float | None
    prompt_to_output: float | None
    sharing: Sharing | None
    models: int
    """Different names; so are the three below."""
    tenants: int
    adapters: int
    sessions: int


def describe(trace: Trace) -> Description:
    """All statistics of a trace; one pass for each kind."""
    span_s = trace.span_s
    per_second, per_minute = window_counts(trace.arrived_s, 1), window_counts(trace.arrived_s, 60)
    full_minutes = per_minute[: int(span_s // 60)]
    prompt, output = token_counts(trace.prompt_tokens), token_counts(trace.output_tokens)
    return Description(
        rows=len(trace),
        span_s=span_s,
        mean_per_s=_by(len(trace), span_s),
        peak_1s_per_s=max(per_second, default=None),
        peak_60s_per_s=_by(max(per_minute) if full_minutes else None, 60),
        lowest_60s_per_s=_by(min(full_minutes, default=None), 60),
        gap_cv=gap_cv(trace.arrived_s),
        dispersion={width: found for width in (1, 10, 60) if (found := dispersion(trace.arrived_s, width))},
        prompt=prompt,
        output=output,
        prompt_tokens_per_s=_by(_total(prompt), span_s),
        output_tokens_per_s=_by(_total(output), span_s),
        prompt_to_output=_by(_total(prompt), _total(output)),
        sharing=None if trace.prefixes is None else sharing(trace),
        models=len(trace.models.table) if trace.models else 0,
        tenants=len(trace.tenants.table) if trace.tenants else 0,
        adapters=len(trace.adapters.table) if trace.adapters else 0,
        sessions=len(trace.sessions.table) if trace.sessions else 0,
    )


def _total(counts: TokenCounts | None) -> int | None:
    return None if counts is None else counts.total


def _by(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
