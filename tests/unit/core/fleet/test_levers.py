"""What cold starts consist of, and what each lever is predicted to gain: from what was measured, and from nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.fleet.levers import Ground, Start, report
from tidegate.core.lifecycle import Part, State
from tidegate.core.types import ModelId

M = ModelId("m")
GB = 10**9
SLOW, FAST = "hub", "nearby"


def told(starts, wakes_s=(), rates=None, *, can_sleep=False, failed=0):
    return report(M, "", starts, list(wakes_s), failed, rates or {}, can_sleep=can_sleep)


def start(
    pulling_s=0.0, starting_s=60.0, compiled=None, compile_s=None, capture_s=None, weights_s=None, came=None
):
    stages = {State.REQUESTED: 0.5, State.STARTING: starting_s}
    if pulling_s:
        stages[State.PULLING] = pulling_s
    said = {Part.WEIGHTS: weights_s, Part.COMPILE: compile_s, Part.CAPTURE: capture_s}
    parts = {part: took_s for part, took_s in said.items() if took_s is not None}
    return Start(0.5 + pulling_s + starting_s, stages, parts, compiled, came, SLOW if came else "")


def lever(found, name):
    return next((one for one in found.levers if one.name == name), None)


def test_stages_stand_in_their_order_with_their_shares():
    found = told([start(pulling_s=39.5), start(pulling_s=59.5), start(pulling_s=19.5)])

    assert [(span.name, span.starts) for span in found.spans] == [
        ("requested", 3),
        ("pulling", 3),
        ("starting", 3),
    ]
    assert [span.p50_s for span in found.spans] == [0.5, 39.5, 60.0]
    assert sum(span.share for span in found.spans) == pytest.approx(1.0)
    assert (found.p50_s, found.starts) == (100.0, 3)


def test_what_an_engine_tells_of_its_start_stands_below_its_stage():
    found = told([start(weights_s=10.0, compile_s=30.0, capture_s=12.0)])

    assert [span.name for span in found.spans[1:]] == [
        "starting",
        "starting: weights",
        "starting: compile",
        "starting: capture",
    ]


def test_a_wake_up_that_was_measured_says_what_sleep_would_gain():
    (best, *_) = told([start(), start(), start()], wakes_s=[3.0, 5.0, 4.0], can_sleep=True).levers

    assert (best.name, best.ground) == ("sleep instead of stop", Ground.MEASURED)
    assert best.gain_s == pytest.approx(56.5)
    assert best.because == "3 wake-ups took 4 s at the median"


def test_without_a_wake_up_what_was_published_stands_in_for_engines_that_can_sleep_only():
    assert lever(told([start()], can_sleep=False), "sleep instead of stop") is None

    found = lever(told([start()], can_sleep=True), "sleep instead of stop")
    assert (found.ground, found.gain_s) == (Ground.PUBLISHED, pytest.approx(54.5))
    assert "none was measured here" in found.because


def test_weights_that_are_there_before_save_what_pulling_took():
    found = lever(told([start(pulling_s=40.0), start(pulling_s=40.0), start()]), "weights ahead")

    assert (found.gain_s, found.ground) == (pytest.approx(40.0), Ground.MEASURED)
    assert found.because == "2 of 3 starts pulled weights, for 40 s at the median"


def test_a_pull_in_one_start_of_ten_gains_nothing_at_the_median():
    found = lever(told([start(pulling_s=40.0), *[start()] * 9]), "weights ahead")

    assert found.gain_s == 0.0
    assert found.gain_p90_s > 0.0


def test_a_nearer_source_sends_the_same_bytes_at_the_rate_that_was_measured_from_it():
    starts = [start(pulling_s=40.0, came=20 * GB)] * 3
    found = lever(told(starts, rates={SLOW: 0.5 * GB, FAST: 2.0 * GB}), "nearer source")

    assert found.gain_s == pytest.approx(30.0)  # 20 GB at 2 GB/s take 10 s
    assert found.because == "20 GB at 2 GB/s, as came from nearby"


def test_nothing_is_nearer_than_the_only_source():
    starts = [start(pulling_s=40.0, came=20 * GB)] * 3

    assert lever(told(starts, rates={SLOW: 0.5 * GB}), "nearer source") is None


def test_half_the_bytes_take_half_of_pulling_and_reading():
    found = lever(told([start(pulling_s=40.0, weights_s=8.0)] * 3), "smaller weights")

    assert (found.gain_s, found.ground) == (pytest.approx(24.0), Ground.PROPORTION)


def test_a_compilation_found_is_compared_with_those_that_were_made():
    """Two starts compiled for 30 s, one found it and took 8 s. At the median 22 s are saved."""
    starts = [
        start(starting_s=82.0, compiled=False, compile_s=30.0),
        start(starting_s=82.0, compiled=False, compile_s=30.0),
        start(starting_s=60.0, compiled=True, compile_s=8.0),
    ]
    found = lever(told(starts), "compiled before")

    assert (found.gain_s, found.ground) == (pytest.approx(22.0), Ground.MEASURED)
    assert found.because == "8 s in 1 start that found a compilation, 30 s in 2 that did not"


def test_where_engines_say_nothing_of_compiling_the_stage_is_compared():
    starts = [start(starting_s=82.0, compiled=False)] * 2 + [start(starting_s=60.0, compiled=True)]

    assert lever(told(starts), "compiled before").gain_s == pytest.approx(22.0)


@pytest.mark.parametrize("compiled", [True, False, None])
def test_one_sort_of_start_says_nothing_about_the_other(compiled):
    assert lever(told([start(compiled=compiled, compile_s=30.0)] * 3), "compiled before") is None


def test_graphs_are_captured_size_by_size():
    found = lever(told([start(capture_s=54.0)] * 2), "fewer capture sizes")

    assert (found.gain_s, found.ground) == (pytest.approx(27.0), Ground.PROPORTION)


def test_no_start_is_no_lever():
    found = told([], wakes_s=[4.0], can_sleep=True, failed=2)

    assert (found.starts, found.failed, found.p50_s, found.levers, found.spans) == (0, 2, None, (), ())


seconds = st.floats(0.0, 1e4)


@given(
    st.lists(
        st.builds(
            start,
            pulling_s=seconds,
            starting_s=seconds,
            compiled=st.sampled_from([True, False, None]),
            compile_s=st.none() | seconds,
            capture_s=st.none() | seconds,
            weights_s=st.none() | seconds,
            came=st.none() | st.integers(1, 10**12),
        ),
        min_size=1,
        max_size=20,
    ),
    st.lists(seconds, max_size=5),
    st.booleans(),
)
def test_no_lever_gains_more_than_the_whole_start_and_the_best_is_first(starts, wakes_s, can_sleep):
    found = told(starts, wakes_s, {SLOW: 1e8, FAST: 3e9}, can_sleep=can_sleep)

    gains = [one.gain_s for one in found.levers]
    assert gains == sorted(gains, reverse=True)
    assert all(-1e-6 <= one.gain_s <= found.p50_s + 1e-6 for one in found.levers)
    assert all(one.gain_p90_s <= found.p90_s + 1e-6 for one in found.levers)
