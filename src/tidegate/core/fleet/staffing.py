"""The difference between wanted and there: keep, promote, wake, launch or drain until each model has its number.

It carries out numbers and decides none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.core.fleet import drain
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.leaving import Leaving
from tidegate.core.fleet.mixed import Mixed
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.pooling import Pools
from tidegate.core.fleet.renewing import Renewing
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.roster import Order, Roster
from tidegate.core.fleet.warmpool import FOR_POOL, Crew
from tidegate.core.lifecycle import State
from tidegate.core.types import ModelId


class Staffing:
    """Gives the orders that bring each model to its number."""

    def __init__(self, roster: Roster, pools: Pools, leaving: Leaving) -> None:
        self._roster = roster
        self._pools = pools
        self._leaving = leaving
        self._renewing = Renewing(roster, pools, leaving)
        self.leaves_s: list[float] = []
        """The moments at which those that are announced as leaving are to go."""
        self._mixed = Mixed(roster, pools, leaving, self.leaves_s)

    def __repr__(self) -> str:
        return f"<Staffing leaves={len(self.leaves_s)}>"

    def act(
        self, by_model: Mapping[ModelId, Sequence[Replica]], launching: Launching, now_s: float
    ) -> list[Order]:
        """Keep, launch or drain until each model has its number, as far as room and gates allow."""
        unwanted = [
            r
            for r in self._roster.replicas
            if r.model not in self._roster.plans and (r.is_live or r.state is State.SLEEPING)
        ]
        effects = self._leaving.drain(unwanted, "its model was removed", now_s)
        self.leaves_s.clear()
        pooled: list[Plan] = []
        for model, plan in self._roster.plans.items():
            replicas = by_model.get(model, [])
            if plan.spec.pool.group:  # one of them may have been lent in this very turn
                replicas = [replica for replica in replicas if replica.model == model]
            live = [replica for replica in replicas if replica.is_live]
            if plan.lineup is not None and plan.desired:
                effects += self._mixed.staff(plan, plan.lineup, replicas, launching, now_s)
            elif plan.desired and any(r.spec is not plan.spec and plan.is_outdated(r) for r in live):
                effects += self._renewing.renew(plan, replicas, launching, now_s)
                continue
            else:
                effects += self._staff(plan, replicas, launching, now_s)
            is_pooled = plan.spec.pool.is_used or self._pools.is_to_hold(model)
            if is_pooled or any(r.is_warm or r.state is State.SLEEPING for r in replicas):
                pooled.append(plan)
        # Last, so that what serves has had the room.
        for plan in pooled:
            effects += self._keep_pool(plan, launching, now_s)
        return effects

    def _staff(
        self, plan: Plan, replicas: Sequence[Replica], launching: Launching, now_s: float
    ) -> list[Order]:
        """Bring the number that serve, or come up to serve, to the one desired.

        Up, nearest first: promote, keep what drains, wake, launch. Down: what comes up and nobody waits for,
        then those with least to lose, into the pool if it takes them.
        """
        crew = Crew.of(replicas)
        effects: list[Order] = []
        leaving = self._surplus(plan, crew, now_s)
        missing = plan.desired - len(crew.serving)
        if missing > 0 and (crew.warm or plan.spec.pool.group):
            promoted = self._pools.promote(plan, self._pools.line(plan), missing, launching, now_s)
            effects += promoted
            missing -= len(promoted)
        lacking = missing - len(crew.coming)
        if lacking > 0:
            kept = drain.kept_first([r for r in crew.kept if not plan.is_outdated(r)])[:lacking]
            lacking -= self._leaving.call_back(kept, launching, now_s)
            woken = self._pools.wake(plan, crew.asleep, lacking, launching, plan.because, now_s)
            # One that is about to sleep is woken as soon as it does: sooner than any start would be over.
            lacking -= len(woken) + len(crew.dozing)
            coming_up = sum(r.is_coming_up for r in crew.coming)
            return effects + woken + self._roster.launch(plan, lacking, coming_up, launching, now_s)
        idle = len(crew.coming) - max(0, missing)
        if idle > 0 and plan.spec.pool.is_used:
            idle -= min(idle, self._pools.short(plan, crew))
        if missing == 0 and not crew.coming:
            return effects  # nearly always
        standing = len(crew.serving) + len(crew.coming)
        because = f"{plan.desired} of {standing} wanted: {plan.because}"
        effects += self._leaving.drain(
            drain.victims(crew.coming, max(0, idle), self._roster.demand), because, now_s
        )
        return effects + self._pools.put_away(plan, crew, leaving, because, now_s)

    def _surplus(self, plan: Plan, crew: Crew, now_s: float) -> list[Replica]:
        """Of those that serve beyond the number desired, the ones to go in this turn; the others of them are announced.
        What a cap takes goes at once."""
        surplus = drain.victims(crew.serving, len(crew.serving) - plan.desired, self._roster.demand)
        handover_s = 0.0 if plan.is_capped else plan.spec.handover_s
        gone = drain.due(crew.serving, surplus, handover_s, now_s)
        staying = [replica for replica in surplus if replica not in gone]
        self.leaves_s += [r.leaves_at_s for r in staying if r.leaves_at_s is not None]
        return gone

    def _keep_pool(self, plan: Plan, launching: Launching, now_s: float) -> list[Order]:
        """Put to sleep, end, wake and start until the pool is as it should be."""
        effects: list[Order] = []
        mine = self._roster.replicas.by_model().get(plan.model, [])
        waiting = [r for r in mine if r.is_warm or r.state is State.SLEEPING]
        outdated = [r for r in waiting if plan.is_outdated(r)]
        effects += self._leaving.drain(outdated, "its settings have changed", now_s)
        crew = Crew.of(mine)
        todo = self._pools.look_at(plan, crew, now_s)
        told = self._pools.tell(plan, todo)
        effects += [told] if told is not None else []
        for replica, because in todo.to_end:
            effects += self._leaving.drain([replica], f"{FOR_POOL}: {because}", now_s)
        for replica, because in todo.to_sleep:
            effects.append(self._pools.put_to_sleep(plan, replica, f"{FOR_POOL}: {because}", now_s))
        if todo.to_wake:
            because = f"{FOR_POOL}: one more warm"
            effects += self._pools.wake(plan, crew.asleep, todo.to_wake, launching, because, now_s)
        if todo.missing:
            effects += self._fill_pool(plan, mine, todo.missing, launching, now_s)
        return effects

    def _fill_pool(
        self, plan: Plan, mine: Sequence[Replica], missing: int, launching: Launching, now_s: float
    ) -> list[Order]:
        """Start so many for the pool, of the variant that is held there."""
        alike = [r for r in mine if r.variant == plan.reserve and not r.is_ended]
        most = plan.spec_as(plan.reserve).own_max_replicas
        if most is not None:
            missing = min(missing, most - len(alike))
        coming_up, because = sum(r.is_coming_up for r in alike), f"{FOR_POOL} is short of it"
        return self._roster.launch(plan, missing, coming_up, launching, now_s, because, plan.reserve)
