"""Laws of mixes of variants: what the cheapest one costs, and what a line-up never gives up."""

from dataclasses import replace
from itertools import product
from math import ceil

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidegate.core.fleet.lineup import Member, Need, Reach, lineup
from tidegate.core.fleet.mixing import START_SURCHARGE, VISITS_MOST, Offer, cheapest
from tidegate.core.fleet.scaling.policies import Proposal
from tidegate.core.types import ReplicaId

SHARES = st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0])
NEEDS = st.integers(0, 12_000).map(lambda thousandths: thousandths / 1000)
NOTHING, ALWAYS = st.just(0), st.just(True)
EPS = 1e-6


@st.composite
def some_offers(draw, *, there=NOTHING, can_start=ALWAYS, near=NOTHING):
    """The model's own settings first, and up to three variants."""
    count = draw(st.integers(1, 4))
    return [
        Offer(
            f"v{n}" if n else "",
            1.0 if n == 0 else draw(SHARES),
            draw(st.integers(10, 1000)) / 100.0,
            draw(there),
            draw(can_start),
            near=draw(near),
        )
        for n in range(count)
    ]


def carried(offers, counts):
    return sum(offer.share * count for offer, count in zip(offers, counts, strict=True))


def price(offers, counts):
    return sum(offer.price_per_h * count for offer, count in zip(offers, counts, strict=True))


def cost(offers, counts):
    return sum(offer.cost(count) for offer, count in zip(offers, counts, strict=True))


@given(offers=some_offers(), need=NEEDS)
def test_the_mix_carries_the_need_and_costs_no_more_than_any_variant_alone(offers, need):
    counts = cheapest(need, offers, 0, 10_000)
    assert carried(offers, counts) >= need - EPS
    for offer in offers:
        assert price(offers, counts) <= ceil(need / offer.share - 1e-9) * offer.price_per_h + EPS


@given(
    offers=some_offers(there=st.integers(0, 3), near=st.integers(0, 2)),
    need=st.sampled_from([0.0, 0.05, 0.3, 1.0, 1.2, 2.0]),
    least=st.integers(0, 2),
)
def test_nothing_that_carries_the_need_is_cheaper(offers, need, least):
    assume(len(offers) <= 3)
    ranges = [range(max(least, ceil(need / offer.share)) + 1) for offer in offers]
    best = min(
        cost(offers, counts)
        for counts in product(*ranges)
        if carried(offers, counts) >= need and sum(counts) >= least
    )
    assert cost(offers, cheapest(need, offers, least, 10_000)) <= best + EPS


@given(
    offers=some_offers(there=st.integers(0, 4), can_start=st.booleans()),
    need=NEEDS,
    least=st.integers(0, 3),
    most=st.integers(3, 12),
)
def test_the_bounds_hold_and_what_cannot_start_is_not_counted_on(offers, need, least, most):
    counts = cheapest(need, offers, least, most)
    assert sum(counts) <= most
    for offer, count in zip(offers, counts, strict=True):
        assert offer.can_start or count <= offer.there
    if carried(offers, counts) < need - EPS:
        limits = [most if offer.can_start else offer.there for offer in offers]
        by_share = sorted(zip(offers, limits, strict=True), key=lambda pair: -pair[0].share)
        room, possible = most, 0.0
        for offer, limit in by_share:
            possible += offer.share * min(room, limit)
            room -= min(room, limit)
        assert possible < need + EPS, "it was not possible"
    elif any(offer.can_start for offer in offers):
        assert sum(counts) >= least


class Counted(Offer):
    """It counts how often it is looked at."""

    looks = 0

    def cost(self, count):
        Counted.looks += 1
        return super().cost(count)


