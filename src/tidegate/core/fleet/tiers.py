"""Which tiers to hold, how many of each: the cheapest mix that covers the lead-time risk.

The law. Demand may rise at any moment. ``rise`` says how many more replicas may be needed within a span, at
the risk given: a rising staircase that is learned (``growth``). The *n*-th additional replica is needed as
soon as the staircase reaches *n*. Whoever holds it in a tier whose wake time ends by then, and by the time
that a request may wait, loses nothing; so each tier covers the rise within its wake time, and the *n*-th
replica is held in the cheapest tier that is early enough. What even a replica that is not held at all
(cached or cold) is early enough for is not held.

The replicas are independent of each other, so taking the cheapest tier for each one is the cheapest mix. Where
a tier is full, the ones that are needed soonest keep the nearest tiers, and what is left over goes one nearer.

Weights on the node's disk are a tier of another sort: one copy serves all replicas there, so they are bought once and
shorten every start (``mix_with_disk``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.core.tiers import Tier
from tidegate.core.values import value

PUBLISHED_WAKE_S = 6.0
"""Before a wake-up has been measured: the upper end of what is published for vLLM, 0.1 to 6 s (vLLM blog, 2025)."""


@value
class Offer:
    """One tier in which a replica can be held."""

    tier: Tier
    wake_s: float
    """Until it serves, at the risk given: a high quantile of what was measured."""
    price_per_h: float
    most: int
    """So many can be held there."""


@value
class Held:
    """How many to hold in each tier, and what is left to chance."""

    warm: int = 0
    sleeping: int = 0
    uncovered: int = 0
    """Replicas that may be needed sooner than any tier with room can give them."""
    price_per_h: float = 0.0
    cached: bool = False
    """The weights are to be on the node's disk."""


@value
class Disk:
    """A place on the node's disk for the weights: bought once for all replicas, and each start is the shorter for it."""

    away_s: float
    """From nothing held but the weights to serving, at the risk given."""
    price_per_h: float


def mix_with_disk(
    rise: Sequence[tuple[float, int]],
    offers: Sequence[Offer],
    away_s: float,
    slack_s: float,
    disk: Disk | None,
) -> Held:
    """The better one of the two mixes with and without the weights on the disk: the one that leaves less to chance, then
    the cheaper, then the one that holds less. ``disk`` is None where the weights are there or are not ours to fetch."""
    without = cheapest_mix(rise, offers, away_s, slack_s)
    if disk is None or disk.away_s >= away_s:
        return without
    held = cheapest_mix(rise, offers, disk.away_s, slack_s)
    cached = Held(held.warm, held.sleeping, held.uncovered, held.price_per_h + disk.price_per_h, cached=True)
    return min(without, cached, key=_badness)


def cheapest_mix(
    rise: Sequence[tuple[float, int]], offers: Sequence[Offer], away_s: float, slack_s: float
) -> Held:
    """The cheapest number to hold in each tier.

    Args:
        rise: Spans in s, rising, each with the replicas that may be needed in addition by its end.
        offers: The tiers that hold something.
        away_s: From nothing held to serving; infinite when nothing can be started.
        slack_s: How long whoever needs a replica may wait for it.
    """
    deadlines_s = [at_s + slack_s for at_s in _needed_at_s(rise)]
    held = [0] * len(offers)
    uncovered = 0
    for deadline_s in deadlines_s:  # soonest first: these have the fewest tiers to choose from
        if away_s <= deadline_s:
            break
        early = [n for n, offer in enumerate(offers) if offer.wake_s <= deadline_s and held[n] < offer.most]
        if not early:
            uncovered += 1
            continue
        # Of two that cost the same the nearer one; of two as near the first.
        best = min(early, key=lambda n: (offers[n].price_per_h, offers[n].wake_s, n))
        held[best] += 1
    return Held(
        warm=_sum(offers, held, lambda offer: offer.tier is Tier.WARM),
        sleeping=_sum(offers, held, lambda offer: offer.tier is Tier.SLEEPING),
        uncovered=uncovered,
        price_per_h=sum(offer.price_per_h * count for offer, count in zip(offers, held, strict=True)),
    )


def _needed_at_s(rise: Sequence[tuple[float, int]]) -> list[float]:
    """When each additional replica may be needed, soonest first.

    A step of the staircase is known at the end of its span only; it may have come at the span's beginning.
    """
    needed: list[float] = []
    before_s = 0.0
    for span_s, replicas in rise:
        needed += [before_s] * (replicas - len(needed))
        before_s = span_s
    return needed


def _badness(held: Held) -> tuple[int, float, int]:
    return held.uncovered, held.price_per_h, held.warm + held.sleeping


def _sum(offers: Sequence[Offer], held: Sequence[int], of: Callable[[Offer], bool]) -> int:
    return sum(count for offer, count in zip(offers, held, strict=True) if of(offer))
