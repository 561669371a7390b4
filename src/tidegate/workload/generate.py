"""Traces from a description: how many, how regularly, how long."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence

from tidegate.core.types import Dice
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.curves import RateCurve
from tidegate.workload.gaps import Gaps, PoissonGaps, positions
from tidegate.workload.lengths import Lengths
from tidegate.workload.traces import Trace


def arrival_times(curve: RateCurve, dice: Dice, gaps: Gaps | None = None) -> array[float]:
    """Moments whose rate follows the curve; Poisson when no gaps are given."""
    return array("d", curve.moments(positions(gaps or PoissonGaps(), dice)))


def generated(curve: RateCurve, lengths: Lengths, dice: Dice, gaps: Gaps | None = None) -> Trace:
    """One stream of requests without sessions; names come from ``mix.labelled``."""
    builder = TraceBuilder()
    for moment in arrival_times(curve, dice, gaps):
        builder.add(moment, *lengths.draw(dice))
    return builder.build()


def merged(traces: Sequence[Trace]) -> Trace:
    """All requests of several traces by arrival; of one moment, the earlier trace's come first."""
    blocks = {trace.block_tokens for trace in traces}
    if len(blocks) != 1:
        message = f"traces with prefix blocks of {sorted(blocks)} tokens cannot be merged; one size is needed"
        raise ValueError(message)
    builder = TraceBuilder(blocks.pop())
    for arrival in heapq.merge(*traces, key=lambda arrival: arrival.arrived_s):
        builder.append(arrival)
    return builder.build()
