"""What the caps over all models leave: replicas, GPUs, places on the nodes, money per hour, starts per hour.

Asked where numbers are granted (``limits``), and once more where replicas are started (``core.fleet.launching``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext

from tidegate.core.fleet.placement import Ground
from tidegate.core.fleet.scaling.wishes import NO_PLACE, Wish
from tidegate.core.fleet.sizes import Size
from tidegate.core.nodes import NOWHERE, Place
from tidegate.core.settings import FleetLimits


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
        self._fits: dict[tuple[Size, bool], bool] = {}
        """Answers since somebody last came or went: many models ask about few sizes."""
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

    def leave(self, size: Size, place: Place = NOWHERE) -> None:
        """Give back the room that was kept for one."""
        self._occupy(size, -1)
        if self._ground is not None:
            self._ground.free(place)

    @contextmanager
    def as_if(self) -> Iterator[None]:
        """Whoever comes or goes meanwhile is only asked about, and comes or goes back: what is remembered stays true."""
        fits, self._fits = self._fits, {}
        with nullcontext() if self._ground is None else self._ground.as_if():
            yield
        self._fits = fits

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

    def fits_beside(self, size: Size, *, is_kept_for: bool = False) -> bool:
        """One more fits beside all that is there; the starts left aside."""
        key = size, is_kept_for
        if key not in self._fits:
            is_allowed = self.refuses(size, starts=False) is None
            self._fits[key] = is_allowed and self.place_for(size, is_kept_for=is_kept_for) is not None
        return self._fits[key]

    def fits_instead(self, old: Size, place: Place, new: Size, *, is_kept_for: bool = False) -> bool:
        """One of a size would fit as soon as another, which stands at this place, is gone; the starts left aside."""
        self._occupy(old, -1)
        if self._ground is not None:
            self._ground.free(place)
        fits = self.fits_beside(new, is_kept_for=is_kept_for)
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
        self._fits.clear()
        self._replicas += by
        self._gpus += by * size.gpus
        self._cost_per_h += by * size.price_per_h
