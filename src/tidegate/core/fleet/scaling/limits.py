"""The final clamp: no path to a number of replicas goes around ``grant``.

Each model's own minimum and maximum, then the caps over all models: replicas, GPUs, money per hour,
starts per hour. The caps are the stronger ones: a minimum that they leave no room for is not met, and
the grant says which cap it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heapreplace

from tidegate.core.settings import FleetLimits
from tidegate.core.types import ModelId
from tidegate.core.values import value


@value
class Size:
    """What one replica takes."""

    gpus: int
    price_per_h: float
    kind: str = ""
    """Of GPUs; empty: any."""
    memory_bytes: int | None = None
    """On each of its GPUs; None: they are its own."""


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


class Room:
    """What the caps leave. Each replica and each start is taken from it once."""

    def __init__(self, limits: FleetLimits, taken: Iterable[Size], starts_left: int) -> None:
        self._limits = limits
        self._starts_left = starts_left
        self._replicas = 0
        self._gpus = 0
        self._cost_per_h = 0.0
        for size in taken:
            self._occupy(size)

    def __repr__(self) -> str:
        return f"<Room replicas={self._replicas} gpus={self._gpus} starts_left={self._starts_left}>"

    def refuses(self, size: Size, *, starts: bool) -> str | None:
        """The cap that one more such replica would break; None when it fits."""
        limits = self._limits
        if limits.max_replicas is not None and self._replicas + 1 > limits.max_replicas:
            return "fleet.max_replicas"
        if limits.max_gpus is not None and self._gpus + size.gpus > limits.max_gpus:
            return "fleet.max_gpus"
        # A thousandth of a cent: sums of prices are not exact in floats.
        if (
            limits.max_cost_per_h is not None
            and self._cost_per_h + size.price_per_h > limits.max_cost_per_h + 1e-5
        ):
            return limits.cost_rule
        return "fleet.max_starts_per_hour" if starts and self._starts_left <= 0 else None

    def take(self, size: Size, *, starts: bool) -> str | None:
        """Take the room for one more; the cap that forbids it, or None when it was taken."""
        refused = self.refuses(size, starts=starts)
        if refused is None:
            self._occupy(size)
            self._starts_left -= starts
        return refused

    def exchange(self, old: Size, new: Size) -> str | None:
        """Let one that is there take another size; the cap that forbids it, or None when it has been done."""
        self._replicas -= 1
        self._gpus -= old.gpus
        self._cost_per_h -= old.price_per_h
        # What needs no more than before breaks nothing that is not broken already.
        grows = new.gpus > old.gpus or new.price_per_h > old.price_per_h
        refused = self.refuses(new, starts=False) if grows else None
        self._occupy(new if refused is None else old)
        return refused

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

    def _occupy(self, size: Size) -> None:
        self._replicas += 1
        self._gpus += size.gpus
        self._cost_per_h += size.price_per_h


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


@value
class PoolGrant:
    """What a model may hold beside what serves. What it has beyond this makes room for others."""

    warm: int
    sleeping: int


def grant_pools(
    wishes: Sequence[PoolWish], limits: FleetLimits, taken: Iterable[Size]
) -> dict[ModelId, PoolGrant]:
    """Every model's pool, within what the caps leave beside ``taken``: sleepers first, since they take next to
    nothing and cost a whole start to get back; then the least warm ones, then those that may just as well stay."""
    room = Room(limits, taken, 0)
    asleep: dict[ModelId, int] = {}
    warm: dict[ModelId, int] = {}
    for wish in wishes:
        asleep[wish.model] = _filled(room, wish.sleeping_size, max(wish.sleeping, wish.kept_asleep))
        warm[wish.model] = 0
    for wish in wishes:
        warm[wish.model] = _filled(room, wish.warm_size, wish.warm)
    for wish in wishes:
        more = max(0, wish.kept_warm - wish.warm) if warm[wish.model] == wish.warm else 0
        warm[wish.model] += _filled(room, wish.warm_size, more)
    return {wish.model: PoolGrant(warm[wish.model], asleep[wish.model]) for wish in wishes}


def _filled(room: Room, size: Size, count: int) -> int:
    for taken in range(count):
        if room.take(size, starts=False) is not None:
            return taken
    return count


def grant(
    wishes: Sequence[Wish], limits: FleetLimits, leaving: Iterable[Size], starts_left: int
) -> dict[ModelId, Grant]:
    """Every model's number, within all limits at once. ``leaving`` still takes room but can't be kept.

    Room is given out in this order, in each step to whoever has least:

    1. what runs, up to each model's minimum;
    2. what runs and is wanted: a running replica is not stopped for somebody's wish to start one, or to wake one;
    3. missing minimums;
    4. a first replica for each model that has none;
    5. the rest;
    6. models whose starts fail.
    """
    room = Room(limits, leaving, starts_left)
    if room.holds(wishes):  # then the order does not matter, and nearly always it is so
        return {wish.model: _outcome(wish, wish.bounded, None) for wish in wishes}
    sharing = _Sharing(room)
    startable = [wish for wish in wishes if wish.can_start]
    sharing.fill(wishes, lambda wish: min(wish.awake, wish.min_replicas))  # 1
    sharing.fill(wishes, lambda wish: min(wish.awake, wish.bounded))  # 2
    sharing.fill(startable, lambda wish: wish.min_replicas)  # 3
    sharing.fill(startable, lambda wish: min(1, wish.bounded))  # 4
    sharing.fill(startable, lambda wish: wish.bounded)  # 5
    sharing.fill(wishes, lambda wish: wish.bounded)  # 6
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
        cap = self._room.take(wish.size_of(have), starts=have >= wish.held)
        if cap is not None:
            self._refused[wish.model] = cap
            return False
        self._granted[wish.model] = have + 1
        return True
