"""The final clamp: no path to a number of replicas goes around ``grant``.

Each model's own minimum and maximum, then the caps over all models: replicas, GPUs, places on the nodes, money per
hour, starts per hour. The caps are the stronger ones: a minimum that they leave no room for is not met, and
the grant says which cap it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heapreplace

from tidegate.core.fleet.placement import Ground
from tidegate.core.fleet.sizes import Size
from tidegate.core.nodes import NOWHERE, Place
from tidegate.core.settings import FleetLimits
from tidegate.core.types import ModelId
from tidegate.core.values import value


@value
class Wish:
    """What one model's policy proposes, and what the model has."""

    model: ModelId
    wanted: int
    min_replicas: int
    max_replicas: int
    held: int
    """Replicas that run or come up, or drain and could be kept: no start is needed for these."""
    size: Size
    can_start: bool = True
    """False while starts of this model fail: others get the room first."""
    asleep: int = 0
    """Of those held, the ones that sleep: no start, but their GPUs may be somebody else's by now."""
    sizes: tuple[Size, ...] = ()
    """What each one takes, in the order in which they get room, where they differ; the rest take ``size``."""
    places: tuple[Place, ...] = ()
    """Of those held and awake, where they stand, in the order in which they are kept. Said where nodes are known and
    somebody is to be started."""
    beds: tuple[Place, ...] = ()
    """Of those asleep, where each can wake."""
    is_kept_for: bool = False
    """A node is kept free for a start of this model."""
    is_owed: bool = False
    """One of its own has gone for another that is to take its place, and that has not been started yet."""

    @property
    def bounded(self) -> int:
        """The wish within the model's own minimum and maximum."""
        return max(self.min_replicas, min(self.wanted, self.max_replicas))

    def size_of(self, number: int) -> Size:
        """What the replica after so many takes."""
        return self.sizes[number] if number < len(self.sizes) else self.size

    def all_of(self, number: int) -> tuple[int, float]:
        """GPUs and price of so many."""
        if not self.sizes:  # nearly always
            return number * self.size.gpus, number * self.size.price_per_h
        sizes = [self.size_of(n) for n in range(number)]
        return sum(size.gpus for size in sizes), sum(size.price_per_h for size in sizes)

    @property
    def awake(self) -> int:
        """Those held that have their room."""
        return self.held - self.asleep


@value
class Grant:
    """How many replicas a model gets, and the limit that made it another number than was wished for."""

    desired: int
    held_by: str | None


NO_PLACE = "fleet.gpus"
"""The rule that is broken by a replica for which there is no place."""


