"""What the fleet may have in this moment: starts, room, and money, within the limits over all models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.core.fleet.budget import Spending
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.places import Places
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replicas
from tidegate.core.fleet.starts import StartBudget
from tidegate.core.settings import FleetLimits


class Means:
    """Owns the limits, and the records of what was used of them."""

    def __init__(self, replicas: Replicas) -> None:
        self.starts = StartBudget()
        self.places = Places()
        self.spending = Spending()
        self._replicas = replicas
        self._limits = FleetLimits()
        self._limits_at: tuple[float, FleetLimits] | None = None
        """As they are in this moment."""

    def __repr__(self) -> str:
        return f"<Means {self.spending!r} {self._limits}>"

    def configure(self, limits: FleetLimits) -> None:
        """New limits. What was used is not forgotten."""
        self._limits = limits
        self._limits_at = None

    def limits(self, now_s: float) -> FleetLimits:
        """With what the day's money leaves for an hour's."""
        per_day = self._limits.max_cost_per_day
        if per_day is None:
            return self._limits
        if self._limits_at is None or self._limits_at[0] != now_s:
            allowed = self.spending.allowed_per_h(per_day, now_s)
            per_h = self._limits.max_cost_per_h
            if per_h is None or allowed < per_h:
                limits = replace(self._limits, max_cost_per_h=allowed, cost_rule="fleet.max_cost_per_day")
            else:
                limits = self._limits
            self._limits_at = (now_s, limits)
        return self._limits_at[1]

    def launching(self, now_s: float) -> Launching:
        """The starts of this moment, which take of what there is."""
        return Launching(self._replicas, self.starts, self.limits(now_s), self.places, now_s)

    def starts_left(self, now_s: float) -> int:
        """How many more may be started now."""
        return self.starts.left(self._limits.max_starts_per_hour, now_s)

    def next_start_s(self, now_s: float) -> float | None:
        """When the next start is allowed: now, later, or None for never."""
        return self.starts.free_at_s(self._limits.max_starts_per_hour, now_s)

    def may_spill(self, plans: Iterable[Plan], now_s: float) -> bool:
        """The day's money bears an hour of all that runs and of all that may be spilt in it: so spilling takes nothing
        of what the replicas need, however fast it goes."""
        per_day = self._limits.max_cost_per_day
        if per_day is None:
            return True
        spilt_per_h = sum(plan.spec.spill_cost_per_h for plan in plans)
        return self.spending.allowed_per_h(per_day, now_s) >= self.spending.rate_per_h + spilt_per_h
