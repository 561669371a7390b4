"""What a line-up is made of: each variant with its share, its price and whether one can be started, and who is there.

A variant is left out of what can be started while its starts fail, and while there is no room for one: the others do not
wait for it. While nobody serves, the cheapest variant comes first; but if it is not expected to serve within what is left
of the time that requests wait, one that is, or the soonest. Nothing is started to save money before somebody serves.

Who is warm or asleep is there as well, each with its variant, and so is the room that pools take: they give way. While more
is needed than those that serve carry, and those in the pool carry it, they come and nothing is started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from tidegate.core.fleet import drain
from tidegate.core.fleet.byhand import BY_HAND
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.lineup import Member, Reach, lineup
from tidegate.core.fleet.mixing import EPS, Offer, cheapest
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.roster import Roster
from tidegate.core.fleet.scaling.policies import Demand, Proposal
from tidegate.core.fleet.variants import DEFAULT
from tidegate.core.lifecycle import State
from tidegate.core.types import ModelId

_POOLED = frozenset({Reach.WARM, Reach.SLEEPS, Reach.DOZES})
_FILL_IN = _POOLED | {Reach.WAKES}
_KEPT_IN_ORDER = (Reach.SERVES, Reach.WARM, Reach.WAKES, Reach.STARTS, Reach.SLEEPS, Reach.DOZES)
"""Of one variant. What comes up already is not given up for what would have to be woken."""

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
        plan.choice = ""
        need = plan.need.ask(proposal, now_s)
        members = self._members(plan, replicas, launching, now_s)
        least, most = plan.spec.scaling.min_replicas, plan.spec.scaling.max_replicas
        hand = plan.by_hand.number
        if hand is not None and proposal.held_by == BY_HAND:
            # Whoever sets a number counts replicas, of whatever variant; which ones is asked of the demand.
            need = float(proposal.asked)
            least = max(least, min(proposal.wanted, most))
            most = most if hand.at_least else least
        staying = [member.share for member in members if member.can_stay]
        # What falls short of a least number alone is no reason to exchange anybody: a mix of others would find no room either.
        is_enough = sum(staying) >= need - EPS
        offers = self._offers(plan, members, replicas, launching, now_s, is_enough=is_enough)
        serving = sum(member.share for member in members if member.reach is Reach.SERVES)
        if serving < need - EPS and (not serving or any(m.reach in _FILL_IN for m in members)):
            if sum(staying) >= need - EPS:
                offers = [replace(offer, can_start=False) for offer in offers]
            elif not serving:
                offers = self._in_time(plan, offers, need, demand)
        asked = need, tuple(offers), tuple(members), least, most
        before = plan.lineup
        if before is None or asked != self._asked.get(plan.model) or before.there < len(before.parts):
            # Nearly always it is as it was: most turns are about another model.
            own = [r for r in replicas if r.state is State.WARM]
            has_room = bool(launching.fit_beside_pools(plan, [o.name for o in offers if o.can_start], own))
            fitting = _that_fit(plan, offers, need, least, most, launching, own) if has_room else offers
            plan.lineup = lineup(need, fitting, members, least, most)
            if fitting == offers:
                self._asked[plan.model] = asked
            else:
                self._asked.pop(plan.model, None)  # there may be more room in the next turn
        if plan.spec.pool.is_used:
            plan.reserve = self._reserve(plan, offers, replicas, launching)

    def _members(
        self, plan: Plan, replicas: Sequence[Replica], launching: Launching, now_s: float
    ) -> list[Member]:
        """Everybody who can be counted on, in order of keeping."""
        there = [(_reach(r), r) for r in replicas if r.is_live or r.can_be_kept or r.state is State.SLEEPING]
        awake = [replica for reach, replica in there if reach not in _POOLED]
        leaving_first = drain.victims(awake, len(awake), self._roster.demand)
        staying = [(_reach(replica), replica) for replica in reversed(leaving_first)]
        pooled = [
            (reach, replica)
            for reach, replica in there
            if reach in _POOLED
            and not plan.is_outdated(replica)
            and (reach is not Reach.SLEEPS or _can_wake(plan, replica, replicas, launching, now_s))
        ]
        if pooled:
            pooled.sort(key=lambda each: (each[1].since_s, each[1].number))  # first in, first out
            staying = sorted([*staying, *pooled], key=lambda each: _KEPT_IN_ORDER.index(each[0]))
        return [self._member(plan, replica, reach) for reach, replica in staying]

    def _member(self, plan: Plan, replica: Replica, reach: Reach) -> Member:
        return Member(
            replica.replica_id,
            replica.variant,
            plan.variants.share_of(replica),
            replica.spec.price_per_h,
            reach,
            can_stay=not plan.is_outdated(replica),
        )

    def _offers(
        self,
        plan: Plan,
        members: Sequence[Member],
        replicas: Sequence[Replica],
        launching: Launching,
        now_s: float,
        *,
        is_enough: bool,
    ) -> list[Offer]:
        there: Counter[str] = Counter()
        near: Counter[str] = Counter()
        for member in members:
            if member.can_stay:
                (near if member.reach in _POOLED else there)[member.variant] += 1
        # Who sleeps and cannot wake is one of its variant all the same.
        lost = Counter(r.variant for r in replicas if r.state is State.SLEEPING)
        lost.subtract(m.variant for m in members if m.reach is Reach.SLEEPS)
        variants = plan.variants
        trusted = [name for name in variants.specs if variants.gate(name).block(now_s) is None]
        startable = launching.fit_beside_pools(plan, trusted, [r for r in replicas if r.state is State.WARM])
        if not startable and not is_enough:
            startable = trusted  # for none there is room: the one that is meant says which cap forbids it
        return [
            Offer(
                name,
                variants.share(name),
                spec.price_per_h,
                there[name],
                name in startable,
                None if spec.own_max_replicas is None else max(0, spec.own_max_replicas - lost[name]),
                near[name],
            )
            for name, spec in variants.specs.items()
        ]

    def _reserve(
        self, plan: Plan, offers: Sequence[Offer], replicas: Sequence[Replica], launching: Launching
    ) -> str:
        """The variant that is started for the pool: the cheapest for what it carries of those that have room."""
        has = Counter(r.variant for r in replicas if not r.is_ended)
        ready = [
            offer
            for offer in offers
            if offer.can_start
            and (offer.most is None or has[offer.name] < offer.most)
            and launching.has_room_now(plan, offer.name)
        ]
        if not ready:
            return plan.following
        return min(ready, key=lambda offer: offer.unit_price).name

    def _in_time(self, plan: Plan, offers: list[Offer], need: float, demand: Demand) -> list[Offer]:
        """Only those that serve soon enough for whoever waits, where the cheapest mix would not."""
        scaling = plan.spec.scaling
        counts = cheapest(need, offers, scaling.min_replicas, scaling.max_replicas)
        left_s = plan.spec.max_wait_s - demand.oldest_wait_s
        took_s = {offer.name: self._roster.ready_s(plan, offer.name) for offer in offers}
        starts = [o.name for o, count in zip(offers, counts, strict=True) if count > o.there + o.near]
        slow = [name for name in starts if took_s[name] > left_s]
        startable = [offer.name for offer in offers if offer.can_start]
        if not slow or not startable:
            return offers
        soonest = min(startable, key=lambda name: took_s[name])
        allowed = [name for name in startable if took_s[name] <= left_s] or [soonest]
        plan.choice = (
            f"{' and '.join(name or DEFAULT for name in allowed)} first: {slow[0] or DEFAULT} would take "
            f"{took_s[slow[0]]:.0f} s, and requests wait {plan.spec.max_wait_s:g} s at most"
        )
        return [replace(offer, can_start=offer.name in allowed) for offer in offers]


def _that_fit(
    plan: Plan,
    offers: list[Offer],
    need: float,
    least: int,
    most: int,
    launching: Launching,
    own: Sequence[Replica],
) -> list[Offer]:
    """With no more starts than there is room for, all of them together: a mix of which only a part can ever come about
    would be begun and given up again. As they are where nothing that fits carries the need: then everybody who is there
    stays, and the cap is told."""
    bounded = offers
    for _ in range(2 * len(offers)):
        counts = cheapest(need, bounded, least, most)
        if sum(o.share * count for o, count in zip(bounded, counts, strict=True)) < need - EPS:
            return offers
        starts = {
            offer.name: count - offer.there - offer.near
            for offer, count in zip(bounded, counts, strict=True)
            if count > offer.there + offer.near
        }
        fit = launching.fit_together(plan, starts, own) if starts else {}
        if fit == starts:
            return bounded
        bounded = [
            replace(offer, most=offer.there + offer.near + fit[offer.name]) if offer.name in fit else offer
            for offer in bounded
        ]
    return offers


def _can_wake(
    plan: Plan, sleeper: Replica, replicas: Sequence[Replica], launching: Launching, now_s: float
) -> bool:
    """Now, or when a pool has given way if nothing could be started meanwhile. Else another one is started instead."""
    if now_s < sleeper.wake_again_s:
        return False
    if launching.wakes_now(sleeper):
        return True
    trusted = (name for name in plan.variants.specs if plan.variants.gate(name).block(now_s) is None)
    if any(launching.has_room_now(plan, name) for name in trusted):
        return False
    return launching.wakes_beside_pools(sleeper, [r for r in replicas if r.state is State.WARM])


def _reach(replica: Replica) -> Reach:
    if replica.state is State.SERVING or replica.can_be_kept:
        return Reach.SERVES
    if replica.is_warm:
        return Reach.WARM
    if replica.state is State.SLEEPING:
        return Reach.SLEEPS
    if replica.sleep_ordered_s is not None:
        return Reach.DOZES
    return Reach.WAKES if replica.state is State.WAKING else Reach.STARTS
