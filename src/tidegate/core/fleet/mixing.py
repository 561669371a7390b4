"""Which variants of a model carry a need at the least price.

The need is in *reference replicas*: replicas as the model's own settings start them. Every variant has its share of one.
The law: of all numbers of each variant that cover the need, within the least and the most replicas, the cheapest; among
equally cheap ones the fewest replicas. One that would have to be started counts ``START_SURCHARGE`` more than one that is
there, and one that is warm or asleep ``WAKE_SURCHARGE``: a mix is not left for another that is hardly cheaper.

The search is exact but for its bound: after ``VISITS_MOST`` looks the best found so far counts, which is never dearer
than any variant alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf

from tidegate.core.values import value

START_SURCHARGE = 0.15
"""A start costs its cold start and a cache. At this share of its price, a replica of an hour's use pays for nine minutes."""
WAKE_SURCHARGE = 0.05
"""One out of the pool is there in seconds, but its cache is cold as well."""
VISITS_MOST = 4_000
"""Some two milliseconds, with the numbers that are passed over. Only where many cost nearly the same for what they carry
is it ever reached."""
EPS = 1e-9


@value
class Offer:
    """One variant."""

    name: str
    share: float
    """Of a reference replica, what one carries; above 0."""
    price_per_h: float
    there: int = 0
    """So many need no start."""
    can_start: bool = True
    most: int | None = None
    """There may be so many; None: any number."""
    near: int = 0
    """Beside those that are there, so many need a promotion or a wake-up: they wait in the pool."""

    @property
    def unit_price(self) -> float:
        """Of what carries as much as a reference replica."""
        return self.price_per_h / self.share

    def cost(self, count: int) -> float:
        """An hour of so many, starts weighed in."""
        beyond = max(0, count - self.there)
        woken = min(beyond, self.near)
        return self.price_per_h * (count + WAKE_SURCHARGE * woken + START_SURCHARGE * (beyond - woken))


def enough(need: float, shares: Sequence[float]) -> int:
    """How many of these, in this order, carry the need; all of them where they do not."""
    for number, share in enumerate(shares):
        if need <= EPS:
            return number
        need -= share
    return len(shares)


def cheapest(need: float, offers: Sequence[Offer], least: int, most: int) -> tuple[int, ...]:
    """How many of each offer; what carries most when nothing within ``most`` carries the need."""
    return _Search(need, offers, least, most).best


class _Search:
    """Branch and bound over the offers, the cheapest per unit first."""

    def __init__(self, need: float, offers: Sequence[Offer], least: int, most: int) -> None:
        self._offers = offers
        self._least = least
        self._limits = [self._limit(offer, most) for offer in offers]
        self._order = sorted(range(len(offers)), key=lambda n: (offers[n].unit_price, n))
        tails = [self._order[depth:] for depth in range(len(offers))]
        self._unit = [min(offers[n].unit_price for n in tail) for tail in tails]
        self._share = [max(offers[n].share for n in tail) for tail in tails]
        self._price = inf
        self._count = 0
        self._visits = 0
        self.best: tuple[int, ...] = ()
        for n, offer in enumerate(offers):
            self._alone(n, offer, need)
        self._look(0, need, most, 0.0, [0] * len(offers))
        if not self.best:
            self.best = self._fullest(most)

    @staticmethod
    def _limit(offer: Offer, most: int) -> int:
        if offer.most is not None:
            most = min(most, offer.most)
        return most if offer.can_start else min(offer.there + offer.near, most)

    def _alone(self, n: int, offer: Offer, need: float) -> None:
        count = max(0, ceil(need / offer.share - EPS))
        if count <= self._limits[n]:
            counts = [0] * len(self._offers)
            counts[n] = count
            self._offer(counts, offer.cost(count))

    def _look(self, depth: int, left: float, room: int, price: float, counts: list[int]) -> None:
        """All numbers of the offers from this depth on; those before have theirs."""
        if left <= EPS:
            self._offer(counts, price)
            return
        if depth == len(counts) or left > room * self._share[depth] + EPS:
            return
        n = self._order[depth]
        offer = self._offers[n]
        unit = self._unit[depth + 1] if depth + 1 < len(counts) else inf
        for count in range(min(self._limits[n], room, ceil(left / offer.share - EPS)), -1, -1):
            # Numbers that are passed over take their time too, and there may be thousands of them.
            self._visits += 1
            if self._visits > VISITS_MOST:
                break
            rest, so_far = left - count * offer.share, price + offer.cost(count)
            if rest > EPS and so_far + rest * unit >= self._price - EPS:
                if count <= offer.there or unit == inf:
                    break  # fewer of these, without a start saved, leave more to what is dearer
                continue
            counts[n] = count
            self._look(depth + 1, rest, room - count, so_far, counts)
        counts[n] = 0

    def _offer(self, counts: Sequence[int], price: float) -> None:
        if price > self._price + EPS:
            return
        filled, number = counts, sum(counts)
        if number < self._least:
            more = self._filled(counts)
            if more is None:
                return
            filled, number = more, sum(more)
            price = sum(offer.cost(count) for offer, count in zip(self._offers, filled, strict=True))
        if price < self._price - EPS or (price <= self._price + EPS and number < self._count):
            self._price, self._count, self.best = price, number, tuple(filled)

    def _filled(self, counts: Sequence[int]) -> list[int] | None:
        """Brought up to the least number, the cheapest first; None when there are not so many."""
        filled, missing = list(counts), self._least - sum(counts)
        more: list[tuple[float, int, int]] = []
        for n, (offer, limit) in enumerate(zip(self._offers, self._limits, strict=True)):
            so_far, at_hand = counts[n], (offer.there, offer.there + offer.near, limit)
            for upto, surcharge in zip(at_hand, (0.0, WAKE_SURCHARGE, START_SURCHARGE), strict=True):
                free = max(0, min(upto, limit) - so_far)
                more.append((offer.price_per_h * (1.0 + surcharge), n, free))
                so_far += free
        for _, n, free in sorted(more):
            taken = min(missing, free)
            filled[n] += taken
            missing -= taken
        return filled if missing <= 0 else None

    def _fullest(self, most: int) -> tuple[int, ...]:
        """Nothing carries it all: what carries most."""
        counts, room = [0] * len(self._offers), most
        for n in sorted(
            range(len(counts)), key=lambda n: (-self._offers[n].share, self._offers[n].price_per_h)
        ):
            counts[n] = min(self._limits[n], room)
            room -= counts[n]
        return tuple(counts)
