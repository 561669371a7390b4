"""The same trace at another rate, in another time, or a part of it. Order is always kept."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from tidegate.core.types import Dice
from tidegate.workload.arrival import MOST_S
from tidegate.workload.chance import chosen
from tidegate.workload.columns import Blocks, Names
from tidegate.workload.traces import Trace

# The odd constant of Weyl sequences (2**64 / golden ratio): adding k times it moves hashes to places
# where no other copy's are, for all practical numbers of blocks.
_STRIDE = 0x9E37_79B9_7F4A_7C15
_WORD = 2**64


def scaled_time(trace: Trace, factor: float) -> Trace:
    """Every moment times ``factor``: 0.1 plays the trace ten times faster, at ten times the rate.

    Rows, their order and everything else they say stay as they are; deadlines too, being promises.
    """
    _check_positive(factor)
    moments = array("d", [moment * factor for moment in trace.arrived_s])
    if moments and max(moments) > MOST_S:
        message = f"the factor is {factor:g}; the last request would come after {max(moments):g} s, and {MOST_S:g} is the most"
        raise ValueError(message)
    return trace.at(moments)


def scaled_rate(trace: Trace, factor: float, dice: Dice) -> Trace:
    """The same span and shape with ``factor`` times the requests, to the nearest whole request.

    Below 1, sessions (and requests without one) are chosen at random: every tenth of them would make
    bursts smoother than they were. Above 1, each whole copy is another crowd that behaves like the
    first: each row's copy arrives somewhere before the row that follows, its session has another name
    and its prompts share prefixes among the copies only, so the share of cached tokens stays the same.
    """
    _check_positive(factor)
    whole = math.floor(factor)
    part = _thinned_rows(trace, factor - whole, dice)
    if whole == 0:
        return trace.take(part)
    return _crowded(trace, whole, part, dice)


def between(trace: Trace, from_s: float = 0.0, until_s: float = math.inf) -> Trace:
    """The rows that arrived from ``from_s`` on and before ``until_s``, with ``from_s`` as moment 0."""
    rows = [row for row, moment in enumerate(trace.arrived_s) if from_s <= moment < until_s]
    part = trace.take(rows)
    return part.at(array("d", [moment - from_s for moment in part.arrived_s]))


def _check_positive(factor: float) -> None:
    if not (factor > 0 and math.isfinite(factor)):
        message = f"the factor is {factor}; it must be a finite number above 0"
        raise ValueError(message)


def _thinned_rows(trace: Trace, ratio: float, dice: Dice) -> Sequence[int]:
    """The rows of a random ``ratio`` of the sessions; a row without a session stands for itself."""
    units: dict[object, list[int]] = {}
    if trace.sessions is None:
        return chosen(len(trace), round(len(trace) * ratio), dice)
    for row, session in enumerate(trace.sessions):
        units.setdefault(row if session is None else session, []).append(row)
    groups = list(units.values())
    kept = chosen(len(groups), round(len(groups) * ratio), dice)
    return sorted(row for unit in kept for row in groups[unit])


def _crowded(trace: Trace, whole: int, part: Sequence[int], dice: Dice) -> Trace:
    """``whole`` rows for each row, and one more for those in ``part``; copies follow their original."""
    in_part = set(part)
    moments, rows, copies = array("d"), array("q"), array("q")
    for row, moment in enumerate(trace.arrived_s):
        gap_s = trace.arrived_s[row + 1] - moment if row + 1 < len(trace) else 0.0
        count = whole + (row in in_part)
        later = sorted(moment + gap_s * dice.uniform() for _ in range(count - 1))
        moments.append(moment)
        moments.extend(later)
        rows.extend([row] * count)
        copies.extend(range(count))
    # Copies of one gap are sorted by moment but numbered by crowd, so crowd k's rows stay in order.
    crowd = trace.take(rows).at(moments)
    if crowd.sessions is not None:
        crowd.sessions = _renamed(crowd.sessions, copies)
    if crowd.prefixes is not None:
        crowd.prefixes = _moved(crowd.prefixes, copies)
    return crowd


def _renamed(sessions: Names[str], copies: array[int]) -> Names[str]:
    renamed: Names[str] = Names()
    for session, copy in zip(sessions, copies, strict=True):
        renamed.append(f"{session}~{copy}" if session is not None and copy else session)
    return renamed


def _moved(prefixes: Blocks, copies: array[int]) -> Blocks:
    moved = Blocks()
    for hashes, copy in zip(prefixes, copies, strict=True):
        moved.append([(hashed + copy * _STRIDE) % _WORD for hashed in hashes] if copy else hashes)
    return moved
