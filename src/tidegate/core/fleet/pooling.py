"""What is held beside those that serve: the mix of tiers that each model asks for, and the orders about it.

It owns what was learned of each model's growth. Who serves is the keeper's business; what is left of the caps
once that is settled is shared among the pools (``limits.grant_pools``), so a pool gives way to anybody's first
replica: shrink first, see it done, then grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from tidegate.core.effects import Demote, Promote, Sleep, Wake
from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.growth import Growth
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.placement import Ground
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica, Replicas, size_in
from tidegate.core.fleet.scaling.limits import PoolGrant, PoolWish, grant_pools
from tidegate.core.fleet.tiers import PUBLISHED_WAKE_S, Disk, Held, Offer, mix_with_disk
from tidegate.core.fleet.warmpool import Crew, Upkeep, in_line, upkeep
from tidegate.core.knowledge import KnownSpan
from tidegate.core.lifecycle import Seen, State
from tidegate.core.settings import FleetLimits
from tidegate.core.tiers import Tier
from tidegate.core.types import ModelId

MIX_EVERY_S = 10.0
"""How often a mix is worked out anew: what it rests on changes over minutes."""

SLEEP_WITHIN_S = 60.0
"""An engine that has not gone to sleep by then is ended: nobody knows what it holds."""

WAKE_AGAIN_S = 30.0
"""A sleeper wakes on its own GPUs only. While somebody else has them another replica is started instead."""

PoolOrder = Promote | Demote | Sleep | Wake

NOTHING = Held()
NO_ROOM = PoolGrant(0, 0)


class Pools:
    """Every model's pool."""

    def __init__(self, replicas: Replicas, demand: DemandBook, cold: ColdStarts) -> None:
        self._replicas = replicas
        self._demand = demand
        self._cold = cold
        self._growth: dict[ModelId, Growth] = {}
        self._mixes: dict[ModelId, tuple[float, int, Held]] = {}
        """With the moment at which each is to be worked out anew, and the number for which it was: what a sleeping
        model needs beside it is another thing than what a busy one does."""
        self._grants: dict[ModelId, PoolGrant] = {}

    def __repr__(self) -> str:
        return f"<Pools of {len(self._growth)} models>"

    def keep_only(self, models: Iterable[ModelId]) -> None:
        """Drop what is known of models that are no longer configured. Changed prices make new mixes."""
        kept = set(models)
        self._growth = {model: growth for model, growth in self._growth.items() if model in kept}
        self._mixes.clear()

    def mix(self, model: ModelId) -> Held:
        """What the cheapest mix holds of this model, as worked out last."""
        found = self._mixes.get(model)
        return found[2] if found else NOTHING

    def granted(self, model: ModelId) -> PoolGrant:
        """What this model may hold."""
        return self._grants.get(model, NO_ROOM)

    def remember(self, model: ModelId) -> tuple[KnownSpan, ...]:
        """Of this model's growth, what outlives this process."""
        growth = self._growth.get(model)
        return growth.remember() if growth else ()

    def restore(self, model: ModelId, known: Iterable[KnownSpan], now_s: float) -> None:
        """Go on from what a former process knew of its growth."""
        self._growth[model] = growth = Growth()
        growth.restore(known, now_s)

    # ---- what is asked for ----

    def note(self, plan: Plan, need: int, standing: int, now_s: float) -> None:
        """So many replicas are needed now, and so many stand for it."""
        if not plan.spec.pool.is_used:
            return
        growth = self._growth.get(plan.model)
        if growth is None:
            growth = self._growth[plan.model] = Growth()
        if plan.demand.complete_since_s is not None:  # what is not known teaches nothing
            growth.note(min(need, plan.spec.scaling.max_replicas), standing, now_s)
        mix = self._mixes.get(plan.model)
        if mix is None or now_s >= mix[0] or plan.desired != mix[1]:
            held = self._worked_out(plan, growth)
            self._mixes[plan.model] = (now_s + MIX_EVERY_S, plan.desired, held)

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
        pooled = [plan for plan in plans.values() if plan.spec.pool.is_used]
        if not pooled:
            self._grants = {}
            return
        taken = [size for plan in plans.values() for size in plan.taken]
        wishes = [self._wish(plan, Crew.of(by_model.get(plan.model, ()))) for plan in pooled]
        self._grants = grant_pools(wishes, limits, taken, ground)

    def _worked_out(self, plan: Plan, growth: Growth) -> Held:
        spec, pool = plan.spec, plan.spec.pool
        sure = 1.0 - pool.risk
        wake_s = self._cold.readiness(plan.model, pool.expected_wake_s, Tier.SLEEPING).quantile_s(sure)
        away_s = self._cold.readiness(plan.model, spec.expected_start_s).quantile_s(sure)
        # Nobody ever serves more than the most.
        spare = max(0, spec.scaling.max_replicas - plan.desired)
        rise = [(at_s, min(spare, more)) for at_s, more in growth.staircase(pool.risk, plan.desired)]
        warm = size_in(spec, State.WARM)
        asleep = size_in(spec, State.SLEEPING)
        offers = (
            Offer(Tier.WARM, 0.0, warm.price_per_h, pool.max_warm),
            Offer(
                Tier.SLEEPING,
                PUBLISHED_WAKE_S if wake_s is None else wake_s,
                asleep.price_per_h,
                pool.max_sleeping,
            ),
        )
        here_s = self._cold.readiness(plan.model, spec.expected_start_s, Tier.CACHED).quantile_s(sure)
        disk = None if here_s is None else Disk(here_s, pool.cached_price_per_h)
        return mix_with_disk(rise, offers, inf if away_s is None else away_s, pool.slack_s, disk)

    def _wish(self, plan: Plan, crew: Crew) -> PoolWish:
        spec, pool, mix = plan.spec, plan.spec.pool, self.mix(plan.model)
        coming = len(crew.coming) - crew.short_of(plan.desired)
        surplus = max(0, len(crew.serving) - plan.desired)
        return PoolWish(
            model=plan.model,
            warm=min(pool.max_warm, max(pool.min_warm, mix.warm)),
            kept_warm=min(pool.max_warm, len(crew.warm) + coming + surplus),
            sleeping=min(pool.max_sleeping, mix.sleeping),
            kept_asleep=min(
                pool.max_sleeping, len(crew.asleep) + len(crew.dozing) + len(crew.warm) + coming + surplus
            ),
            warm_size=size_in(spec, State.WARM),
            sleeping_size=size_in(spec, State.SLEEPING),
            places=tuple(replica.place for replica in crew.warm),
        )

    # ---- orders ----

    def promote(self, plan: Plan, missing: int, launching: Launching, now_s: float) -> list[PoolOrder]:
        """Give traffic to so many warm ones, first in first out; after its own, those of its group."""
        orders: list[PoolOrder] = []
        for replica in self._line(plan):
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

    def wake(
        self, plan: Plan, crew: Crew, missing: int, launching: Launching, because: str, now_s: float
    ) -> list[PoolOrder]:
        """Wake so many sleepers, as far as there is room: the cheapest first, then the one asleep for longest."""
        orders: list[PoolOrder] = []
        for replica in sorted(crew.asleep, key=lambda r: (r.spec.price_per_h, r.since_s, r.number)):
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

    def demote(self, replica: Replica, because: str, now_s: float) -> PoolOrder:
        """Take a serving one into the pool. What it works on goes on."""
        replica.move(Seen.DEMOTED, now_s)
        return Demote(replica.replica_id, because)

    def look_at(self, plan: Plan, crew: Crew, now_s: float) -> Upkeep:
        """What is to be done about one model's pool."""
        sleepable = [replica for replica in crew.warm if self._is_empty(replica)]
        return upkeep(
            plan.spec.pool,
            crew,
            plan.desired,
            self.mix(plan.model),
            self.granted(plan.model),
            sleepable,
            now_s,
            is_known=plan.demand.complete_since_s is not None,
        )

    def short(self, plan: Plan, crew: Crew) -> int:
        """How many more of this model, than are warm or asleep now, the pool waits for."""
        pool, mix, grant = plan.spec.pool, self.mix(plan.model), self.granted(plan.model)
        asked = min(grant.warm, pool.max_warm, max(pool.min_warm, mix.warm))
        asked += min(grant.sleeping, pool.max_sleeping, mix.sleeping)
        warm = sum(replica.is_warm for replica in crew.warm)
        return max(0, asked - warm - len(crew.asleep) - len(crew.dozing))

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

    def _line(self, plan: Plan) -> list[Replica]:
        by_model = self._replicas.by_model()
        line = in_line(by_model.get(plan.model, ()))
        group = plan.spec.pool.group
        if group:
            others = [
                r
                for model, replicas in by_model.items()
                if model != plan.model
                for r in replicas
                if r.spec.pool.group == group
            ]
            line += in_line(others)
        return line

    def _is_empty(self, replica: Replica) -> bool:
        if not replica.has_served:
            return True
        version = replica.drain_version
        return version is not None and self._demand.is_empty(replica.replica_id, version)
