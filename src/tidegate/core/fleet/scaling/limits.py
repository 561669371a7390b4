"""The final clamp: no path to a number of replicas goes around ``grant``.

Each model's own minimum and maximum, then the caps over all models: replicas, GPUs, places on the nodes, money per
hour, starts per hour. The caps are the stronger ones: a minimum that they leave no room for is not met, and
the grant says which cap it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heapreplace

from tidegate.core.fleet.placement import Ground
from tidegate.core.fleet.scaling.room import Room
from tidegate.core.fleet.scaling.wishes import Grant, Wish
from tidegate.core.fleet.sizes import Size
from tidegate.core.nodes import NOWHERE, Place
from tidegate.core.settings import FleetLimits
from tidegate.core.types import ModelId, ReplicaId
from tidegate.core.values import value


@value
class Warm:
    """One that is warm."""

    replica_id: ReplicaId
    size: Size
    place: Place = NOWHERE


@value
class PoolWish:
    """What one model wants to hold beside what serves."""

    model: ModelId
    warm: int
    """To be held warm."""
    kept_warm: int
    """As many as these may stay warm if there is room, without any being started for it."""
    sleeping: int
    """To be held asleep."""
    kept_asleep: int
    warm_size: Size
    """Of what would be started."""
    sleeping_size: Size
    standing: tuple[Warm, ...] = ()
    """Those that are warm, in the order in which they stay."""


@value
class PoolGrant:
    """What a model may hold beside what serves. What it has beyond this makes room for others."""

    warm: int
    sleeping: int
    in_the_way: frozenset[ReplicaId] = frozenset()
    """Warm ones in whose place somebody is to start or to wake: they go first."""


def grant_pools(
    wishes: Sequence[PoolWish], limits: FleetLimits, taken: Iterable[Size], ground: Ground | None = None
) -> dict[ModelId, PoolGrant]:
    """Every model's pool, within what the caps leave beside ``taken``: sleepers first, since they take next to
    nothing and cost a whole start to get back; then the least warm ones, then those that may just as well stay.
    ``ground``: with what was granted beside the pools and who waits for a place, if somebody is to be started."""
    room = Room(limits, taken, 0, ground)
    asleep: dict[ModelId, int] = {}
    warm: dict[ModelId, int] = {}
    standing = {wish.model: [warm for warm in wish.standing if room.fits(warm.place)] for wish in wishes}
    for wish in wishes:
        asleep[wish.model] = _filled(room, wish.sleeping_size, max(wish.sleeping, wish.kept_asleep), [])
    for wish in wishes:
        # Those in whose place somebody else is to start give way.
        least = wish.warm - len(wish.standing) + len(standing[wish.model])
        warm[wish.model] = _filled(room, wish.warm_size, least, standing[wish.model])
    for wish in wishes:
        away = len(wish.standing) - len(standing[wish.model])
        has = warm[wish.model]
        more = max(0, wish.kept_warm - away - has) if has >= wish.warm - away else 0
        warm[wish.model] += _filled(room, wish.warm_size, more, standing[wish.model][has:])
    return {
        wish.model: PoolGrant(
            warm[wish.model],
            asleep[wish.model],
            frozenset(one.replica_id for one in wish.standing if one not in standing[wish.model]),
        )
        for wish in wishes
    }


def _filled(room: Room, size: Size, count: int, standing: Sequence[Warm]) -> int:
    """How many of so many fit; the first of them stand already, the others take this size."""
    for taken in range(count):
        one = standing[taken] if taken < len(standing) else None
        takes, place = (size, room.place_for(size)) if one is None else (one.size, one.place)
        if place is None or room.refuses(takes, starts=False) is not None:
            return taken
        room.keep(takes, place)
    return max(0, count)


def grant(
    wishes: Sequence[Wish],
    limits: FleetLimits,
    leaving: Iterable[Size],
    starts_left: int,
    ground: Ground | None = None,
) -> dict[ModelId, Grant]:
    """Every model's number, within all limits at once. ``leaving`` still takes room but can't be kept. ``ground``: the
    nodes with what is leaving, where they are known and somebody is to be started or woken; what is granted stands on
    it afterwards.

    Room is given out in this order, in each step to whoever has least:

    1. what runs, up to each model's minimum;
    2. what runs and is wanted: a running replica is not stopped for somebody's wish to start one, or to wake one;
    3. one that takes the place of another of its model: nobody loses by a swap what ran;
    4. missing minimums;
    5. a first replica for each model that has none;
    6. the rest;
    7. models whose starts fail.

    So whoever starts finds a place beside all that stays. What goes makes room here at once; that nothing is started
    before it is gone is held where it is started.
    """
    room = Room(limits, leaving, starts_left, ground)
    if ground is None and room.holds(wishes):  # then the order does not matter, and nearly always it is so
        return {wish.model: _outcome(wish, wish.bounded, None) for wish in wishes}
    sharing = _Sharing(room)
    startable = [wish for wish in wishes if wish.can_start]
    sharing.fill(wishes, lambda wish: min(wish.awake, wish.min_replicas))  # 1
    sharing.fill(wishes, lambda wish: min(wish.awake, wish.bounded))  # 2
    owed = [wish for wish in startable if wish.is_owed]
    sharing.fill(owed, lambda wish: min(wish.awake + 1, wish.bounded))  # 3
    sharing.fill(startable, lambda wish: wish.min_replicas)  # 4
    sharing.fill(startable, lambda wish: min(1, wish.bounded))  # 5
    sharing.fill(startable, lambda wish: wish.bounded)  # 6
    sharing.fill(wishes, lambda wish: wish.bounded)  # 7
    return {wish.model: sharing.grant(wish) for wish in wishes}


def _outcome(wish: Wish, desired: int, refused: str | None) -> Grant:
    """A number with the limit that it comes from: a cap that refused more, or the model's own bounds."""
    if desired < wish.bounded:
        return Grant(desired, refused)
    if wish.wanted > wish.max_replicas:
        return Grant(desired, "max_replicas")
    return Grant(desired, "min_replicas" if wish.wanted < wish.min_replicas else None)


