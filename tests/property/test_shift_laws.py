"""Laws of traffic that is shifted between versions, for any weights, sessions, sizes and caches."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.dispatch.shift import SLACK_RATIO, Shift
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import TrafficShift

NAMES = ("old", "new", "third")
weights = st.lists(st.floats(0.5, 100.0), min_size=2, max_size=3)
sessions = st.lists(st.text(max_size=12), min_size=1, max_size=12)
requests = st.lists(
    st.tuples(st.integers(1, 5_000), st.none() | st.sampled_from(NAMES)), min_size=20, max_size=40
)


def shift_of(shares, **more):
    return Shift(TrafficShift(tuple(zip(NAMES, shares, strict=False)), **more))


def can(_model):
    return True


def nowhere(_model):
    return 0.0


@settings(max_examples=30)
@given(weights, sessions, requests)
def test_a_session_stays_whatever_else_is_sent(shares, names, others):
    shift = shift_of(shares)
    before = {name: shift.choose(name, can, nowhere) for name in names}
    for tokens, _ in others:
        shift.sent(shift.choose(None, can, nowhere), tokens)

    assert {name: shift.choose(name, can, nowhere) for name in names} == before


@given(weights, sessions, st.floats(1.0, 50.0), st.data())
def test_when_one_weight_grows_sessions_move_to_that_version_and_to_no_other(shares, names, times, data):
    grown = data.draw(st.integers(0, len(shares) - 1))
    more = [weight * (times if place == grown else 1.0) for place, weight in enumerate(shares)]
    before, after = shift_of(shares), shift_of(more)

    for name in names:
        was, now = before.choose(name, can, nowhere), after.choose(name, can, nowhere)
        assert now in (was, NAMES[grown])


@given(weights, sessions, st.data())
def test_when_a_version_cannot_serve_only_its_own_sessions_move(shares, names, data):
    gone = NAMES[data.draw(st.integers(0, len(shares) - 1))]
    shift = shift_of(shares)

    for name in names:
        was = shift.choose(name, can, nowhere)
        now = shift.choose(name, lambda model: model != gone, nowhere)
        assert now != gone
        assert was == gone or now == was


@settings(max_examples=50)
@given(weights, requests)
def test_tokens_are_shared_by_weight_whatever_the_caches_hold(shares, stream):
    shift = shift_of(shares)
    sent = dict.fromkeys(NAMES[: len(shares)], 0)
    for tokens, cached_at in stream:
        version = shift.choose(None, can, lambda model, at=cached_at: 100.0 if model == at else 0.0)
        shift.sent(version, tokens)
        sent[version] += tokens

    total, largest = sum(sent.values()), max(tokens for tokens, _ in stream)
    for name, weight in zip(NAMES, shares, strict=False):
        # Behind or ahead by no more than the slack for caches and a request for each version.
        due = total * weight / sum(shares)
        assert abs(sent[name] - due) <= len(shares) * (SLACK_RATIO * total + largest)


@given(weights, st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=120))
def test_the_first_version_is_never_taken_out_and_one_that_is_gets_nothing(shares, endings):
    shift = shift_of(shares, min_samples=5)
    out = set()
    for name, is_good in endings:
        outcome = Outcome.COMPLETED if is_good else Outcome.FAILED_ENGINE
        because = shift.ended(name, outcome, None)
        if because is not None and name not in out:
            out.add(name)
        assert shift.choose(None, can, nowhere) not in out
        assert shift.choose("a session", can, nowhere) not in out

    assert NAMES[0] not in out
