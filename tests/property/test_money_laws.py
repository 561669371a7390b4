"""Laws of the books on money: what a day has cost, what may be spent, what each decision has cost."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fleet.driven import World
from tidegate.core.fleet.budget import BUCKET_S, DAY_S, REACH_S, Spending
from tidegate.core.types import ModelId

M, N = ModelId("m"), ModelId("n")
courses = st.lists(
    st.tuples(st.sampled_from([0.5, 1.0, 30.0, 61.0, 3600.0, 40_000.0]), st.integers(0, 40)), max_size=40
)


def exact(course, now_s):
    """Money within the day before ``now_s``, by adding up."""
    total, at_s, rate = 0.0, 0.0, 0.0
    for span_s, next_rate in course:
        began_s, at_s = at_s, at_s + span_s
        total += max(0.0, min(at_s, now_s) - max(began_s, now_s - DAY_S)) * rate / 3600
        rate = next_rate
    return total + max(0.0, now_s - max(at_s, now_s - DAY_S)) * rate / 3600


@given(courses, st.sampled_from([0.0, 10.0, 50_000.0]))
def test_a_day_never_counts_less_than_was_spent_in_it_and_hardly_more(course, later_s):
    spending, now_s, longest_s = Spending(), 0.0, BUCKET_S
    for span_s, rate in course:
        now_s += span_s
        longest_s = max(longest_s, span_s)
        spending.advance({M: float(rate)}, now_s)
    now_s += later_s
    counted, true = spending.last_day(now_s), exact(course, now_s)
    # What runs on since the last turn is counted whole; a turn comes each second, so that is one second's worth.
    most = max((rate for _, rate in course), default=0) * (longest_s + BUCKET_S + later_s) / 3600
    assert true - 1e-6 <= counted <= true + most + 1e-6


@given(st.floats(1, 100), st.integers(1, 30))
def test_whoever_spends_no_more_than_is_allowed_never_spends_more_than_the_day_has(per_day, hours):
    spending, now_s, spent = Spending(), 0.0, 0.0
    while now_s < hours * 3600:
        rate = spending.allowed_per_h(per_day, now_s)
        spending.advance({M: rate}, now_s)
        assert spending.last_day(now_s) <= per_day + 1e-6
        now_s += 60.0
        spent += rate / 60
    # What runs at the end can still be paid for as long as a drain may take.
    assert (
        spending.last_day(now_s) + spending.allowed_per_h(per_day, now_s) * REACH_S / 3600 <= per_day + 1e-6
    )


@given(courses)
def test_the_ledger_of_the_decisions_adds_up_to_what_was_spent(course):
    spending, now_s, total, rate = Spending(), 0.0, 0.0, 0.0
    spending.decided(M, 0, 0.0, 0.0)
    for span_s, next_rate in course:
        now_s += span_s
        total += span_s * rate / 3600
        rate = float(next_rate)
        spending.advance({M: rate}, now_s)
        spending.decided(M, next_rate, rate, now_s)
    assert abs(sum(line.money for line in spending.ledger) - total) < 1e-6


def test_each_model_has_its_own_ledger():
    spending = Spending()
    spending.advance({M: 2.0, N: 3.0}, 0.0)
    spending.decided(M, 1, 2.0, 0.0)
    spending.advance({M: 2.0, N: 3.0}, 3600.0)
    assert (spending.spent_on(M), spending.spent_on(N)) == (2.0, 3.0)
    spending.decided(M, 2, 4.0, 3600.0)
    (line,) = spending.ledger
    assert (line.model, line.replicas, line.predicted_per_h, line.money) == (M, 1, 2.0, 2.0)
    assert spending.spent_on(M) == 0.0


@given(st.integers(0, 10_000))
def test_an_onlooker_who_keeps_his_own_books_never_sees_a_cap_exceeded(seed):
    world = World(seed)
    while world.steps < 120:
        world.step()
    assert world.books.broken == []
