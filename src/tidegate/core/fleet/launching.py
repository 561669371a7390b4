"""Where starts are held to the caps: the last look before a replica is launched.

The final clamp bounds the number; this bounds the act. A replica that drains or is being stopped still
takes its GPUs, so what takes its place waits until it is gone.
"""

from __future__ import annotations

from functools import cached_property

from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replicas
from tidegate.core.fleet.scaling.limits import Room, Size
from tidegate.core.fleet.starts import Block, StartBudget
from tidegate.core.lifecycle import State
from tidegate.core.settings import FleetLimits


class Launching:
    """What may be started at this moment, with all that takes room at this moment."""

    def __init__(self, replicas: Replicas, budget: StartBudget, limits: FleetLimits, now_s: float) -> None:
        self._replicas = replicas
        self._budget = budget
        self._limits = limits
        self._now_s = now_s

    @cached_property
    def _room(self) -> Room:
        """Looked at only when something is to be started: most turns start nothing."""
        taken = [replica.size for replica in self._replicas if not replica.is_gone]
        return Room(self._limits, taken, self._budget.left(self._limits.max_starts_per_hour, self._now_s))

    @property
    def _is_leaving(self) -> bool:
        return any(not r.is_gone and (r.is_ended or r.state is State.DRAINING) for r in self._replicas)

    def take(self, plan: Plan, variant: str) -> bool:
        """Take the room for one more replica of this model and variant, if there is room."""
        if self._room.take(plan.size_as(variant), starts=True) is not None:
            return False
        self._budget.note(self._now_s)
        return True

    def exchange(self, old: Size, new: Size) -> str | None:
        """Let a replica take another size than it does; the cap that forbids it, or None when it may."""
        return None if old == new else self._room.exchange(old, new)

    def obstacle_to_waking(self, asleep: Size, awake: Size) -> Block | None:
        """Why a sleeper cannot be woken, now or as soon as what leaves is gone: somebody else may have its GPU."""
        if self.has_room_instead(asleep, awake):
            return None
        cap = self._room.exchange(asleep, awake) or ""
        return None if self._is_leaving else Block(cap, *self._explain(cap))

    def has_room_beside(self, plan: Plan) -> bool:
        """One more may run beside those that it is to replace, as far as is known. How many GPUs there are
        is known by ``fleet.max_gpus`` only; without it, one that needs some would be started in vain."""
        if plan.size.gpus and self._limits.max_gpus is None:
            return False
        return self._room.refuses(plan.size, starts=True) in (None, "fleet.max_starts_per_hour")

    def has_room_now(self, size: Size) -> bool:
        """One of this size fits beside all that is there, the starts of the hour left aside."""
        return self._room.refuses(size, starts=False) is None

    def has_room_instead(self, old: Size, new: Size) -> bool:
        """One would fit as soon as another is gone."""
        if self._room.exchange(old, new) is not None:
            return False
        self._room.exchange(new, old)  # It was only asked for.
        return True

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
        cap = self._room.refuses(plan.size_as(variant), starts=True)
        if cap is None or (cap != "fleet.max_starts_per_hour" and self._is_leaving):
            return None
        return Block(cap, *self._explain(cap))

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
