"""Who is to serve a model that has variants: who stays, who is started, who stays until those serve.

A change of variants never takes away what is needed: whoever is not in the cheapest mix goes only once those that are
carry the need. And whoever could serve sooner than those that are in it fills in for them until they do: what is warm for
what is asleep, what is asleep for what is to be started. Among as soon ones the cheapest for what it carries.

The order of a line-up is the order in which room is given: what serves before what comes up, that before what sleeps, and
that before what is to be started; the dearest for what it carries goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from math import ceil

from tidegate.core.fleet.mixing import EPS, Offer, cheapest
from tidegate.core.fleet.scaling.policies import Proposal
from tidegate.core.fleet.scaling.sliding import Hold
from tidegate.core.types import ReplicaId
from tidegate.core.values import value

PARTS = 1_000
"""Needs are held in thousandths of a replica."""
SPARE_SHARE = 0.05
"""Of what is needed, what is left over after a step down: a need that hovers about a whole replica moves nobody."""


class Reach(IntEnum):
    """How soon one that is there could serve; the soonest first."""

    SERVES = 0
    """Or would if it were called back: it drains and may be kept."""
    WARM = 1
    WAKES = 2
    SLEEPS = 3
    DOZES = 4
    """It was told to sleep, and wakes once it does."""
    STARTS = 5


@value
class Member:
    """A replica that is there."""

    replica_id: ReplicaId
    variant: str
    share: float
    price_per_h: float
    reach: Reach
    can_stay: bool = True
    """False: it was started in another way than one would be now."""


@value
class Part:
    """One place in the line-up."""

    variant: str
    share: float
    price_per_h: float
    replica_id: ReplicaId | None = None
    """None: to be started."""
    is_bridge: bool = False
    """It stays until others carry the need."""
    sleeps: bool = False
    """It is to be woken; its GPUs may be somebody else's by now."""


@value
class Lineup:
    """All places, in the order in which they are given room."""

    parts: tuple[Part, ...]
    need: float
    """In reference replicas."""
    asked: int
    """Of all places, those that the need asks for; the others are for the least number. One more than the most: not
    even that many carry it."""
    more: Part
    """The one that would come next, beyond all places."""
    following: str
    """The variant that is started next: for the first place that needs a start, else as ``more``."""

    @property
    def there(self) -> int:
        """Places that need no start. They come first."""
        return sum(part.replica_id is not None for part in self.parts)

    @property
    def asleep(self) -> int:
        """Of the places that need no start, the last ones: they need a wake-up."""
        return sum(part.sleeps for part in self.parts)

    def named(self, number: int) -> frozenset[ReplicaId]:
        """Who is among the first so many."""
        return frozenset(p.replica_id for p in self.parts[:number] if p.replica_id is not None)

    def first(self, number: int) -> tuple[Part, ...]:
        """The first so many; beyond all places, such as would come next."""
        return self.parts[:number] + (self.more,) * max(0, number - len(self.parts))

    def counts(self, number: int) -> dict[str, int]:
        """The first so many, by variant."""
        found: dict[str, int] = {}
        for part in self.first(number):
            found[part.variant] = found.get(part.variant, 0) + 1
        return found

    def carried(self, number: int) -> float:
        """What the first so many carry, in reference replicas."""
        return sum(part.share for part in self.first(number))

    def carries(self, number: int) -> bool:
        """The first so many are enough for the need."""
        return self.carried(number) >= self.need - EPS

    def price_per_h(self, number: int) -> float:
        """Of the first so many."""
        return sum(part.price_per_h for part in self.first(number))