class Room:
    """What the caps leave, and the nodes. Each replica and each start is taken from it once."""

    def __init__(
        self, limits: FleetLimits, taken: Iterable[Size], starts_left: int, ground: Ground | None = None
    ) -> None:
        """``ground``: with all that is taken; None where nodes are not known, and GPUs are only counted."""
        self._limits = limits
        self._starts_left = starts_left
        self._ground = ground
        self._replicas = 0
        self._gpus = 0
        self._cost_per_h = 0.0
        for size in taken:
            self._occupy(size)

    def __repr__(self) -> str:
        return f"<Room replicas={self._replicas} gpus={self._gpus} starts_left={self._starts_left}>"

    def refuses(self, size: Size, *, starts: bool, is_kept_for: bool = False) -> str | None:
        """The cap that one more such replica would break, or that there is no place for it; None when it fits. What
        does not start stands somewhere already."""
        limits = self._limits
        if limits.max_replicas is not None and self._replicas + 1 > limits.max_replicas:
            return "fleet.max_replicas"
        if limits.max_gpus is not None and self._gpus + size.gpus > limits.max_gpus:
            return "fleet.max_gpus"
        if starts and self.place_for(size, is_kept_for=is_kept_for) is None:
            return NO_PLACE
        # A thousandth of a cent: sums of prices are not exact in floats.
        if (
            limits.max_cost_per_h is not None
            and self._cost_per_h + size.price_per_h > limits.max_cost_per_h + 1e-5
        ):
            return limits.cost_rule
        return "fleet.max_starts_per_hour" if starts and self._starts_left <= 0 else None

    def start(self, size: Size, *, is_kept_for: bool = False) -> Place:
        """Take the room for one more that is started, which was not refused, and say where it goes."""
        place = self.place_for(size, is_kept_for=is_kept_for) or NOWHERE
        self._starts_left -= 1
        self.keep(size, place)
        return place

    def keep(self, size: Size, place: Place = NOWHERE) -> None:
        """Take the room for one that is there, and was not refused."""
        self._occupy(size)
        if self._ground is not None:
            self._ground.hold(place)

    def fits(self, place: Place) -> bool:
        """The GPUs of this place are free for it, as far as is known."""
        return self._ground is None or self._ground.fits(place)

    def exchange(self, old: Size, new: Size, place: Place = NOWHERE) -> str | None:
        """Let one that is there take another size; the cap that forbids it, or None when it has been done. ``place``:
        where it stands, if it gives its GPUs back or takes them again."""
        self._occupy(old, -1)
        # What needs no more than before breaks nothing that is not broken already.
        grows = new.gpus > old.gpus or new.price_per_h > old.price_per_h
        refused = self.refuses(new, starts=False) if grows else None
        if refused is None and not self._moves(old, new, place):
            refused = NO_PLACE
        self._occupy(new if refused is None else old)
        return refused

    def fits_instead(self, old: Size, place: Place, new: Size, *, is_kept_for: bool = False) -> bool:
        """One of a size would fit as soon as another, which stands at this place, is gone; the starts left aside."""
        self._occupy(old, -1)
        if self._ground is not None:
            self._ground.free(place)
        fits = self.refuses(new, starts=False) is None
        fits = fits and self.place_for(new, is_kept_for=is_kept_for) is not None
        self.keep(old, place)
        return fits

    def _moves(self, old: Size, new: Size, place: Place) -> bool:
        """Take or give back the GPUs of this place; False when somebody else has them."""
        if self._ground is None or (old.gpus > 0) == (new.gpus > 0):
            return True
        if not new.gpus:
            self._ground.free(place)
            return True
        if self._ground.fits(place):
            self._ground.hold(place)
            return True
        return False

    def place_for(self, size: Size, *, is_kept_for: bool = False) -> Place | None:
        """Where one more could go, whatever the caps say; None: nowhere."""
        if self._ground is None or not size.needs_place:
            return NOWHERE
        return self._ground.find(size, is_kept_for=is_kept_for)

    def holds(self, wishes: Iterable[Wish]) -> bool:
        """True when all of these fit together, in whatever order."""
        limits, replicas, gpus, cost_per_h, starts = (
            self._limits,
            self._replicas,
            self._gpus,
            self._cost_per_h,
            0,
        )
        for wish in wishes:
            bounded = wish.bounded
            its_gpus, its_cost_per_h = wish.all_of(bounded)
            replicas += bounded
            gpus += its_gpus
            cost_per_h += its_cost_per_h
            starts += max(0, bounded - wish.held)
        return (
            (limits.max_replicas is None or replicas <= limits.max_replicas)
            and (limits.max_gpus is None or gpus <= limits.max_gpus)
            and (limits.max_cost_per_h is None or cost_per_h <= limits.max_cost_per_h)
            and starts <= max(0, self._starts_left)
        )

    def _occupy(self, size: Size, by: int = 1) -> None:
        self._replicas += by
        self._gpus += by * size.gpus
        self._cost_per_h += by * size.price_per_h


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
    sleeping_size: Size
    places: tuple[Place, ...] = ()
    """Of those that are warm, where they stand."""


@value
class PoolGrant:
    """What a model may hold beside what serves. What it has beyond this makes room for others."""

    warm: int
    sleeping: int


def grant_pools(
    wishes: Sequence[PoolWish], limits: FleetLimits, taken: Iterable[Size], ground: Ground | None = None
) -> dict[ModelId, PoolGrant]:
    """Every model's pool, within what the caps leave beside ``taken``: sleepers first, since they take next to
    nothing and cost a whole start to get back; then the least warm ones, then those that may just as well stay.
    ``ground``: with what was granted beside the pools and who waits for a place, if somebody is to be started."""
    room = Room(limits, taken, 0, ground)
    asleep: dict[ModelId, int] = {}
    warm: dict[ModelId, int] = {}
    standing = {wish.model: [place for place in wish.places if room.fits(place)] for wish in wishes}
    for wish in wishes:
        asleep[wish.model] = _filled(room, wish.sleeping_size, max(wish.sleeping, wish.kept_asleep), [])
    for wish in wishes:
        # Those in whose place somebody else is to start give way.
        least = wish.warm - len(wish.places) + len(standing[wish.model])
        warm[wish.model] = _filled(room, wish.warm_size, least, standing[wish.model])
    for wish in wishes:
        away = len(wish.places) - len(standing[wish.model])
        has = warm[wish.model]
        more = max(0, wish.kept_warm - away - has) if has >= wish.warm - away else 0
        warm[wish.model] += _filled(room, wish.warm_size, more, standing[wish.model][has:])
    return {wish.model: PoolGrant(warm[wish.model], asleep[wish.model]) for wish in wishes}


def _filled(room: Room, size: Size, count: int, places: Sequence[Place]) -> int:
    """How many of so many fit; the first of them stand at these places."""
    for taken in range(count):
        place = places[taken] if taken < len(places) else room.place_for(size)
        if place is None or room.refuses(size, starts=False) is not None:
            return taken
        room.keep(size, place)
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
