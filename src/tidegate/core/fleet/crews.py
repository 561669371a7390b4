"""The replicas of one model, counted by the way in which they were started: what they cost and what they can do.

What a variant can do is what the gateways have learned of it. While that is not known each of its replicas counts as its
share of one of the first variant (``variants``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tidegate.core.fleet.answering import Alike, Crew
from tidegate.core.fleet.replicas import Replica, route_gpu
from tidegate.core.fleet.scaling.policies import Demand
from tidegate.core.fleet.variants import OWN, Variants
from tidegate.core.settings import FleetModel
from tidegate.core.values import value


@value
class Counted:
    """So many that were started alike."""

    variant: str
    spec: FleetModel
    """As they were started."""
    share: float
    """Of a replica of the first variant, what one carries."""
    number: float


def counted(
    variants: Variants, numbers: Mapping[str, float], former: Mapping[str, FleetModel] | None = None
) -> list[Counted]:
    """So many of each variant. ``former``: how those were started that are not as they are configured; any other that is
    not configured counts as one of the first."""
    found: list[Counted] = []
    for name, number in numbers.items():
        spec, share = (former or {}).get(name), 1.0
        if spec is not None:
            share = variants.share_by_slots(spec)
        else:
            spec, share = variants.spec(name) or variants.specs[OWN], variants.share(name)
        if number > 0:
            found.append(Counted(name, spec, share, number))
    return found


def counted_as_started(variants: Variants, replicas: Iterable[Replica]) -> list[Counted]:
    """Replicas that are there, each in the way in which it was started, which may not be configured any more."""
    found: Counter[tuple[str, int]] = Counter()
    one_of: dict[tuple[str, int], Replica] = {}
    for replica in replicas:
        alike = replica.variant, id(replica.spec)
        found[alike] += 1
        one_of[alike] = replica
    return [
        Counted(one.variant, one.spec, variants.share_of(one), found[alike]) for alike, one in one_of.items()
    ]


def crew_of(those: Iterable[Counted], own: FleetModel, demand: Demand) -> Crew | None:
    """What they can do; None while that is not known of some of them."""
    those = list(those)
    if not those:
        return []
    first = 0.0
    """Of the first variant, and of those of which nothing else is known."""
    others: list[Alike] = []
    for one in those:
        kind = route_gpu(one.variant, one.spec)
        capacity = demand.capacities.get(kind) if kind else None
        if capacity is None:
            first += one.number * one.share
        else:
            others.append(Alike(one.number, capacity, one.spec.slots))
    if demand.capacity is None:
        return others if others and not first else None
    return [Alike(first, demand.capacity, own.slots), *others] if first else others


def price_per_h(those: Iterable[Counted]) -> float:
    """Of all of them."""
    return sum(one.number * one.spec.price_per_h for one in those)


def number_of(those: Iterable[Counted]) -> float:
    """How many there are."""
    return sum(one.number for one in those)