class _Sharing:
    """Room being given out, one replica at a time."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._granted: dict[ModelId, int] = {}
        self._refused: dict[ModelId, str] = {}
        self._beds: dict[ModelId, list[Place]] = {}
        """Where sleepers could still wake."""

    def fill(self, among: Sequence[Wish], upto: Callable[[Wish], int]) -> None:
        """Give each up to its number, always to whoever has least; equals in the order given."""
        line = [(self._granted.get(wish.model, 0), place) for place, wish in enumerate(among)]
        heapify(line)
        while line:
            have, place = line[0]
            wish = among[place]
            if have < upto(wish) and self._take(wish, have):
                heapreplace(line, (have + 1, place))
            else:
                heappop(line)

    def grant(self, wish: Wish) -> Grant:
        """What this wish has come to, and by which limit."""
        return _outcome(wish, self._granted.get(wish.model, 0), self._refused.get(wish.model))

    def _take(self, wish: Wish, have: int) -> bool:
        place = self._place_of(wish, have) if have < wish.held else None
        cap = self._room.refuses(wish.size_of(have), starts=place is None, is_kept_for=wish.is_kept_for)
        if cap is not None:
            self._refused[wish.model] = cap
            return False
        if place is None:
            self._room.start(wish.size_of(have), is_kept_for=wish.is_kept_for)
        else:
            self._room.keep(wish.size_of(have), place)
        self._granted[wish.model] = have + 1
        return True

    def _place_of(self, wish: Wish, have: int) -> Place | None:
        """Where the next of those that are there stands; None for a sleeper whose GPUs somebody else has: another is
        started for it."""
        if have < wish.awake:
            return wish.places[have] if have < len(wish.places) else NOWHERE
        beds = self._beds.setdefault(wish.model, list(wish.beds))
        if not wish.beds:
            return NOWHERE
        free = next((place for place in beds if self._room.fits(place)), None)
        if free is not None:
            beds.remove(free)
        return free
