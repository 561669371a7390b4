"""One model's replicas as its autoscaler sees them, and its number as the final clamp does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from tidegate.core.events import EngineReported
from tidegate.core.fleet.byhand import BY_HAND
from tidegate.core.fleet.coldstart import PROMOTION_S, ColdStarts, Readiness
from tidegate.core.fleet.lineup import Lineup
from tidegate.core.fleet.mixing import enough
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.scaling.autoscaler import Standing
from tidegate.core.fleet.scaling.policies import Coming, EngineSeen, Proposal
from tidegate.core.fleet.scaling.wishes import Wish
from tidegate.core.fleet.variants import OWN
from tidegate.core.lifecycle import State
from tidegate.core.tiers import Tier

OWED_S = 60.0
"""For so long the room that a replica has made for its successor is that one's before anybody's: some ticks would do, and
the first pauses after a failed start are shorter."""


def standing_of(plan: Plan, replicas: Iterable[Replica], cold: ColdStarts, now_s: float) -> Standing:
    """One model's replicas, counted, and what is known of their starts. Where it has variants each counts as its share.

    Where it has a pool, what comes up beyond the number that is to serve comes up for the pool, and no law counts
    on it; and the next replica comes from the nearest tier that holds one.
    """
    coming_up: float = 0
    serving: float = 0
    others = False
    live: float = 0
    kept: float = 0
    slots = there = warm = 0
    asleep: list[Replica] = []
    shares: list[float] = []
    first_ready_s: float | None = None
    coming: list[Coming] = []
    engines: list[EngineSeen] = []
    went_s = launched_s = -inf
    reads_engines = plan.autoscaler.reads_engines
    share_of, is_mixed = plan.variants.share_of, plan.variants.is_mixed
    for replica in replicas:
        share = share_of(replica) if is_mixed else 1
        if replica.state is State.SERVING:
            serving += share
            others |= bool(replica.variant)
            live += share
            there += 1
            slots += min(replica.spec.slots, replica.batch.size or replica.spec.slots)
            ready_s = replica.ready_s
            if ready_s is not None and (first_ready_s is None or ready_s < first_ready_s):
                first_ready_s = ready_s
            if reads_engines and replica.engine is not None:
                engines.append(_engine_seen(replica, replica.engine, share, now_s))
        else:
            if replica.is_coming_up:
                coming_up += share
                coming.append(_coming(replica, cold))
                shares.append(share)
            live += share if replica.is_live else 0
            kept += share if replica.can_be_kept else 0
            warm += replica.is_warm
            if replica.state is State.SLEEPING:
                asleep.append(replica)
            there += replica.is_live or replica.can_be_kept or replica.state is State.SLEEPING
            if replica.is_replaced and replica.is_gone:
                went_s = max(went_s, replica.since_s)
            launched_s = max(launched_s, replica.launched_s)
    if plan.spec.pool.is_used:
        wanted = plan.desired if plan.lineup is None else plan.lineup.carried(plan.desired)
        number = enough(wanted - serving, shares)
        coming, coming_up = coming[:number], sum(shares[:number])
        live = serving + coming_up
    return Standing(
        coming_up,
        serving,
        slots,
        first_ready_s,
        live,
        kept,
        there,
        tuple(coming),
        tuple(engines),
        _next_readiness(plan, cold, warm, asleep, beside=bool(coming)),
        plan.batches.slots(OWN),
        plan.spec.price_per_h,
        len(asleep),
        plan.bounds,
        is_owed=launched_s < went_s and now_s <= went_s + OWED_S,
        has_others=others,
    )


def wish_of(plan: Plan, proposal: Proposal, standing: Standing, now_s: float) -> Wish:
    """The proposal in the words of the final clamp."""
    lineup = plan.lineup
    return Wish(
        model=plan.model,
        wanted=proposal.wanted if lineup is None else _places(plan, lineup, proposal),
        min_replicas=plan.spec.scaling.min_replicas,
        max_replicas=plan.spec.scaling.max_replicas,
        held=standing.there if lineup is None else lineup.there,
        asleep=standing.asleep if lineup is None else lineup.asleep,
        size=plan.size,
        can_start=plan.variants.block(now_s) is None,
        is_owed=standing.is_owed,
        sizes=() if lineup is None else tuple(plan.size_as(part.variant) for part in lineup.parts),
    )


def _places(plan: Plan, lineup: Lineup, proposal: Proposal) -> int:
    """How many of the line-up: as many as the need asks for, or as a hand says."""
    hand = plan.by_hand.number
    if hand is None or proposal.held_by != BY_HAND:
        return lineup.asked
    return max(lineup.asked, proposal.wanted) if hand.at_least else proposal.wanted


def _next_readiness(
    plan: Plan, cold: ColdStarts, warm: int, asleep: Sequence[Replica], *, beside: bool
) -> Readiness:
    """Of the replica that would come next."""
    if warm:
        return Readiness(PROMOTION_S)
    if asleep:
        kind = cold.kinds.of(min(asleep, key=lambda replica: replica.spec.price_per_h))
        return cold.readiness(plan.model, plan.spec.pool.expected_wake_s, Tier.SLEEPING, kind)
    following = plan.following
    kind = cold.kinds.of_next(plan.model, following)
    return cold.readiness(plan.model, plan.spec_as(following).expected_start_s, kind=kind, beside=beside)


def _engine_seen(replica: Replica, page: EngineReported, share: float, now_s: float) -> EngineSeen:
    age_s = now_s - replica.engine_s
    return EngineSeen(replica.replica_id, age_s, page.running, page.waiting, page.kv_usage_ratio, share)


def _coming(replica: Replica, cold: ColdStarts) -> Coming:
    if replica.state is State.WAKING:
        return Coming(replica.since_s, cold.ready_s(replica), Tier.SLEEPING)
    return Coming(replica.launched_s, cold.ready_s(replica), Tier.COLD)
