"""From replicas that were started under former settings to those of today, step by step."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.fleet import drain
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.leaving import Leaving
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.pooling import Pools
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.roster import Order, Roster
from tidegate.core.lifecycle import State


class Renewing:
    """Swaps old replicas for new ones: grow first where there is room, else shrink first."""

    def __init__(self, roster: Roster, pools: Pools, leaving: Leaving) -> None:
        self._roster = roster
        self._pools = pools
        self._leaving = leaving

    def __repr__(self) -> str:
        return "<Renewing>"

    def renew(
        self, plan: Plan, replicas: Sequence[Replica], launching: Launching, now_s: float
    ) -> list[Order]:
        """One step from replicas that were started under former settings to those of today.

        1. Old ones that serve stay until as many new ones serve; old ones on their way up go at once.
        2. New ones are launched one at a time, or as many as are missing.
        3. Where there is no room for one beside, an old one goes first, once nothing of its kind is on its
           way out or up and starts do not fail. What serves is worth more than what may never start.
        """
        live = [replica for replica in replicas if replica.is_live]
        for replica in live:
            replica.leaves_at_s = None  # who goes is another question now
        new = [replica for replica in live if not plan.is_outdated(replica)]
        old = [replica for replica in live if plan.is_outdated(replica)]
        unready = [replica for replica in old if replica.state is not State.SERVING]
        stay = max(0, plan.desired - sum(replica.state is State.SERVING for replica in new))
        effects = self._leaving.replace(unready, "its settings have changed", now_s)  # 1
        old = [replica for replica in old if replica.is_live]
        surplus = drain.victims(old, max(0, len(old) - stay), self._roster.demand)
        effects += self._leaving.replace(
            surplus, "its settings have changed; a new one serves in its place", now_s
        )
        if any(replica.is_warm for replica in new):
            serving = sum(replica.state is State.SERVING for replica in new)
            effects += self._pools.promote(
                plan, self._pools.line(plan), plan.desired - serving, launching, now_s
            )
            new = [replica for replica in new if not replica.is_warm]
        excess = drain.victims(new, max(0, len(new) - plan.desired), self._roster.demand)
        effects += self._leaving.drain(excess, f"{plan.desired} wanted: {plan.because}", now_s)
        old = [replica for replica in old if replica.is_live]
        coming_up = sum(replica.is_coming_up for replica in new if replica.is_live)
        missing = plan.desired - len(new) - len(old)
        if missing <= 0 and (not old or len(new) >= plan.desired or coming_up):
            return effects
        if missing > 0 or launching.has_room_beside(plan):
            return effects + self._roster.launch(plan, max(1, missing), coming_up, launching, now_s)  # 2
        if not self._leaving.is_replacing(plan, replicas, now_s):
            first = drain.victims(old, 1, self._roster.demand)
            why = "its settings have changed, and there is no room for a new one beside it"
            effects += self._leaving.replace(first, why, now_s)  # 3
        return effects
