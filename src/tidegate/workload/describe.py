"""What a trace is like, in numbers. A number that cannot be told from it is None.

Conventions: the mean rate is rows by span; windows of a width start at the first arrival and the last
one counts as it is, except for the lowest rate, for which a window must be full; variances are those of
the whole population; percentiles interpolate between ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.workload.figures import TokenCounts, Windows, gap_cv, token_counts
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
    windows = {width_s: Windows(trace.arrived_s, width_s) for width_s in (1, 10, 60)}
    full_minutes = int(span_s // 60)
    prompt, output = token_counts(trace.prompt_tokens), token_counts(trace.output_tokens)
    return Description(
        rows=len(trace),
        span_s=span_s,
        mean_per_s=_by(len(trace), span_s),
        peak_1s_per_s=windows[1].most,
        peak_60s_per_s=_by(windows[60].most if full_minutes else None, 60),
        lowest_60s_per_s=_by(windows[60].least(full_minutes), 60),
        gap_cv=gap_cv(trace.arrived_s),
        dispersion={width_s: found for width_s, each in windows.items() if (found := each.dispersion())},
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
