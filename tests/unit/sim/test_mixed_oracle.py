"""The cheapest schedule of replicas of several kinds: exact on small cases, and the old one where there is one kind."""

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidegate.sim.mixed_oracle import Kind, MixedDuties, cheapest_fixed, cheapest_mix, most_of_each
from tidegate.sim.oracle import Duties, cheapest_in_time

SLOT_S = 10.0
LARGE = Kind(name="large", price_per_s=4.0, does_per_s=4.0, start_s=40.0, edge_s=10.0)
SMALL = Kind(name="small", price_per_s=1.5, does_per_s=1.0, start_s=20.0, edge_s=10.0)


def duties_of(work, waits, *kinds):
    # Nothing may wait beyond the last slot, and no more than has come may wait.
    may_wait, came = [], 0
    for slot, amount in enumerate(work):
        came += amount
        may_wait.append(min(came, waits[slot]) if slot + 1 < len(work) else 0)
    return MixedDuties(slot_s=SLOT_S, work=work, may_wait=may_wait, kinds=kinds or (LARGE, SMALL))


def price(schedule, duties):
    """Of so many of each kind in each slot; None when they do not get done what they must."""
    left = total = 0.0
    for counts, work, wait in zip(schedule, duties.work, duties.may_wait, strict=True):
        does = SLOT_S * sum(k.does_per_s * n for k, n in zip(duties.kinds, counts, strict=True))
        left = max(0.0, left + work - does)
        if left > wait + 1e-9:
            return None
        total += SLOT_S * duties.price_per_s(counts)
    nobody = (0,) * len(duties.kinds)
    for before, now in zip(schedule, [*schedule[1:], nobody], strict=True):
        for kind, was, is_ in zip(duties.kinds, before, now, strict=True):
            total += kind.price_per_s * max(0, is_ - was) * (kind.start_s - kind.edge_s)
            total -= kind.price_per_s * max(0, was - is_) * kind.edge_s
    return total


@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=3), st.lists(st.integers(0, 40), min_size=3, max_size=3)
)
def test_nothing_cheaper_does_its_duties_in_time(work, waits):
    duties, most = duties_of(work, waits), (2, 2)
    fleets = list(product(range(3), range(3)))
    prices = [
        found
        for schedule in product(fleets, repeat=len(work))
        if (found := price(schedule, duties)) is not None
    ]
    assume(prices)

    assert cheapest_mix(duties, most).cost == pytest.approx(max(0.0, min(prices)))


@given(
    st.lists(st.integers(0, 25), min_size=1, max_size=4),
    st.lists(st.integers(0, 15), min_size=4, max_size=4),
    st.integers(20, 80),
)
def test_of_one_kind_it_is_the_cheapest_of_that_kind(work, waits, start_s):
    edge_s = min(SLOT_S, start_s / 2)
    kind = Kind(name="one", price_per_s=2.0, does_per_s=1.0, start_s=float(start_s), edge_s=edge_s)
    mixed = duties_of(work, waits, kind)
    alone = Duties(slot_s=SLOT_S, work_s=work, may_wait_s=mixed.may_wait, start_s=float(start_s))

    hours = cheapest_in_time(alone, 3).replica_hours
    assert cheapest_mix(mixed, (3,)).cost == pytest.approx(2.0 * 3600 * hours)


def test_little_is_done_by_a_small_one_and_much_by_a_large_one():
    quiet, busy = [5.0] * 12, [35.0] * 12
    little, much = duties_of(quiet, [0.0] * 12), duties_of(busy, [0.0] * 12)

    assert cheapest_fixed(little, most_of_each(little, 1)) == (0, 1)
    assert cheapest_fixed(much, most_of_each(much, 1)) == (1, 0)
    day = duties_of([*quiet, *busy, *quiet], [0.0] * 36)
    oracle = cheapest_mix(day, most_of_each(day, 2))
    assert set(oracle.serving) == {1}
    # 240 s of a small one and 120 s of a large one, and their starts, but for the edges of slots.
    assert oracle.cost == pytest.approx(240 * 1.5 + 120 * 4.0 + (40 - 10) * 4.0 + (20 - 10) * 1.5 - 70.0)


def test_more_than_there_are_cannot_do_it():
    with pytest.raises(ValueError, match="0 and 1 replicas cannot do this in time"):
        cheapest_mix(duties_of([11.0], [0.0]), (0, 1))


def test_fleets_for_hours_of_work_are_refused():
    duties = duties_of([1.0], [0.0], *[LARGE, SMALL] * 2)
    with pytest.raises(
        ValueError, match="up to 12 and 12 and 12 and 12 replicas make 28,561 fleets; 20,000 can"
    ):
        cheapest_mix(duties, (12,) * 4)


def test_very_many_fleets_are_not_looked_at():
    ways = [
        Kind(name=str(n), price_per_s=1.0, does_per_s=1.0 / n, start_s=20.0, edge_s=0.0) for n in range(1, 6)
    ]
    duties = duties_of([90.0] * 3, [0.0] * 3, *ways)

    assert most_of_each(duties, 2) == (9, 2, 2, 2, 2)


def test_of_very_many_fleets_those_of_the_cheapest_kind_are_looked_at_and_not_those_of_the_fewest():
    few = Kind(name="few", price_per_s=8.0, does_per_s=4.0, start_s=20.0, edge_s=0.0)
    cheap = Kind(name="cheap", price_per_s=1.0, does_per_s=1.0, start_s=20.0, edge_s=0.0)
    duties = duties_of([790.0] * 3, [0.0] * 3, few, cheap)

    assert most_of_each(duties, 2) == (2, 79)
    assert cheapest_fixed(duties, most_of_each(duties, 2)) == (0, 79)
