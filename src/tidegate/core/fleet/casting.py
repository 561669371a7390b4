"""What a line-up is made of: each variant with its share, its price and whether one can be started, and who is there.

A variant is left out of what can be started while its starts fail, and while there is no room for one: the others do not
wait for it. While nobody serves, the cheapest variant comes first; but if it is not expected to serve within what is left
of the time that requests wait, one that is, or the soonest. Nothing is started to save money before somebody serves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tidegate.core.fleet import drain
from tidegate.core.fleet.byhand import BY_HAND
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.lineup import Member, lineup
from tidegate.core.fleet.mixing import EPS, Offer, cheapest
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.roster import Roster
from tidegate.core.fleet.scaling.policies import Demand, Proposal
from tidegate.core.fleet.variants import DEFAULT
from tidegate.core.lifecycle import State
from tidegate.core.types import ModelId

_Asked = tuple[float, tuple[Offer, ...], tuple[Member, ...], int, int]


class Casting:
    """Makes the line-ups of models that have variants."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._asked: dict[ModelId, _Asked] = {}
        """What each line-up in force was made from."""

    def __repr__(self) -> str:
        return f"<Casting {self._roster!r}>"

    def keep_only(self, models: Collection[ModelId]) -> None:
        """Forget models that are no longer configured."""
        self._asked = {model: asked for model, asked in self._asked.items() if model in models}

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
        if plan.hand is not None and proposal.held_by == BY_HAND:
            # Whoever sets a number counts replicas, of whatever variant; which ones is asked of the demand.
            need = float(proposal.asked)
            least = max(least, min(proposal.wanted, most))
            most = most if plan.hand.at_least else least
        offers = self._offers(plan, members, launching, now_s)
        if need > 0.0 and not any(member.serves for member in members):
            if sum(member.share for member in members if member.can_stay) >= need - EPS:
                offers = [replace(offer, can_start=False) for offer in offers]
            else:
                offers = self._in_time(plan, offers, need, demand)
        asked = need, tuple(offers), tuple(members), least, most
        if plan.lineup is None or asked != self._asked.get(plan.model):
            # Nearly always it is as it was: most turns are about another model.
            self._asked[plan.model] = asked
            plan.lineup = lineup(*asked)

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
        variants = plan.variants
        trusted = [name for name in variants.specs if variants.gate(name).block(now_s) is None]
        # Where there is no room for any, the one that is meant says which cap forbids it.
        startable = [name for name in trusted if launching.has_room_now(plan, name)] or trusted
        return [
            Offer(
                name,
                variants.share(name),
                spec.price_per_h,
                there.get(name, 0),
                name in startable,
                spec.own_max_replicas,
            )
            for name, spec in variants.specs.items()
        ]

    def _in_time(self, plan: Plan, offers: list[Offer], need: float, demand: Demand) -> list[Offer]:
        """Only those that serve soon enough for whoever waits, where the cheapest mix would not."""
        scaling = plan.spec.scaling
        counts = cheapest(need, offers, scaling.min_replicas, scaling.max_replicas)
        left_s = plan.spec.max_wait_s - demand.oldest_wait_s
        took_s = {offer.name: self._roster.ready_s(plan, offer.name) for offer in offers}
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
