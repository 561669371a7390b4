"""How many will wait beyond what replicas hold when one that is ordered now can serve.

Until then only what serves and what already comes up works for them: at time ``t`` from now that is

    serving  +  sum over those on their way of P(ready by t)

replicas, as full as they can be. What arrives beyond that forms a line. A flood shows in the line that it will have made by
then, and not in the few who wait when it is first seen: whoever orders for those alone orders again each few seconds,
and has enough long after it was needed. But nobody knows how long it lasts, and a burst of one second must not be taken
for two minutes of it: the longer there has been a line, the farther is looked ahead.
"""

from __future__ import annotations

from tidegate.core.fleet.scaling.past import Past
from tidegate.core.fleet.scaling.policies.base import Situation

SPAN_S = 5.0
AS_LONG = 4.0
"""Times as long as there has been a line the surge is taken to go on. After half a minute of it that is a start of two."""
STEPS = 6
"""Of the time until then. Each replica counts by its chance in the middle of a step."""


def growth_per_s(past: Past, short_per_s: float, now_s: float) -> float:
    """By how much the line grows each second, or shrinks: as it did in both of the last two spans of five seconds, and by no
    more than follows from what arrives beyond what replicas can do (``short_per_s``; below 0: they can do more).

    A burst makes a line in one of them only, and clients who wait for their answers one that stays as it is, whatever the
    rate.
    """
    now, before, first = (_queued(past, ago_s, now_s) for ago_s in (0.0, SPAN_S, 2 * SPAN_S))
    grew = (now - before) / SPAN_S, (before - first) / SPAN_S
    if min(grew) > 0.0:
        return max(0.0, min(short_per_s, *grew))
    return max(min(0.0, short_per_s), min(0.0, max(grew)))


def line_then(
    excess: float, grows_per_s: float, most_per_s: float, lasted_s: float, seen: Situation, now_s: float
) -> float:
    """Requests beyond what full replicas hold, when a start that begins now is over, by its median.

    ``excess`` is what there is of them now: without any, a rate above what replicas do is chance, and nothing follows from
    it. ``grows_per_s`` is by how much the line grows, ``most_per_s`` what one replica can do, and ``lasted_s`` for how long
    there has been a line.
    """
    if excess <= 0.0:
        return 0.0
    line, step_s = excess, (seen.readiness.quantile_s(0.5) or 0.0) / STEPS
    for step in range(STEPS):
        middle_s = (step + 0.5) * step_s
        ready = sum(_chance(seen, one.launched_s, middle_s, now_s) for one in seen.coming)
        grows = grows_per_s if middle_s <= AS_LONG * lasted_s else min(grows_per_s, 0.0)
        line = max(0.0, line + (grows - ready * most_per_s) * step_s)
    return line


def _queued(past: Past, ago_s: float, now_s: float) -> float:
    """How many waited then."""
    later = ago_s * (past.mean_queued(ago_s, now_s) or 0.0)
    return max(0.0, (ago_s + 1.0) * (past.mean_queued(ago_s + 1.0, now_s) or 0.0) - later)


def _chance(seen: Situation, launched_s: float, within_s: float, now_s: float) -> float:
    """That one on its way serves by then; while nothing is known of starts, none does."""
    return seen.readiness.p_ready(within_s, now_s - launched_s) or 0.0
