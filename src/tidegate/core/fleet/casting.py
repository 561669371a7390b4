"""What a line-up is made of: each variant with its share, its price and whether one can be started, and who is there.

A variant is left out of what can be started while its starts fail, and while there is no room for one: the others do not
wait for it. While nobody serves, the cheapest variant comes first; but if it is not expected to serve within what is left
of the time that requests wait, one that is, or the soonest. Nothing is started to save money before somebody serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.core.fleet import drain
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.lineup import Member, lineup
from tidegate.core.fleet.mixing import Offer, cheapest
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.roster import Roster
from tidegate.core.fleet.scaling.policies import Demand, Proposal
from tidegate.core.fleet.variants import DEFAULT
from tidegate.core.lifecycle import State


class Casting:
    """Makes the line-ups of models that have variants."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster

    def __repr__(self) -> str:
        return f"<Casting {self._roster!r}>"

    def cast(
        self,
        plan: Plan,
        proposal: Proposal,
        demand: Demand,
        replicas: Sequence[Replica],
        launching: Launching,
        now_s: float,
    ) -> None:
        """Give the plan the line-up of this turn."""
        plan.variants.learn(demand, now_s)
        need = plan.need.ask(proposal, now_s)
        candidates = [r for r in replicas if r.is_live or r.can_be_kept]
        leaving_first = drain.victims(candidates, len(candidates), self._roster.demand)
        members = [self._member(plan, replica) for replica in reversed(leaving_first)]
        least, most = plan.spec.scaling.min_replicas, plan.spec.scaling.max_replicas
        offers = self._offers(plan, members, launching, now_s)
        if need > 0.0 and not any(member.serves for member in members):
            if sum(member.share for member in members if member.can_stay) >= need:
                offers = [replace(offer, can_start=False) for offer in offers]
            else:
                offers = self._in_time(plan, offers, need, demand)
        plan.lineup = lineup(need, offers, members, least, most)

    def _member(self, plan: Plan, replica: Replica) -> Member:
        return Member(
            replica.replica_id,
            replica.variant,
            plan.variants.share_of(replica),
            replica.spec.price_per_h,
            serves=replica.state is State.SERVING or replica.can_be_kept,
            can_stay=not plan.is_outdated(replica),
        )

    def _offers(
        self, plan: Plan, members: Sequence[Member], launching: Launching, now_s: float
    ) -> list[Offer]:
        there: dict[str, int] = {}
        for member in members:
            there[member.variant] = there.get(member.variant, 0) + member.can_stay
        trusted = [name for name in plan.variants.specs if plan.variants.gate(name).block(now_s) is None]
        roomy = [name for name in trusted if launching.has_room_now(plan, name)]
        return [
            Offer(
                name,
                plan.variants.share(name),
                spec.price_per_h,
                there.get(name, 0),
                # Where there is no room for any, the one that is meant says which cap forbids it.
                can_start=name in (roomy or trusted),
                most=spec.own_max_replicas,
            )
            for name, spec in plan.variants.specs.items()
        ]

    def _in_time(self, plan: Plan, offers: list[Offer], need: float, demand: Demand) -> list[Offer]:
        """Only those that serve soon enough for whoever waits, where the cheapest mix would not."""
        scaling = plan.spec.scaling
        counts = cheapest(need, offers, scaling.min_replicas, scaling.max_replicas)
        left_s = plan.spec.max_wait_s - demand.oldest_wait_s
        took_s = {offer.name: self._ready_s(plan, offer.name) for offer in offers}
        slow = [o.name for o, count in zip(offers, counts, strict=True) if count and took_s[o.name] > left_s]
        startable = [offer.name for offer in offers if offer.can_start]
        if not slow or not startable:
            return offers
        soonest = min(startable, key=lambda name: took_s[name])
        allowed = [name for name in startable if took_s[name] <= left_s] or [soonest]
        plan.remark = plan.remark or (
            f"{' and '.join(name or DEFAULT for name in allowed)} first: {slow[0] or DEFAULT} would take "
            f"{took_s[slow[0]]:.0f} s, and requests wait {plan.spec.max_wait_s:g} s at most"
        )
        return [replace(offer, can_start=offer.name in allowed) for offer in offers]

    def _ready_s(self, plan: Plan, variant: str) -> float:
        """From a launch to serving, as far as that is known; what is not known is not held against it."""
        cold = self._roster.cold
        start_s = cold.expected_s(plan.model, plan.spec_as(variant).expected_start_s, kind=variant)
        return (start_s or 0.0) + (cold.fetch_s(plan.model) or 0.0)
