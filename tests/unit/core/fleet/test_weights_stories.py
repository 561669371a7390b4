"""Weights on nodes: what fetching adds to a start, what it does not count against, and what is fetched ahead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.effects import Prefetch
from tidegate.core.events import ReplicaSeen, Tick, WeightsSeen
from tidegate.core.fleet.artifacts import ArtifactBook, joined_spread
from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.scaling.days import DAY_S
from tidegate.core.lifecycle import Seen, State
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import FleetModel, Prefetching, Restarts
from tidegate.core.types import Address, ModelId
from unit.core.fleet.conftest import World

M, GB = ModelId("m"), 10**9


def seen(missing, total=10 * GB, *, model=M, node="n1", host="hub", came=0, in_s=0.0):
    return WeightsSeen(model, node, host, total, missing, came, in_s)


def spec(**more):
    more = {"start_deadline_s": 60.0, "prefetch": Prefetching.OFF} | more
    return FleetModel(engine="vllm", slots=4, scaling=Scaling(max_replicas=2, concurrency_target=4), **more)


def world(**more):
    world = World()
    world.configure(0, {M: spec(**more)})
    return world


def route(world, replica_id):
    return next(route for route in world.table.routes if route.replica_id == replica_id)


def sees(world, at, replica_id, what, detail=""):
    address = Address("127.0.0.1", 1) if what is Seen.READY else None
    world.on(ReplicaSeen(replica_id, what, address, detail), at)


# ---- the book ----


def test_what_is_missing_takes_as_long_as_the_source_has_needed_for_as_much():
    book = ArtifactBook()
    book.hear(seen(0, came=10 * GB, in_s=20.0))
    book.hear(seen(5 * GB, 5 * GB, model=ModelId("other")))

    assert book.fetch_s(M) == 0.0
    assert book.fetch_s(ModelId("other")) == pytest.approx(10.0)
    # One fetch says little: nine in ten are over in less than twice the time.
    assert 15.0 < book.fetch_s(ModelId("other"), ratio=0.9) < 20.0


def test_what_is_not_known_is_not_zero():
    book = ArtifactBook()
    book.hear(seen(None, None))
    assert book.fetch_s(M) is None
    book.hear(seen(10 * GB))
    assert book.fetch_s(M) is None, "nobody knows how fast"
    # Of a model that fetches for itself nothing is ever said: what it needs is in its measured starts.
    assert book.fetch_s(ModelId("fetches by itself")) == 0.0


def test_of_a_variant_that_has_not_been_started_yet_the_settings_speak_and_they_speak_of_fetching_too():
    cold = ColdStarts()
    cold.artifacts.hear(seen(0, model=ModelId("other"), came=10 * GB, in_s=10.0))
    cold.artifacts.hear(seen(10 * GB))
    cold.learn(M, 40.0)
    assert cold.fetch_s(M, 60.0) == pytest.approx(10.0)
    assert cold.readiness(M, 60.0).median_s == pytest.approx(50.0)
    assert cold.fetch_s(M, 60.0, "small") == 0.0
    assert cold.readiness(M, 60.0, kind="small").median_s == 60.0
    # Where they say nothing, it is expected to start as the others do.
    assert cold.fetch_s(M, None, "small") == pytest.approx(10.0)


def test_a_fetch_is_learned_once_however_often_it_is_told_and_a_small_one_never():
    book = ArtifactBook()
    for _ in range(5):
        book.hear(seen(0, came=10 * GB, in_s=10.0))
    book.hear(seen(0, came=1_000_000, in_s=10.0))

    assert book.bandwidth("n1", "hub").samples == 1
    assert book.bandwidth("n1", "hub").median_per_s == pytest.approx(GB)


def test_a_source_of_which_nothing_is_known_is_taken_for_one_like_the_others_of_its_node():
    book = ArtifactBook()
    book.hear(seen(0, came=10 * GB, in_s=10.0))

    assert book.bandwidth("n1", "elsewhere").median_per_s == pytest.approx(GB)
    assert book.bandwidth("n2", "hub") is None


def test_a_start_goes_where_the_weights_are():
    book = ArtifactBook()
    book.hear(seen(0, node="n1", came=10 * GB, in_s=10.0))
    book.hear(seen(10 * GB, node="n2"))

    assert book.fetch_s(M) == 0.0
    assert book.fetch_s(M, "n2") is None
    assert [each.node for each in book.nodes_without(M)] == ["n2"]


@given(
    fetches=st.lists(st.tuples(st.integers(2 * 10**7, 10**12), st.floats(0.1, 1e4)), min_size=1, max_size=20),
    less=st.integers(1, 10**12),
    more=st.integers(0, 10**12),
    sure=st.floats(0.05, 0.9),
    surer=st.floats(0.0, 0.09),
)
def test_more_bytes_and_more_certainty_never_take_less_time(fetches, less, more, sure, surer):
    book = ArtifactBook()
    for came, in_s in fetches:
        book.hear(seen(less, came=came, in_s=in_s))
    short = book.fetch_s(M, ratio=sure)
    assert book.fetch_s(M, ratio=sure + surer) >= short
    book.hear(seen(less + more, came=came, in_s=in_s))

    assert book.fetch_s(M, ratio=sure) >= short


@given(st.floats(0.1, 1e4), st.floats(0.01, 2), st.floats(0.1, 1e4), st.floats(0.01, 2))
def test_two_times_together_are_no_less_certain_than_the_less_certain_one(one_s, one, other_s, other):
    assert joined_spread(one_s, one, other_s, other) <= max(one, other) * 1.0001


# ---- starts ----


def test_a_start_is_expected_later_where_weights_are_missing_and_measured_without_their_fetching():
    w = world()
    w.on(seen(10 * GB), 0)
    w.report(1, queued=1)
    # Nothing is known yet.
    assert route(w, "m-1").expected_ready_s is None
    sees(w, 2, "m-1", Seen.PULLING)
    sees(w, 12, "m-1", Seen.PULLING, "5.0 GB of 10.0 GB")
    assert w.brain.state(12.0).models[0].replicas[0].detail == "5.0 GB of 10.0 GB"
    sees(w, 22, "m-1", Seen.STARTING)
    assert w.brain.state(22.0).models[0].replicas[0].detail == ""
    w.on(seen(0, came=10 * GB, in_s=20.0), 22)
    sees(w, 52, "m-1", Seen.READY)

    # Launched at 1 and ready at 52, of which 20 s were fetching: 31 s where the weights are here.
    w.report(60, queued=9)
    assert route(w, "m-2").expected_ready_s == pytest.approx(60 + 31)


def test_weights_that_were_thrown_away_are_counted_again():
    w = world()
    w.report(1, queued=1)
    sees(w, 2, "m-1", Seen.STARTING)
    w.on(seen(0, came=10 * GB, in_s=20.0), 2)
    sees(w, 31, "m-1", Seen.READY)
    w.on(seen(10 * GB, came=10 * GB, in_s=20.0), 32)

    w.report(40, queued=9)

    assert route(w, "m-2").expected_ready_s == pytest.approx(40 + 20 + 30)


def test_a_long_download_is_no_failed_start_while_it_goes_on():
    w = world()
    w.report(0, queued=1)
    for at in range(10, 600, 10):
        sees(w, at, "m-1", Seen.PULLING, f"{at} of 600 GB")
        w.on(Tick(), at)
    assert route(w, "m-1").state is State.PULLING

    # It stops telling: after the deadline of a start it is given up, and how far it was is said.
    w.on(Tick(), 649)
    assert route(w, "m-1").state is State.PULLING
    w.on(Tick(), 651)

    assert (651, "stop", "m-1") in w.orders
    (failure,) = w.brain.state(651.0).failures
    assert failure.detail == "not ready 60 s after its launch, last seen pulling: 590 of 600 GB"


def test_after_a_download_a_start_has_its_whole_time():
    w = world(restarts=Restarts(backoff_first_s=1000.0, backoff_max_s=1000.0))
    w.report(0, queued=1)
    sees(w, 50, "m-1", Seen.PULLING)
    sees(w, 100, "m-1", Seen.STARTING)

    w.on(Tick(), 159)
    assert route(w, "m-1").state is State.STARTING
    w.on(Tick(), 161)

    assert (161, "stop", "m-1") in w.orders


# ---- ahead of need ----


def prefetches(world):
    return [(at, e) for at, _, effects in world.turns for e in effects if isinstance(e, Prefetch)]


def test_always_is_at_once_and_again_only_after_a_while():
    w = world(prefetch=Prefetching.ALWAYS)
    w.on(seen(None, None), 1)
    for at in range(1, 1800):
        w.on(Tick(), at)

    assert [(at, order.node) for at, order in prefetches(w)] == [(1, "n1"), (901, "n1")]
    w.on(seen(0), 1800)
    for at in range(1800, 4000, 10):
        w.on(Tick(), at)
    assert len(prefetches(w)) == 2


def test_off_is_never():
    w = world(prefetch=Prefetching.OFF)
    w.on(seen(None, None), 1)
    for at in range(1, 1000):
        w.on(Tick(), at)

    assert prefetches(w) == []


def test_a_model_that_was_busy_a_day_ago_is_fetched_before_that_hour():
    """Busy from 9:00 to 10:00 on the first day, thrown away in the night, fetched the next morning before 9:00."""
    w = world(prefetch=Prefetching.AHEAD)
    w.on(seen(0, came=10 * GB, in_s=100.0), 1)
    nine = 9 * 3600.0
    for minute in range(60):
        w.report(nine + 60 * minute, in_flight=5, arrivals=30 * minute)
        w.on(Tick(), nine + 60 * minute)
    w.report(nine + 3600, in_flight=0, arrivals=1800)
    w.on(seen(10 * GB, came=10 * GB, in_s=100.0), DAY_S)

    at = DAY_S
    while not prefetches(w) and at < 2 * DAY_S:
        w.report(at, arrivals=1800)
        w.on(Tick(), at)
        at += 60

    ((ordered_s, order),) = prefetches(w)
    assert 900 <= DAY_S + nine - ordered_s <= 1800
    assert order.model == M
    assert order.because == "0.5 requests/s came a day ago, within 15 min of this time"


def test_nothing_is_fetched_ahead_of_an_hour_in_which_nobody_ever_asked():
    w = world(prefetch=Prefetching.AHEAD)
    w.on(seen(10 * GB), 1)
    for at in range(0, 3 * 86_400, 300):
        w.report(at)
        w.on(Tick(), at)

    assert prefetches(w) == []


def test_what_a_replica_pulls_is_not_ordered_beside():
    w = world(prefetch=Prefetching.ALWAYS)
    w.report(0, queued=1)
    sees(w, 1, "m-1", Seen.PULLING)
    w.on(seen(10 * GB), 1)

    w.on(Tick(), 2)

    assert prefetches(w) == []