@given(
    told=st.lists(st.tuples(SHARES, st.integers(0, 20), st.integers(0, 50)), min_size=2, max_size=8),
    need=st.sampled_from([17.2, 60.7, 300.0]),
)
def test_a_search_ends_soon_where_all_cost_nearly_the_same(told, need):
    Counted.looks = 0
    offers = [
        Counted(f"v{n}", share, 2.0 * share * (1.0 + above / 1000), there)
        for n, (share, above, there) in enumerate(told)
    ]
    cheapest(need, offers, 0, 1_000)
    assert Counted.looks <= VISITS_MOST + 10


MEMBERS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(Reach), st.booleans()), max_size=8)
AWAKE = MEMBERS.map(lambda told: [(n, reach, stays) for n, reach, stays in told if reach in (0, 5)])
POOLED = (Reach.WARM, Reach.SLEEPS, Reach.DOZES)


@given(offers=some_offers(can_start=st.booleans()), told=MEMBERS, need=NEEDS, most=st.integers(1, 12))
def test_nobody_who_is_needed_goes_before_others_serve(offers, told, need, most):
    offers, members = with_members(offers, told)
    found = lineup(need, offers, members, 0, most)
    named = {part.replica_id for part in found.parts}
    for reach in Reach:
        # Neither does anybody wait for one who could serve later than another that is there.
        soon = [member for member in members if member.reach <= reach]
        kept = sum(member.share for member in soon if member.replica_id in named)
        assert reach is Reach.STARTS or kept >= min(need, sum(m.share for m in soon)) - EPS
    assert len([part for part in found.parts if part.replica_id]) == len(named - {None}), "nobody twice"
    firsts = [part.replica_id is None for part in found.parts]
    assert firsts == sorted(firsts), "what is there comes before what is to be started"
    sleep = [part.sleeps for part in found.parts if part.replica_id]
    assert sleep == sorted(sleep), "what has its room comes before what is to be woken"
    assert found.asleep == sum(sleep)
    assert all(not part.is_bridge for part in found.parts if part.replica_id is None)


@given(offers=some_offers(), told=AWAKE, need=NEEDS)
def test_step_by_step_a_line_up_comes_to_rest_at_nearly_the_cheapest(offers, told, need):
    offers, members = with_members(offers, told)
    for step in range(6):
        served = sum(member.share for member in members if member.reach is Reach.SERVES)
        found = lineup(need, offers, members, 0, 10_000)
        by_id = {member.replica_id: member for member in members}
        after = [by_id[part.replica_id] for part in found.parts if part.replica_id]
        assert sum(m.share for m in after if m.reach is Reach.SERVES) >= min(need, served) - EPS
        # Everybody who was started serves by the next step.
        members = [
            Member(m.replica_id, m.variant, m.share, m.price_per_h, Reach.SERVES) for m in after if m.can_stay
        ] + [m for m in after if not m.can_stay]
        members += [
            Member(ReplicaId(f"n{step}-{n}"), part.variant, part.share, part.price_per_h, Reach.SERVES)
            for n, part in enumerate(found.parts)
            if part.replica_id is None
        ]
        offers, members = with_members(offers, [], members)
    assert lineup(need, offers, members, 0, 10_000).there == len(members), "nothing moves any more"
    own = sum(member.price_per_h for member in members)
    from_scratch = cheapest(need, [Offer(o.name, o.share, o.price_per_h) for o in offers], 0, 10_000)
    assert own <= (1.0 + START_SURCHARGE) * price(offers, from_scratch) + EPS


