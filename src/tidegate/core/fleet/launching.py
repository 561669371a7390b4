"""Where starts are held to the caps and get their places: the last look before a replica is launched.

The final clamp bounds the number; this bounds the act. A replica that drains or is being stopped still
takes its GPUs, so what takes its place waits until it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

from tidegate.core.fleet.placement import Ground
from tidegate.core.fleet.places import Places
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica, Replicas, size_in
from tidegate.core.fleet.scaling.room import Room
from tidegate.core.fleet.scaling.wishes import NO_PLACE
from tidegate.core.fleet.sizes import Size
from tidegate.core.fleet.starts import Block, StartBudget
from tidegate.core.lifecycle import State
from tidegate.core.nodes import NOWHERE, Place
from tidegate.core.settings import FleetLimits


class Launching:
    """What may be started at this moment, with all that takes room at this moment."""

    def __init__(
        self, replicas: Replicas, budget: StartBudget, limits: FleetLimits, places: Places, now_s: float
    ) -> None:
        self._replicas = replicas
        self._places = places
        self._budget = budget
        self._limits = limits
        self._now_s = now_s

    @cached_property
    def _room(self) -> Room:
        """Looked at only when something is to be started: most turns start nothing."""
        taken = [replica.size for replica in self._replicas if not replica.is_gone]
        left = self._budget.left(self._limits.max_starts_per_hour, self._now_s)
        return Room(self._limits, taken, left, self._places.ground(self._replicas))

    @cached_property
    def _room_beside_pools(self) -> Room:
        """Without the warm ones: whoever is to serve has their room for the asking."""
        standing = [r for r in self._replicas if not r.is_gone and r.state is not State.WARM]
        if not any(r.state is State.WARM for r in self._replicas):
            return self._room
        left = self._budget.left(self._limits.max_starts_per_hour, self._now_s)
        ground = self._places.bare()
        if ground is not None:
            for replica in standing:
                if replica.holds_place:
                    ground.hold(replica.place)
        return Room(self._limits, [replica.size for replica in standing], left, ground)

    @contextmanager
    def _beside_pools(self, own: Sequence[Replica]) -> Iterator[Room]:
        """Of one model: its own warm ones may be to serve themselves."""
        room = self._room_beside_pools
        if room is self._room or not own:
            yield room
            return
        with room.as_if():
            for replica in own:
                room.keep(replica.size, replica.place)
            yield room
            for replica in own:
                room.leave(replica.size, replica.place)

    @cached_property
    def _is_leaving(self) -> bool:
        """As of the first question about an obstacle: by then all orders of the turn are given."""
        return any(not r.is_gone and (r.is_ended or r.state is State.DRAINING) for r in self._replicas)

    def take(self, plan: Plan, variant: str) -> Place | None:
        """Take the room for one more replica of this model and variant, if there is room: where it goes."""
        if self._refuses(plan, variant) is not None:
            return None
        self._budget.note(self._now_s)
        is_kept_for = self._places.is_kept_for(plan.model)
        return self._room.start(plan.size_as(variant), is_kept_for=is_kept_for)

    def exchange(self, old: Size, new: Size, place: Place = NOWHERE) -> str | None:
        """Let a replica, which stands at this place, take another size than it does; the cap that forbids it, or None
        when it may."""
        if old == new:
            return None
        return self._room.exchange(old, new, place)

    def obstacle_to_waking(self, asleep: Size, awake: Size, place: Place = NOWHERE) -> Block | None:
        """Why a sleeper cannot be woken, now or as soon as what leaves is gone: somebody else may have its GPU."""
        cap = self.exchange(asleep, awake, place)
        if cap is None:
            self.exchange(awake, asleep, place)  # It was only asked for.
            return None
        if cap == NO_PLACE:
            clear = self._cleared
            if clear is None or clear.fits(place):
                return None
            return Block(cap, f"it sleeps on {place}, which another replica has", None)
        return None if self._is_leaving else Block(cap, *self._explain(cap))

    def has_room_beside(self, plan: Plan) -> bool:
        """One more may run beside those that it is to replace, as far as is known. Where neither the
        nodes nor ``fleet.max_gpus`` say how many GPUs there are, one that needs some would be started in vain."""
        if plan.size.gpus and self._limits.max_gpus is None and not self._places.nodes:
            return False
        return self._refuses(plan, plan.following) in (None, "fleet.max_starts_per_hour")

    def has_room_now(self, plan: Plan, variant: str) -> bool:
        """One of this variant fits beside all that is there, the starts of the hour left aside."""
        is_kept_for = self._places.is_kept_for(plan.model)
        return self._room.fits_beside(plan.size_as(variant), is_kept_for=is_kept_for)

    def fit_beside_pools(self, plan: Plan, variants: Iterable[str], own: Sequence[Replica]) -> list[str]:
        """Of these variants, those of which one fits as soon as every other model's pool has given way, the starts of the
        hour left aside. ``own``: the warm ones of this model."""
        is_kept_for = self._places.is_kept_for(plan.model)
        with self._beside_pools(own) as room:
            return [
                name for name in variants if room.fits_beside(plan.size_as(name), is_kept_for=is_kept_for)
            ]

    def fit_together(self, plan: Plan, starts: Mapping[str, int], own: Sequence[Replica]) -> dict[str, int]:
        """How many of so many starts of each variant fit at once, as soon as every other model's pool has given way."""
        is_kept_for = self._places.is_kept_for(plan.model)
        fit: dict[str, int] = {}
        taken: list[tuple[Size, Place]] = []
        with self._beside_pools(own) as room, room.as_if():
            for name, number in starts.items():
                size = plan.size_as(name)
                fit[name] = 0
                while fit[name] < number and room.refuses(size, starts=False) is None:
                    place = room.place_for(size, is_kept_for=is_kept_for)
                    if place is None:
                        break
                    room.keep(size, place)
                    taken.append((size, place))
                    fit[name] += 1
            for size, place in taken:
                room.leave(size, place)
        return fit

    def wakes_now(self, sleeper: Replica) -> bool:
        """It could wake where it sleeps in this moment."""
        return _can_wake(sleeper, self._room)

    def wakes_beside_pools(self, sleeper: Replica, own: Sequence[Replica]) -> bool:
        """It could wake where it sleeps as soon as every other model's pool has given way."""
        with self._beside_pools(own) as room:
            return _can_wake(sleeper, room)

    def has_room_instead(self, old: Replica, plan: Plan, variant: str) -> bool:
        """One of this variant would fit as soon as this other replica is gone."""
        is_kept_for = self._places.is_kept_for(plan.model)
        return self._room.fits_instead(old.size, old.place, plan.size_as(variant), is_kept_for=is_kept_for)

    def obstacle(self, plan: Plan) -> Block | None:
        """Why no replica of this model can be started, now or as soon as what leaves is gone; of its variants the first."""
        found = [self._obstacle_to(plan, name) for name in plan.variants.specs]
        return None if None in found else found[0]

    def _obstacle_to(self, plan: Plan, variant: str) -> Block | None:
        gate = plan.variants.gate(variant)
        block = gate.block(self._now_s)
        if block is not None and gate.has_given_up:
            # That it will be ready when it is tried again is not known; that it will not be before, is.
            return block
        if plan.spec.scaling.max_replicas == 0:
            return Block("max_replicas", "its max_replicas is 0", None)
        cap = self._refuses(plan, variant)
        if cap == NO_PLACE:
            return self._no_place(plan, variant)
        if cap is None or (cap != "fleet.max_starts_per_hour" and self._is_leaving):
            return None
        return Block(cap, *self._explain(cap))

    def _refuses(self, plan: Plan, variant: str) -> str | None:
        is_kept_for = self._places.is_kept_for(plan.model)
        return self._room.refuses(plan.size_as(variant), starts=True, is_kept_for=is_kept_for)

    def _no_place(self, plan: Plan, variant: str) -> Block | None:
        """None when there will be one as soon as what leaves is gone."""
        clear, ground, size = self._cleared, self._ground, plan.size_as(variant)
        if clear is None or ground is None:
            return None
        if clear.find(size, is_kept_for=self._places.is_kept_for(plan.model)) is not None:
            return None
        kept = self._places.kept
        until_s = kept.until_s if kept is not None and clear.find(size, is_kept_for=True) else None
        return Block(NO_PLACE, ground.why_not(size), until_s)

    @cached_property
    def _ground(self) -> Ground | None:
        return self._places.ground(self._replicas)

    @cached_property
    def _cleared(self) -> Ground | None:
        """The nodes without what leaves; of the same moment as ``_is_leaving``."""
        ground = self._places.bare()
        if ground is not None:
            for replica in self._replicas:
                if replica.holds_place and not (replica.is_ended or replica.state is State.DRAINING):
                    ground.hold(replica.place)
        return ground

    def _explain(self, cap: str) -> tuple[str, float | None]:
        limits = self._limits
        match cap:
            case "fleet.max_starts_per_hour":
                allowed = limits.max_starts_per_hour
                free_at_s = self._budget.free_at_s(allowed, self._now_s)
                return f"all {allowed} starts allowed in an hour are used", free_at_s
            case "fleet.max_replicas":
                return f"all {limits.max_replicas} replicas of the fleet are in use", None
            case "fleet.max_gpus":
                return f"not enough of the fleet's {limits.max_gpus} GPUs are free", None
            case "fleet.max_cost_per_day":
                return "one more would break the fleet's limit of money per day", None
            case _:
                return "one more would break the fleet's limit of money per hour", None


def _can_wake(sleeper: Replica, room: Room) -> bool:
    awake = size_in(sleeper.spec, State.WAKING)
    with room.as_if():
        refused = room.exchange(sleeper.size, awake, sleeper.place)
        if refused is None:
            room.exchange(awake, sleeper.size, sleeper.place)  # it was only asked for
    return refused is None
