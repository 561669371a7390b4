"""Laws of the pieces: the sliding maxima agree with the slow, obvious version; the clamp holds every limit."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.fleet.scaling.limits import grant
from tidegate.core.fleet.scaling.sliding import Hold, PeakWindow
from tidegate.core.fleet.scaling.wishes import Wish
from tidegate.core.fleet.sizes import Size
from tidegate.core.fleet.starts import HOUR_S, StartBudget, StartGate
from tidegate.core.settings import FleetLimits, Restarts
from tidegate.core.types import ModelId

spans = st.sampled_from([0, 1, 2, 5, 10])
sequences = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), min_size=1, max_size=50)


@given(sequences, spans)
def test_the_peak_window_agrees_with_looking_at_every_sample(sequence, window_s):
    window, samples, now_s = PeakWindow(), [], 0
    for wait_s, value in sequence:
        now_s += wait_s
        window.add(value, now_s)
        samples.append((now_s, value))
        within = [sample for at, sample in samples if now_s < at + window_s]
        found = window.peak(window_s, now_s)
        assert (found[0] if found else None) == max(within, default=None)


@given(sequences, spans, st.integers(0, 20))
def test_the_hold_agrees_with_looking_at_every_number(sequence, delay_s, standing):
    hold, stood, current, now_s = Hold(delay_s, standing), [], standing, 0
    for wait_s, number in sequence:
        now_s += wait_s
        stood.append((current, now_s))
        current = number
        counting = [old for old, until_s in stood if now_s < until_s + delay_s]
        assert hold.ask(number, now_s) == max([*counting, number])
        assert hold.due_s is None or hold.due_s > now_s


@st.composite
def wishes(draw):
    found = []
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)):
        low = draw(st.integers(0, 3))
        found.append(
            Wish(
                ModelId(name),
                wanted=draw(st.integers(0, 20)),
                min_replicas=low,
                max_replicas=draw(st.integers(low, 8)),
                held=draw(st.integers(0, 8)),
                size=Size(draw(st.integers(0, 4)), draw(st.sampled_from([0.0, 0.1, 2.5]))),
                can_start=draw(st.booleans()),
                is_owed=draw(st.booleans()),
            )
        )
    return sorted(found, key=lambda wish: wish.model)


caps = st.builds(
    FleetLimits,
    max_replicas=st.none() | st.integers(0, 20),
    max_gpus=st.none() | st.integers(0, 30),
    max_cost_per_h=st.none() | st.sampled_from([0.0, 0.3, 5.0, 20.0]),
)
leaving = st.lists(st.builds(Size, st.integers(0, 4), st.sampled_from([0.0, 2.5])), max_size=4)


@given(wishes(), caps, leaving, st.integers(0, 10))
def test_what_is_granted_is_within_every_limit(wishes, limits, leaving, starts_left):
    grants = grant(wishes, limits, leaving, starts_left)
    got = [(grants[wish.model].desired, wish) for wish in wishes]
    assert all(0 <= n <= wish.max_replicas for n, wish in got)
    assert sum(max(0, n - wish.held) for n, wish in got) <= starts_left
    for cap, used, added in (
        (limits.max_replicas, len(leaving), sum(n for n, _ in got)),
        (limits.max_gpus, sum(s.gpus for s in leaving), sum(n * wish.size.gpus for n, wish in got)),
        (
            limits.max_cost_per_h,
            sum(s.price_per_h for s in leaving),
            sum(n * wish.size.price_per_h for n, wish in got) - 1e-4,
        ),
    ):
        assert cap is None or added <= 0 or used + added <= cap


@given(wishes(), caps, leaving, st.integers(0, 10))
def test_a_grant_that_is_not_the_wish_names_the_limit(wishes, limits, leaving, starts_left):
    for model, granted in grant(wishes, limits, leaving, starts_left).items():
        (wish,) = [wish for wish in wishes if wish.model == model]
        assert granted.desired == wish.wanted or granted.held_by is not None


@given(wishes(), st.integers(0, 10))
def test_without_caps_everyone_gets_the_wish_within_minimum_and_maximum(wishes, extra):
    starts_left = extra + 8 * len(wishes)
    for model, granted in grant(wishes, FleetLimits(), [], starts_left).items():
        (wish,) = [wish for wish in wishes if wish.model == model]
        assert granted.desired == max(wish.min_replicas, min(wish.wanted, wish.max_replicas))


@given(st.lists(st.integers(0, 2000), max_size=40), st.integers(0, 8))
def test_the_hour_of_starts_rolls(gaps, per_hour):
    budget, started, now_s = StartBudget(), [], 0.0
    for gap_s in gaps:
        now_s += gap_s
        if budget.left(per_hour, now_s):
            budget.note(now_s)
            started.append(now_s)
        assert budget.used(now_s) == sum(at > now_s - HOUR_S for at in started) <= per_hour
        free_at_s = budget.free_at_s(per_hour, now_s)
        if per_hour == 0:
            assert free_at_s is None
        else:
            assert budget.left(per_hour, free_at_s) > 0
            assert free_at_s == now_s or budget.left(per_hour, free_at_s - 1) == 0


@given(st.integers(1, 12), st.sampled_from([0.5, 1.0, 4.0]), st.sampled_from([8.0, 60.0]))
def test_the_wait_after_failures_doubles_up_to_its_maximum_then_gives_up(give_up_after, first_s, max_s):
    gate = StartGate(Restarts(first_s, max_s, give_up_after, retry_failed_s=300.0))
    waits, now_s = [], 0.0
    for number in range(give_up_after):
        assert gate.allowed(5, 0, now_s) == (5 if number == 0 else 1)
        gate.fail(number, number, "words", now_s)
        waits.append(gate.block(now_s).until_s - now_s)
        assert gate.allowed(5, 0, now_s) == 0
        now_s += waits[-1]
    assert waits == [*(min(first_s * 2**n, max_s) for n in range(give_up_after - 1)), 300.0]
