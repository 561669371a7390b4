"""Kept places are those of a slow and simple book, whatever is told, redeemed and forgotten in between."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.promises import (
    AHEAD_S,
    EARLY_S,
    GRACE_S,
    MADE_MAX_OF_ALL,
    SWEPT_FROM,
    Promises,
)
from tidegate.core.events import RequestArrived


def entry(name, flow="x", *, tokens=10, body=100, again=1, now_s=0.0):
    return Entry(RequestArrived(name, "m", tokens, None, body, 1e9, flow, again=again), now_s, 1)


steps = st.lists(
    st.tuples(
        st.sampled_from(["tell", "tell", "come", "look", "wait"]),
        st.integers(1, 3),
        st.integers(0, 32).map(lambda quarters: quarters / 4),
    ),
    max_size=60,
)


@given(steps)
def test_what_is_kept_is_what_was_told_for_about_now_and_not_redeemed(story):
    promises, told, now_s, last_s = Promises(), [], 0.0, 0.0
    for verb, size, seconds in story:
        asked = entry("r", tokens=10 * size, body=100 * size, again=size)
        told = [(due_s, one) for due_s, one in told if due_s > now_s - GRACE_S]
        if verb == "tell":
            due_s = now_s + promises.make(asked, now_s, seconds, 0.25)
            assert due_s >= last_s
            last_s = due_s
            told.append((due_s, size))
        elif verb == "come":
            due = [one for one in told if one[1] == size]
            is_expected = bool(due) and due[0][0] <= now_s + EARLY_S
            assert promises.redeem(asked, now_s) is is_expected
            if is_expected:
                told.remove(due[0])
        elif verb == "wait":
            now_s += seconds
            told = [(due_s, one) for due_s, one in told if due_s > now_s - GRACE_S]
        ripe = [one for due_s, one in told if due_s <= now_s + AHEAD_S]
        kept = promises.kept(asked, now_s)
        assert (kept.requests, kept.tokens, kept.bytes) == (len(ripe), 10 * sum(ripe), 100 * sum(ripe))
    assert len(promises) == len([one for one in told if one[0] > now_s - GRACE_S])


def test_tenants_that_never_come_back_are_forgotten():
    promises = Promises()
    for n in range(40 * SWEPT_FROM):
        promises.make(entry("r", f"tenant {n}"), 10.0 * n, 1.0, 0.1)

    assert len(promises.told) <= SWEPT_FROM


def test_many_tenants_hold_no_more_places_than_a_few():
    promises = Promises()
    for round_ in range(300):
        for n in range(1_000):
            promises.make(entry("r", f"tenant {n}"), 0.0, float(round_), 0.001)

    assert len(promises) <= 1.2 * MADE_MAX_OF_ALL
    assert {len(told.due_s) for told in promises.told.values()} == {MADE_MAX_OF_ALL // 1_000}
