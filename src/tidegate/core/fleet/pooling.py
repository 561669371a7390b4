"""What is held beside those that serve: what each model may hold, and the orders about it.

What the cheapest mix asks for is another's business (``reserves``), and so is who serves; what is left of the caps
once that is settled is shared among the pools (``limits.grant_pools``), so a pool gives way to anybody's first
replica: shrink first, see it done, then grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.core.effects import Demote, Pooled, Promote, Sleep, Wake
from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.leaving import Leaving
from tidegate.core.fleet.placement import Ground
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.pooltold import pooled
from tidegate.core.fleet.replicas import Replica, Replicas, size_in
from tidegate.core.fleet.reserves import Reserves
from tidegate.core.fleet.roster import Order
from tidegate.core.fleet.scaling.limits import PoolGrant, PoolWish, Warm, grant_pools
from tidegate.core.fleet.warmpool import Crew, Upkeep, in_line, may_return, upkeep
from tidegate.core.lifecycle import Seen, State
from tidegate.core.settings import FleetLimits
from tidegate.core.types import ModelId

SLEEP_WITHIN_S = 60.0
"""An engine that has not gone to sleep by then is ended: nobody knows what it holds."""

WAKE_AGAIN_S = 30.0
"""A sleeper wakes on its own GPUs only. While somebody else has them another replica is started instead."""

PoolOrder = Promote | Demote | Sleep | Wake

NO_ROOM = PoolGrant(0, 0)


class Pools:
    """Every model's pool."""

    def __init__(self, replicas: Replicas, demand: DemandBook, cold: ColdStarts, leaving: Leaving) -> None:
        self._replicas = replicas
        self._demand = demand
        self._leaving = leaving
        self.reserves = Reserves(cold)
        self._grants: dict[ModelId, PoolGrant] = {}
        self._told: dict[ModelId, Pooled] = {}

    def __repr__(self) -> str:
        return f"<Pools {self.reserves!r}>"

    def granted(self, model: ModelId) -> PoolGrant:
        """What this model may hold."""
        return self._grants.get(model, NO_ROOM)

    def share(
        self,
        plans: Mapping[ModelId, Plan],
        by_model: Mapping[ModelId, Sequence[Replica]],
        limits: FleetLimits,
        ground: Ground | None = None,
    ) -> None:
        """Give out what the caps leave beside those that are to serve.

        What is on its way out makes room for what is to come, so it does not count here; that nothing is started
        before the room is free is held where it is started. ``ground``: the nodes with what is to serve, if somebody is
        to be started.
        """
        if not self._told.keys() <= plans.keys():
            self._told = {model: told for model, told in self._told.items() if model in plans}
        pooled = [plan for plan in plans.values() if plan.spec.pool.is_used]
        if not pooled:
            self._grants = {}
            return
        taken = [size for plan in plans.values() for size in plan.taken]
        wishes = [self._wish(plan, by_model.get(plan.model, ())) for plan in pooled]
        self._grants = grant_pools(wishes, limits, taken, ground)

    def _wish(self, plan: Plan, replicas: Sequence[Replica]) -> PoolWish:
        spec, pool, held = plan.spec, plan.spec.pool, Crew.of(replicas).beside(plan)
        asked = self.reserves.asked(plan, held)
        may_come = len(held.warm) + len(held.coming) + held.surplus
        return PoolWish(
            model=plan.model,
            warm=min(pool.max_warm, max(pool.min_warm, asked.warm)),
            kept_warm=min(pool.max_warm, may_come),
            sleeping=min(pool.max_sleeping, asked.sleeping),
            kept_asleep=min(pool.max_sleeping, len(held.asleep) + len(held.dozing) + may_come),
            warm_size=size_in(plan.spec_as(plan.reserve), State.WARM),
            sleeping_size=size_in(spec, State.SLEEPING),
            standing=tuple(Warm(r.replica_id, r.size, r.place) for r in reversed(held.warm)),
        )

    # ---- orders ----

    def promote(
        self, plan: Plan, line: Iterable[Replica], missing: int, launching: Launching, now_s: float
    ) -> list[PoolOrder]:
        """Give traffic to so many of these warm ones, in this order, as far as there is room."""
        orders: list[PoolOrder] = []
        for replica in line:
            if len(orders) >= missing:
                break
            if plan.is_outdated(replica):
                continue
            if launching.exchange(replica.size, size_in(replica.spec, State.SERVING)) is not None:
                continue
            if replica.model != plan.model:
                self._replicas.lend(replica, plan.model)
            replica.move(Seen.PROMOTED, now_s)
            orders.append(Promote(replica.replica_id, plan.model, f"{plan.desired} wanted, and it is warm"))
        return orders

    def line(self, plan: Plan) -> list[Replica]:
        """The model's warm ones, first in first out; after its own, those of its group."""
        return [*in_line(self._replicas.by_model().get(plan.model, ())), *self.lent(plan)]

    def lent(self, plan: Plan) -> list[Replica]:
        """Warm ones that other models of its group could lend it, first in first out."""
        group = plan.spec.pool.group
        if not group:
            return []
        return in_line(
            replica
            for model, replicas in self._replicas.by_model().items()
            if model != plan.model
            for replica in replicas
            if replica.spec.pool.group == group
        )

    def wake(
        self,
        plan: Plan,
        asleep: Iterable[Replica],
        missing: int,
        launching: Launching,
        because: str,
        now_s: float,
    ) -> list[PoolOrder]:
        """Wake so many of these sleepers, as far as there is room: the cheapest first, then the one asleep for longest."""
        orders: list[PoolOrder] = []
        for replica in sorted(asleep, key=lambda r: (r.spec.price_per_h, r.since_s, r.number)):
            if len(orders) >= missing:
                break
            if (
                plan.is_outdated(replica)
                or replica.state is not State.SLEEPING
                or now_s < replica.wake_again_s
            ):
                continue
            if launching.exchange(replica.size, size_in(replica.spec, State.WAKING), replica.place) is None:
                replica.move(Seen.WAKING, now_s)
                orders.append(Wake(replica.replica_id, because))
        return orders

    def put_away(
        self, plan: Plan, crew: Crew, replicas: Iterable[Replica], because: str, now_s: float
    ) -> list[Order]:
        """Serving ones into the pool as far as that takes them; what they work on goes on. The rest drains."""
        effects: list[Order] = []
        pool, grant = plan.spec.pool, self.granted(plan.model)
        for replica in replicas:
            if pool.is_used and may_return(pool, crew, grant):
                crew.warm.append(replica)
                replica.move(Seen.DEMOTED, now_s)
                effects.append(Demote(replica.replica_id, because))
            else:
                effects += self._leaving.drain([replica], because, now_s)
        return effects

    def look_at(self, plan: Plan, crew: Crew, now_s: float) -> Upkeep:
        """What is to be done about one model's pool."""
        held = crew.beside(plan)
        sleepable = [replica for replica in held.warm if self._is_empty(replica)]
        return upkeep(
            plan.spec.pool,
            held,
            self.reserves.asked(plan, held),
            self.granted(plan.model),
            sleepable,
            now_s,
            is_known=plan.demand.complete_since_s is not None,
        )

    def is_to_hold(self, model: ModelId) -> bool:
        """The pool of this model was said to hold somebody."""
        told = self._told.get(model)
        return told is not None and bool(told.warm or told.sleeping)

    def tell(self, plan: Plan, todo: Upkeep) -> Pooled | None:
        """What this pool is to hold, when there is something new to say of it."""
        told = pooled(
            plan,
            todo,
            self.granted(plan.model),
            self.reserves.inputs(plan.model),
            self._told.get(plan.model),
        )
        if told is not None:
            self._told[plan.model] = told
        return told

    def short(self, plan: Plan, crew: Crew) -> int:
        """How many more of this model, than are warm or asleep now, the pool waits for."""
        pool, grant = plan.spec.pool, self.granted(plan.model)
        asked = self.reserves.asked(plan, crew.beside(plan))
        count = min(grant.warm, pool.max_warm, max(pool.min_warm, asked.warm))
        count += min(grant.sleeping, pool.max_sleeping, asked.sleeping)
        warm = sum(replica.is_warm for replica in crew.warm)
        return max(0, count - warm - len(crew.asleep) - len(crew.dozing))

    def due_s(self, replica: Replica, now_s: float) -> float | None:
        """When one of the pool's times is over for one that is warm or asleep."""
        pool = replica.spec.pool
        if replica.sleep_ordered_s is not None:
            return replica.sleep_ordered_s + SLEEP_WITHIN_S
        if replica.state is State.SLEEPING:
            return replica.since_s + pool.sleeping_ttl_s
        moments = (replica.since_s + pool.sleep_after_s, replica.since_s + pool.warm_ttl_s)
        return min((moment for moment in moments if moment > now_s), default=None)

    def put_to_sleep(self, plan: Plan, replica: Replica, because: str, now_s: float) -> PoolOrder:
        """Its requests have ended: have its GPUs given back."""
        replica.sleep_ordered_s = now_s
        return Sleep(replica.replica_id, plan.spec.pool.sleep_level, because)

    def _is_empty(self, replica: Replica) -> bool:
        if not replica.has_served:
            return True
        version = replica.drain_version
        return version is not None and self._demand.is_empty(replica.replica_id, version)
