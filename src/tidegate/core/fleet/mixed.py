"""Brings a model that has variants to its line-up.

What is warm is promoted and what sleeps is woken, where the line-up names it; who is not needed any more goes to the pool
if that takes it.

Grow first: what is to be started is started before anybody who serves for it goes. Where no room is left for that, and
only there, one that stays for the time being goes first, and the other is started once its end was seen:

- one that was started under former settings at once, as everywhere else (``renewing``);
- another one when the model has been short of what is needed for its scale-down delay; the last one that serves only if
  the other is there before requests give up. What serves is worth more than what may never start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidegate.core.fleet import drain
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.leaving import Leaving
from tidegate.core.fleet.lineup import Lineup
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.pooling import Pools
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.roster import Order, Roster
from tidegate.core.fleet.variants import DEFAULT
from tidegate.core.fleet.warmpool import Crew
from tidegate.core.lifecycle import State
from tidegate.core.types import ModelId


class Mixed:
    """Gives the orders about models with variants."""

    def __init__(self, roster: Roster, pools: Pools, leaving: Leaving, leaves_s: list[float]) -> None:
        """``leaves_s`` takes the moments at which those that are announced as leaving are to go."""
        self._roster = roster
        self._pools = pools
        self._leaving = leaving
        self._leaves_s = leaves_s
        self._short_since_s: dict[ModelId, float] = {}

    def __repr__(self) -> str:
        return f"<Mixed short={list(self._short_since_s)}>"

    def staff(
        self, plan: Plan, lineup: Lineup, replicas: Sequence[Replica], launching: Launching, now_s: float
    ) -> list[Order]:
        """One step towards the line-up, as far as it was granted."""
        named = plan.named
        waiting = [r for r in _in_order(lineup, replicas) if r.replica_id in named and r.is_pooled]
        effects = self._call_up(plan, waiting, launching, now_s) if waiting else []
        serving = [r for r in replicas if r.state is State.SERVING]
        surplus = [r for r in serving if r.replica_id not in named]
        gone = drain.due(serving, surplus, 0.0 if plan.is_capped else plan.spec.handover_s, now_s)
        self._leaves_s += [r.leaves_at_s for r in surplus if r not in gone and r.leaves_at_s is not None]
        idle = [r for r in replicas if r.is_nearly_up and r.replica_id not in named]
        if idle or gone:
            effects += self._let_go(plan, replicas, idle, gone, now_s)
        kept = [r for r in replicas if r.can_be_kept and r.replica_id in named]
        self._leaving.call_back(kept, launching, now_s)
        launched = self._launch(plan, lineup, replicas, launching, now_s)
        return effects + (launched or self._make_room(plan, lineup, replicas, launching, now_s))

    def _let_go(
        self, plan: Plan, replicas: Sequence[Replica], idle: list[Replica], gone: list[Replica], now_s: float
    ) -> list[Order]:
        """Those that come up and those that serve and are not in the line-up: to the pool, or for good."""
        because = f"{plan.desired} wanted: {plan.because}"
        outdated = [r for r in (*idle, *gone) if plan.is_outdated(r)]
        effects = self._leaving.replace(outdated, "its settings have changed", now_s)
        idle, gone = [[r for r in each if r not in outdated] for each in (idle, gone)]
        if (idle or gone) and plan.spec.pool.is_used:
            crew = Crew.of(replicas)
            # Those that have been coming for longest stay for it.
            idle = idle[self._pools.short(plan, crew) :]
            effects += self._pools.put_away(plan, crew, gone, because, now_s)
            gone = []
        return effects + self._leaving.drain((*idle, *gone), because, now_s)

    def _call_up(
        self, plan: Plan, waiting: Sequence[Replica], launching: Launching, now_s: float
    ) -> list[Order]:
        """Promote and wake those of the pool that are to serve."""
        asleep = [r for r in waiting if r.state is State.SLEEPING]
        number = len(waiting)
        return [
            *self._pools.promote(plan, [r for r in waiting if r.is_warm], number, launching, now_s),
            *self._pools.wake(plan, asleep, number, launching, plan.because, now_s),
        ]

    def _launch(
        self, plan: Plan, lineup: Lineup, replicas: Sequence[Replica], launching: Launching, now_s: float
    ) -> list[Order]:
        missing = Counter(p.variant for p in lineup.parts[: plan.desired] if p.replica_id is None)
        coming = Counter(r.variant for r in replicas if r.is_coming_up)
        effects: list[Order] = []
        for variant, count in missing.items():
            lent = [replica for replica in self._pools.lent(plan) if replica.variant == variant]
            promoted = self._pools.promote(plan, lent, count, launching, now_s)
            count -= len(promoted)
            effects += promoted
            effects += self._roster.launch(plan, count, coming[variant], launching, now_s, variant=variant)
        return effects

    def _make_room(
        self, plan: Plan, lineup: Lineup, replicas: Sequence[Replica], launching: Launching, now_s: float
    ) -> list[Order]:
        """Nothing could be started: let one go that is in the way of what is to be."""
        starts = [part.variant for part in lineup.parts if part.replica_id is None]
        stay = {part.replica_id for part in lineup.parts if part.is_bridge}
        bridging = [
            replica
            for replica in _in_order(lineup, replicas)
            if replica.replica_id in stay and not replica.is_pooled
        ]
        is_up = any(r.is_coming_up for r in replicas)
        if not starts or not bridging or is_up or self._leaving.is_replacing(plan, replicas, now_s):
            self._short_since_s.pop(plan.model, None)
            return []
        first = next((r for r in reversed(bridging) if plan.is_outdated(r)), None)
        if first is None and self._is_short(plan, lineup, now_s):
            serving = sum(r.state is State.SERVING for r in replicas)
            # Else the quicker one would be started again, and go again.
            in_time = self._roster.ready_s(plan, starts[0]) <= plan.spec.max_wait_s
            first = bridging[-1] if serving > 1 or in_time else None
        if first is None or not self._fits_instead(plan, first, starts[0], len(lineup.parts), launching):
            return []
        self._short_since_s.pop(plan.model, None)
        because = f"there is no room for one of {starts[0] or DEFAULT} beside it"
        return self._leaving.replace([first], because, now_s)

    def _is_short(self, plan: Plan, lineup: Lineup, now_s: float) -> bool:
        """It has carried less than is needed for so long that somebody may go for a larger one."""
        if lineup.carries(lineup.there):
            self._short_since_s.pop(plan.model, None)
            return False
        since_s = self._short_since_s.setdefault(plan.model, now_s)
        return now_s >= since_s + plan.spec.scaling.scale_down_delay_s

    def _fits_instead(
        self, plan: Plan, old: Replica, variant: str, places: int, launching: Launching
    ) -> bool:
        if launching.has_room_now(plan, variant):
            return places > plan.spec.scaling.max_replicas
        return launching.has_room_instead(old, plan, variant)


def _in_order(lineup: Lineup, replicas: Sequence[Replica]) -> list[Replica]:
    """Those that the line-up names. One that it names may have been lent in this very turn."""
    by_id = {replica.replica_id: replica for replica in replicas}
    return [by_id[p.replica_id] for p in lineup.parts if p.replica_id is not None and p.replica_id in by_id]
