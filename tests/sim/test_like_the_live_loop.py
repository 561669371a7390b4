"""Where the simulator saves work or time stands still in it, it must still do what the live loop does."""

import pytest

from sim.worlds import CLOCKWORK, Notes, run, steady, world
from tidegate.core.effects import Stop
from tidegate.core.events import ReportDue, TokensSent


def turns(rows, scenario):
    notes = Notes()
    run(rows, scenario, 1, notes)
    return notes.turns


def reports(rows, scenario):
    return [at_s for _, at_s, event, _ in turns(rows, scenario) if isinstance(event, ReportDue)]


def test_a_gateway_that_was_idle_reports_at_its_old_beat():
    rows = [(0.25, 100, 10), (100.4, 100, 10), (155.7, 100, 10)]

    assert [at_s for at_s in reports(rows, world(min_replicas=1)) if at_s % 1] == []


def test_what_was_open_since_the_last_report_is_still_followed_by_a_report_without_it():
    # A second of answers from 9.5 s on; the report at 11 s tells of a peak, and only that at 12 s of none.
    moments = reports([(9.5, 10, 1_000), (40.0, 10, 10)], world(law=CLOCKWORK, min_replicas=1))

    assert [at_s for at_s in moments if 9 <= at_s < 14] == [10, 11, 12]


def test_a_drain_that_begins_in_silence_is_over_with_the_next_report():
    scenario = world(
        min_replicas=0, running=1, settle_s=60.0, window_s=9.7, scale_down_delay_s=10.45, law=CLOCKWORK
    )
    stops = [
        at_s
        for _, at_s, _, effects in turns(steady(2, 4, prompt=10, output=50), scenario)
        for effect in effects
        if isinstance(effect, Stop)
    ]

    # The last second with a request ends at 4 s, and 20.15 s later nobody is wanted.
    assert stops == [25.0]


def test_who_follows_on_an_answer_misses_the_step_that_begins_when_it_ends():
    # Two places. The second answer ends with the step at 10 ms; that to 11 ms has begun when the third comes.
    rows = [(0.0, 10, 100), (0.0, 10, 10), (0.0, 10, 5)]

    done, _ = run(rows, world(law=CLOCKWORK, slots=2, min_replicas=1, max_replicas=1))

    assert done.tally.queue_wait_s[2] == pytest.approx(0.010)
    assert done.tally.ttft_s[2] == pytest.approx(0.012)


def test_a_long_answer_is_told_of_as_it_grows_and_goes_on_being_told_of_elsewhere():
    # A token a millisecond, looked at each second; one replica dies after 1,500 of them.
    scenario = world(
        law=CLOCKWORK, resume=True, min_replicas=2, max_replicas=2, cold_s=60.0, faults=("kill:at=1.5005",)
    )
    rows = [(0.0, 100, 4_000), (0.0, 100, 500)]
    told = [
        (round(at_s), event.request_id, event.tokens)
        for _, at_s, event, _ in turns(rows, scenario)
        if isinstance(event, TokensSent)
    ]

    assert [(at_s, request_id) for at_s, request_id, _ in told] == [(1, "0"), (2, "0"), (3, "0"), (4, "0")]
    assert [tokens for _, _, tokens in told] == [1_000, 1_999, 2_999, 3_999]