@given(offers=some_offers(), told=MEMBERS, need=NEEDS)
def test_with_a_pool_a_line_up_comes_to_rest_too(offers, told, need):
    """Whoever goes is warm and then asleep; whoever is called comes one step nearer."""
    nearer = {Reach.SLEEPS: Reach.WAKES, Reach.DOZES: Reach.SLEEPS}
    further = {Reach.SERVES: Reach.WARM, Reach.WARM: Reach.DOZES, Reach.DOZES: Reach.SLEEPS}
    offers, members = with_members(offers, [(which, reach, True) for which, reach, _ in told])
    for step in range(16):
        found = lineup(need, offers, members, 0, 10_000)
        named = found.named(len(found.parts))
        members = [
            replace(m, reach=nearer.get(m.reach, Reach.SERVES) if m.replica_id in named else away)
            for m in members
            for away in [further.get(m.reach, m.reach)]
            if m.replica_id in named or m.reach not in (Reach.STARTS, Reach.WAKES)
        ]
        members += [
            Member(ReplicaId(f"n{step}-{n}"), part.variant, part.share, part.price_per_h, Reach.STARTS)
            for n, part in enumerate(found.parts)
            if part.replica_id is None
        ]
        members.sort(key=lambda m: m.reach)
        offers, members = with_members(offers, [], members)
    found = lineup(need, offers, members, 0, 10_000)
    at_rest = {m.replica_id for m in members if m.reach is Reach.SERVES}
    assert found.named(len(found.parts)) == at_rest, "nothing moves any more"
    assert found.there == len(found.parts)


def with_members(offers, told, members=None):
    """The members in the words of the law, and the offers with those counted."""
    if members is None:
        members = [
            Member(ReplicaId(f"r{n}"), offer.name, offer.share, offer.price_per_h, reach, can_stay)
            for n, (which, reach, can_stay) in enumerate(told)
            for offer in [offers[which % len(offers)]]
        ]
    counted = [
        Offer(
            offer.name,
            offer.share,
            offer.price_per_h,
            sum(m.variant == offer.name and m.can_stay and m.reach not in POOLED for m in members),
            offer.can_start,
            near=sum(m.variant == offer.name and m.can_stay and m.reach in POOLED for m in members),
        )
        for offer in offers
    ]
    return counted, members


def asked(exact, at, need, *, wanted=None, held_by=None):
    whole = ceil(exact)
    return need.ask(Proposal(wanted if wanted is not None else whole, whole, "", held_by, needed=exact), at)


def test_a_need_rises_at_once_and_falls_after_the_delay():
    need = Need(30.0)
    assert asked(0.4, 0.0, need) == pytest.approx(0.4, abs=0.002)
    assert asked(2.3, 1.0, need) == pytest.approx(2.3, abs=0.002)
    assert asked(0.4, 2.0, need, wanted=3, held_by="scale_down_delay") == pytest.approx(2.3, abs=0.002)
    assert asked(2.1, 3.0, need) == pytest.approx(2.3, abs=0.002), "not within the delay"
    assert asked(2.05, 34.0, need) == pytest.approx(2.1 * 1.05, abs=0.002), "with something to spare"
    assert asked(2.05, 65.0, need) == pytest.approx(2.05 * 1.05, abs=0.002)
    assert asked(0.0, 35.0, need, wanted=1, held_by="idle_time") == 1.0
    assert asked(0.0, 36.0, need, wanted=0) == 0.0


@given(st.lists(st.tuples(st.floats(0.0, 20.0), st.integers(0, 3), st.floats(0.1, 50.0)), max_size=40))
def test_a_need_is_never_below_what_is_asked_nor_above_the_laws_number(steps):
    need, at = Need(30.0), 0.0
    for exact, more, span_s in steps:
        at += span_s
        wanted = ceil(exact) + more
        found = asked(exact, at, need, wanted=wanted, held_by="any" if more else None)
        assert found <= wanted
        assert found >= min(exact, wanted) - EPS


def test_who_carries_just_what_is_needed_carries_it_though_sums_of_shares_are_not_exact():
    members = [Member(f"m-{number}", "small", 0.3, 1.0, reach=Reach.SERVES) for number in range(3)]
    assert sum(member.share for member in members) < 0.9
    found = lineup(0.9, [Offer("small", 0.3, 1.0, there=3)], members, 0, 5)
    assert found.asked == 3
    assert found.carries(3)
    assert not found.carries(2)
