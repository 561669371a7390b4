"""The cheapest schedule, three ways: in closed form, by table, and by trying everything out."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sim.oracle import (
    Duties,
    Oracle,
    cheapest,
    cheapest_by_table,
    cheapest_in_time,
    fewest_at_all_times,
    regret,
    schedule,
)

NEEDS = st.lists(st.integers(0, 3), min_size=1, max_size=6)
LEADS = st.integers(0, 3)


def tried_out(needs, lead):
    """Every way in which each replica can be off, starting or serving in each slot; the cheapest that serves."""
    slots, most = len(needs), max(needs)
    ways = [way for way in product("-sx", repeat=slots) if is_possible(way, lead)]
    costs = {tuple(state == "x" for state in way): min(
        sum(state != "-" for state in other) for other in ways if [s == "x" for s in other] == [s == "x" for s in way]
    ) for way in ways}  # fmt: skip
    best = {tuple(0 for _ in needs): 0}
    for _ in range(most):
        found = {}
        for served, cost in best.items():
            for way, price in costs.items():
                total = tuple(a + b for a, b in zip(served, way, strict=True))
                found[total] = min(found.get(total, 10**9), cost + price)
        best = found
    return min(
        cost for served, cost in best.items() if all(s >= n for s, n in zip(served, needs, strict=True))
    )


def is_possible(way, lead):
    """A replica serves after its whole start, or from the beginning of the trace on."""
    for slot, state in enumerate(way):
        if state != "x" or slot == 0 or way[slot - 1] == "x":
            continue
        if slot < lead or any(before != "s" for before in way[slot - lead : slot]):
            return False
    return True


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(0, 3))
def test_nothing_cheaper_serves_small_cases(needs, lead):
    if max(needs):
        assert cheapest(needs, lead) == tried_out(needs, lead)


@given(NEEDS, LEADS)
def test_the_closed_form_is_the_dynamic_program(needs, lead):
    assert cheapest(needs, lead) == cheapest_by_table(needs, lead)


@given(NEEDS, LEADS)
def test_the_schedule_serves_what_is_needed_and_costs_what_it_says(needs, lead):
    found = schedule(needs, lead, 3600.0)

    assert all(serving >= need for serving, need in zip(found.serving, needs, strict=True))
    starts = sum(max(0, now - before) for before, now in zip(found.serving, found.serving[1:], strict=False))
    assert found.replica_hours <= sum(found.serving) + starts * lead
    assert found.replica_hours == cheapest(needs, lead)


@given(NEEDS, LEADS)
def test_a_longer_start_is_never_cheaper(needs, lead):
    assert cheapest(needs, lead) <= cheapest(needs, lead + 1)


def test_a_short_pause_is_waited_out_and_a_long_one_is_not():
    assert cheapest([1, 0, 1], lead=2) == 3
    assert cheapest([1, 0, 0, 0, 0, 1], lead=2) == 4
    assert schedule([1, 0, 1], 2, 60.0).serving == (1, 1, 1)
    assert schedule([1, 0, 0, 0, 0, 1], 2, 60.0).serving == (1, 0, 0, 0, 0, 1)


def test_regret_is_what_was_spent_beyond_the_cheapest():
    assert regret(3.0, Oracle(60.0, (1,), 2.0)) == 0.5
    assert regret(0.0, Oracle(60.0, (0,), 0.0)) == 0.0


# ---- work that may wait ----

WORK = st.lists(st.integers(0, 25), min_size=1, max_size=4)
WAITS = st.lists(st.integers(0, 15), min_size=4, max_size=4)


def duties_of(work, waits, start_s):
    # Nothing may wait beyond the last slot, and no more than has come may wait.
    may_wait, came = [], 0
    for slot, amount in enumerate(work):
        came += amount
        may_wait.append(min(came, waits[slot]) if slot + 1 < len(work) else 0)
    return Duties(slot_s=10.0, work_s=work, may_wait_s=may_wait, start_s=float(start_s))


def price(counts, duties):
    """Of so many in each slot; None when they do not get done what they must."""
    left, total = 0.0, 0.0
    for serving, work, wait in zip(counts, duties.work_s, duties.may_wait_s, strict=True):
        left = max(0.0, left + work - serving * duties.slot_s)
        if left > wait + 1e-9:
            return None
        total += serving * duties.slot_s
    changes = [now - before for before, now in zip(counts, [*counts[1:], 0], strict=True)]
    started, stopped = sum(max(0, c) for c in changes), sum(max(0, -c) for c in changes)
    return total + started * (duties.start_s - duties.edge_s) - stopped * duties.edge_s


@given(WORK, WAITS, st.integers(20, 80))
def test_nothing_cheaper_does_its_duties_in_time(work, waits, start_s):
    duties, most = duties_of(work, waits, start_s), 3
    prices = {
        counts: found
        for counts in product(range(most + 1), repeat=len(work))
        if (found := price(counts, duties)) is not None
    }
    oracle = cheapest_in_time(duties, most)

    assert oracle.replica_hours * 3600 == pytest.approx(max(0.0, min(prices.values())))
    assert prices[oracle.serving] == pytest.approx(min(prices.values()))


@given(WORK, WAITS, st.integers(0, 80))
def test_a_fixed_fleet_is_the_smallest_that_does_them_at_all_times(work, waits, start_s):
    duties = duties_of(work, waits, start_s)
    fewest = fewest_at_all_times(duties)

    assert price((fewest,) * len(work), duties) is not None
    assert fewest == 0 or price((fewest - 1,) * len(work), duties) is None


def test_work_that_may_wait_fills_a_slot_that_had_room():
    work_s = [5.0, 11.0, 5.0]
    may = Duties(slot_s=10.0, work_s=work_s, may_wait_s=[0.0, 1.0, 0.0], start_s=100.0)
    must = Duties(slot_s=10.0, work_s=work_s, may_wait_s=[0.0, 0.0, 0.0], start_s=100.0)

    assert cheapest_in_time(may, 2).serving == (1, 1, 1)
    assert max(cheapest_in_time(must, 2).serving) == 2


def test_more_than_there_are_cannot_do_it():
    with pytest.raises(ValueError, match="1 replicas cannot do this in time"):
        cheapest_in_time(Duties(slot_s=10.0, work_s=[11.0], may_wait_s=[0.0], start_s=100.0), 1)