def lineup(need: float, offers: Sequence[Offer], members: Sequence[Member], least: int, most: int) -> Lineup:
    """The line-up for a need. ``members`` in order of keeping: of two alike the first one stays."""
    counts = cheapest(need, offers, least, most)
    staying: list[Member] = []
    starts: list[Part] = []
    for offer, count in zip(offers, counts, strict=True):
        alike = [m for m in members if m.variant == offer.name and m.can_stay][:count]
        staying += alike
        starts += [Part(offer.name, offer.share, offer.price_per_h)] * (count - len(alike))
    kept = {m.replica_id for m in staying}
    staying = _soonest_first(staying)
    bridge = _bridge(need, staying, _soonest_first([m for m in members if m.replica_id not in kept]))
    parts = (
        *(_part(m) for m in staying if m.reach is Reach.SERVES),
        *(_part(m, is_bridge=True) for m in bridge if m.reach is not Reach.SLEEPS),
        *(_part(m) for m in staying if m.reach not in (Reach.SERVES, Reach.SLEEPS)),
        *(_part(m) for m in staying if m.reach is Reach.SLEEPS),
        *(_part(m, is_bridge=True) for m in bridge if m.reach is Reach.SLEEPS),
        *sorted(starts, key=lambda part: -part.share),
    )
    more = _next(offers)
    following = next((part.variant for part in parts if part.replica_id is None), more.variant)
    return Lineup(parts, need, _asked(need, parts, len(bridge), most), more, following)


def _soonest_first(members: Sequence[Member]) -> list[Member]:
    return sorted(members, key=lambda m: (m.reach, m.price_per_h / m.share))


def _bridge(need: float, staying: Sequence[Member], rest: Sequence[Member]) -> list[Member]:
    """Of those that are not in the mix, the ones that are needed until those who are serve."""
    bridge: list[Member] = []
    carried = 0.0
    for reach in Reach:
        if reach is not Reach.STARTS:  # of two that start nobody knows which one will be ready
            carried += sum(m.share for m in staying if m.reach is reach)
        for member in rest:
            if carried >= need - EPS:
                return bridge
            if member.reach is reach:
                bridge.append(member)
                carried += member.share
    return bridge


def _asked(need: float, parts: Sequence[Part], bridging: int, most: int) -> int:
    if bridging:
        return len(parts)
    carried = 0.0
    for number, part in enumerate(parts):
        if carried >= need - EPS:
            return number
        carried += part.share
    return len(parts) if carried >= need - EPS or len(parts) < most else most + 1


def _next(offers: Sequence[Offer]) -> Part:
    ready = [offer for offer in offers if offer.can_start] or list(offers)
    best = min(ready, key=lambda offer: offer.unit_price)
    return Part(best.name, best.share, best.price_per_h)


def _part(member: Member, *, is_bridge: bool = False) -> Part:
    return Part(
        member.variant,
        member.share,
        member.price_per_h,
        member.replica_id,
        is_bridge,
        member.reach is Reach.SLEEPS,
    )


class Need:
    """What a law's whole numbers leave out: how much of a replica is needed. Down only after the scale-down delay."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self._hold = Hold(delay_s, 0)
        self._wanted = 0
        self._need = 0.0

    def __repr__(self) -> str:
        return f"<Need {self._need:g} of {self._wanted}>"

    def under(self, delay_s: float) -> Need:
        """The same with another delay: what stands, stands."""
        found = Need(delay_s)
        found.adopt(self._need)
        return found

    def adopt(self, need: float) -> None:
        """So much is there already, and stays until something is known of the demand."""
        self._need = max(self._need, need)
        self._wanted = max(self._wanted, ceil(need - EPS))

    @property
    def due_s(self) -> float | None:
        """When it falls if nothing else is asked for."""
        return self._hold.due_s

    def ask(self, proposal: Proposal, now_s: float) -> float:
        """In reference replicas. Where the law wants more than its demand asks for, what was needed while that was
        asked for; never above the law's number, and above nothing while that is.
        """
        wanted, exact = proposal.wanted, proposal.needed
        is_held = exact is not None and wanted > max(proposal.asked, exact) + EPS
        if exact is None or is_held:
            need = self._need if is_held and wanted == self._wanted else float(wanted)
        else:
            held = self._hold.ask(round(exact * (1.0 + SPARE_SHARE) * PARTS + 0.5), now_s) / PARTS
            exact = round(exact * PARTS + 0.5) / PARTS
            need = exact if exact >= self._need else min(self._need, max(exact, held))
        self._wanted = wanted
        self._need = min(float(wanted), max(need, 1.0 / PARTS)) if wanted > 0 else 0.0
        return self._need
