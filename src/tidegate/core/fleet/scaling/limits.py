"""The final clamp: no path to a number of replicas goes around ``grant``.

Each model's own minimum and maximum, then the caps over all models: replicas, GPUs, money per hour,
starts per hour. The caps are the stronger ones: a minimum that they leave no room for is not met, and
the grant says which cap it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tidegate.core.settings import FleetLimits
from tidegate.core.types import ModelId


@dataclass(frozen=True, slots=True)
class Size:
    """What one replica takes."""

    gpus: int
    price_per_h: float


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
            return "fleet.max_cost_per_h"
        return "starts_per_hour" if starts and self._starts_left <= 0 else None

    def take(self, size: Size, *, starts: bool) -> str | None:
        """Take the room for one more; the cap that forbids it, or None when it was taken."""
        refused = self.refuses(size, starts=starts)
        if refused is None:
            self._occupy(size)
            self._starts_left -= starts
        return refused

    def _occupy(self, size: Size) -> None:
        self._replicas += 1
        self._gpus += size.gpus
        self._cost_per_h += size.price_per_h


def grant(
    wishes: Sequence[Wish], limits: FleetLimits, leaving: Iterable[Size], starts_left: int
) -> dict[ModelId, Grant]:
    """Every model's number, within all limits at once. ``leaving`` still takes room but can't be kept.

    Room is given out in this order, one replica a model and round, so that nobody takes it all:

    1. what runs, up to each model's minimum;
    2. what runs and is wanted: a running replica is not stopped for somebody's wish to start one;
    3. missing minimums;
    4. a first replica for each model that has none;
    5. the rest;
    6. models whose starts fail.
    """
    bounded = {wish.model: max(wish.min_replicas, min(wish.wanted, wish.max_replicas)) for wish in wishes}
    granted = dict.fromkeys(bounded, 0)
    refused: dict[ModelId, str] = {}
    room = Room(limits, leaving, starts_left)
    startable = [wish for wish in wishes if wish.can_start]

    def fill(among: Sequence[Wish], upto: Callable[[Wish], int]) -> None:
        open_wishes = list(among)
        while open_wishes:
            open_wishes = [
                wish for wish in open_wishes if advance(wish, min(upto(wish), bounded[wish.model]))
            ]

    def advance(wish: Wish, upto: int) -> bool:
        have = granted[wish.model]
        if have >= upto:
            return False
        cap = room.take(wish.size, starts=have >= wish.held)
        if cap is not None:
            refused[wish.model] = cap
            return False
        granted[wish.model] = have + 1
        return True

    fill(wishes, lambda wish: min(wish.held, wish.min_replicas))  # 1
    fill(wishes, lambda wish: wish.held)  # 2
    fill(startable, lambda wish: wish.min_replicas)  # 3
    fill(startable, lambda _: 1)  # 4
    fill(startable, lambda wish: wish.wanted)  # 5
    fill(wishes, lambda wish: max(wish.wanted, wish.min_replicas))  # 6
    return {w.model: Grant(granted[w.model], _holder(w, granted[w.model], refused)) for w in wishes}


def _holder(wish: Wish, granted: int, refused: dict[ModelId, str]) -> str | None:
    if granted < max(wish.min_replicas, min(wish.wanted, wish.max_replicas)):
        return refused.get(wish.model)
    if wish.wanted > wish.max_replicas:
        return "max_replicas"
    return "min_replicas" if wish.wanted < wish.min_replicas else None
