"""The number of each model, all decided in one turn: each policy proposes, and the final clamp fits them into what there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil

from tidegate.core.effects import Decision, Shadowed
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.keeper import Keeper
from tidegate.core.fleet.means import Means
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.scaling.autoscaler import Standing
from tidegate.core.fleet.scaling.limits import grant
from tidegate.core.fleet.scaling.policies import Demand, Proposal
from tidegate.core.fleet.scaling.wishes import Grant, Wish
from tidegate.core.fleet.standing import standing_of, wish_of
from tidegate.core.lifecycle import State
from tidegate.core.types import ModelId
from tidegate.core.values import value


@value
class _Asked:
    """What one model's policy answered in this turn, or before where there is no news."""

    plan: Plan
    demand: Demand
    proposal: Proposal
    standing: Standing
    wish: Wish


class Numbers:
    """Puts numbers in force; what comes of them is the keeper's."""

    def __init__(self, keeper: Keeper, demand: DemandBook, means: Means) -> None:
        self._keeper = keeper
        self._demand = demand
        self._means = means

    def __repr__(self) -> str:
        return f"<Numbers {self._means!r}>"

    def decide(
        self,
        plans: dict[ModelId, Plan],
        by_model: dict[ModelId, list[Replica]],
        concerned: ModelId | None,
        now_s: float,
    ) -> list[Decision | Shadowed]:
        """Give each plan its number. ``concerned``: the one model that there is news of; the policies of the others are
        asked only where their replicas are not as they were. None: there may be news of any."""
        means, pools = self._means, self._keeper.pools
        means.spending.pass_to(now_s)
        asked = self._ask(plans, by_model, concerned, now_s)
        wishes = [each.wish for each in asked]
        leaving = self._leaving(plans)
        left, limits = means.starts_left(now_s), means.limits(now_s)
        ground = means.places.ground_beside(leaving, wishes, plans, by_model, self._demand)
        grants = grant(wishes, limits, [replica.size for replica in leaving], left, ground)
        means.places.note(wishes, grants, self._keeper.roster.replicas, now_s)
        settled = self._settle(asked, grants, now_s)
        for each in asked:
            pools.reserves.note(each.plan, each.proposal.asked, ceil(each.standing.live), now_s)
        means.places.clear(ground, leaving, wishes, grants)
        pools.share(plans, by_model, limits, ground)
        for decision in settled:
            price = decision.chosen.cost_per_h
            means.spending.decided(decision.model, decision.desired, price, now_s)
        cold = self._keeper.roster.cold
        shadowed = [
            each.plan.look_aside(each.demand, each.standing, by_model.get(each.plan.model, ()), cold, now_s)
            for each in asked
        ]
        return [*settled, *(said for said in shadowed if said is not None)]

    def _ask(
        self,
        plans: Mapping[ModelId, Plan],
        by_model: Mapping[ModelId, list[Replica]],
        concerned: ModelId | None,
        now_s: float,
    ) -> list[_Asked]:
        asked: list[_Asked] = []
        cold = self._keeper.roster.cold
        launching = self._means.launching(now_s)
        for plan, variant, place in self._means.places.next_starts(
            plans.values(), self._keeper.roster.replicas
        ):
            cold.kinds.expect(plan.model, variant, plan.spec_as(variant), place)
        for model, plan in plans.items():
            mine = by_model.get(model, ())
            standing = standing_of(plan, mine, cold, now_s)
            if concerned in (None, model) or not plan.still_stands(standing, now_s):
                demand = self._demand.demand(model, plan.spec.scaling.window_s, now_s)
                proposal = plan.propose(demand, standing, now_s)
                if plan.variants.is_mixed:
                    self._keeper.casting.cast(plan, proposal, demand, mine, launching, now_s)
            else:
                demand, proposal = plan.demand, plan.proposal
            wish = wish_of(plan, proposal, standing, now_s)
            asked.append(_Asked(plan, demand, proposal, standing, wish))
        return asked

    def _settle(
        self, asked: Iterable[_Asked], grants: Mapping[ModelId, Grant], now_s: float
    ) -> list[Decision]:
        """Put the grants in force; the decisions that are news."""
        settled: list[Decision] = []
        for each in asked:
            plan = each.plan
            plan.spent = self._means.spending.spent_on(plan.model)
            decision = plan.settle(each.demand, each.proposal, grants[plan.model], each.standing, now_s)
            if decision is not None:
                settled.append(decision)
        return settled

    def _leaving(self, plans: Mapping[ModelId, Plan]) -> list[Replica]:
        """Those that still take room and can't be kept."""
        return [
            replica
            for replica in self._keeper.roster.replicas
            if not replica.is_gone
            and not (
                (replica.is_live or replica.can_be_kept or replica.state is State.SLEEPING)
                and replica.model in plans
            )
        ]
