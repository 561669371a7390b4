"""Whole stories, each with a bound on what clients felt and on what was paid for."""

import itertools

import pytest

from sim.worlds import Notes, run, steady, world
from tidegate.core.effects import Launch, Stop
from tidegate.core.settings import QueueLimits
from tidegate.sim.chart import chart_of
from tidegate.sim.scenario import Machines, Scraping


def desired(done):
    return [
        (round(at_s), decision.desired)
        for at_s, decision in done.decisions
        if decision.desired != decision.before
    ]


def test_a_flash_crowd_is_met_with_what_it_needs_and_no_more():
    rows = steady(1, 120) + steady(30, 60, from_s=120) + steady(1, 300, from_s=180)
    done, figures = run(
        rows, world(min_replicas=1, max_replicas=6, cold_s=20.0, window_s=10.0, scale_down_delay_s=60.0)
    )

    assert figures.completed == figures.requests
    assert figures.max_provisioned > 2
    assert figures.ttft_s.p99 < 25.0  # nobody waits longer than a cold start and a little
    assert 1.0 < figures.mean_provisioned < 3.0
    assert desired(done)[-1][1] == 1
    assert figures.scale_ups >= 1
    assert figures.scale_downs >= 1


def test_a_bounded_queue_turns_the_rest_of_a_crowd_away_and_they_count():
    rows = steady(40, 30)
    _, figures = run(rows, world(min_replicas=1, max_replicas=1, slots=4, queue=QueueLimits(max_requests=20)))

    assert figures.rejected > 100
    assert figures.completed + figures.rejected == figures.requests
    assert figures.ttft_s.p99 is None  # a percentile that falls among those turned away
    assert figures.attainment < 1 - figures.rejected / figures.requests + 1e-9


def test_a_slow_replica_takes_less_of_the_load():
    slow, _ = run(steady(8, 120), world(min_replicas=2, max_replicas=2, slots=8, faults=("slow:factor=6",)))
    even, _ = run(steady(8, 120), world(min_replicas=2, max_replicas=2, slots=8))

    assert max(slow.tally.e2e_s) > 3 * max(even.tally.e2e_s)
    # Tokens in flight pile up there, so the other one gets most of what is new.
    shares = sorted(slow_share(slow))
    assert shares[1] > 1.5 * shares[0]


def slow_share(done):
    notes = Notes()
    run(steady(8, 120), done.scenario, journal=notes)
    counts = {}
    for _, _, _, effects in notes.turns:
        for effect in effects:
            if type(effect).__name__ == "Send":
                counts[effect.replica_id] = counts.get(effect.replica_id, 0) + 1
    return list(counts.values())


def test_a_replica_that_dies_is_replaced_and_its_requests_go_elsewhere():
    done, figures = run(
        steady(6, 200), world(min_replicas=2, max_replicas=3, cold_s=20.0, faults=("kill:at=60",))
    )

    assert figures.failed <= 16  # only what had begun to answer on the dead one
    assert figures.completed + figures.failed == figures.requests
    assert figures.cold_starts == 1
    serving = chart_of(done, "p").replicas["serving"]
    assert serving[70] == pytest.approx(1.0, abs=0.01)
    assert serving[100] == pytest.approx(2.0, abs=0.01)


def test_starts_that_crash_are_tried_again_with_longer_and_longer_waits():
    notes = Notes()
    _, figures = run(
        steady(2, 200),
        world(min_replicas=0, max_replicas=1, cold_s=5.0, faults=("crash-loop:for=20",)),
        journal=notes,
    )

    launched_s = [at_s for _, at_s, _, effects in notes.turns for one in effects if isinstance(one, Launch)]
    waits_s = [later - sooner for sooner, later in itertools.pairwise(launched_s)]
    assert len(launched_s) >= 3
    assert waits_s == sorted(waits_s)
    assert figures.completed + figures.rejected + figures.expired == figures.requests
    assert figures.completed > 100


def test_a_start_that_never_gets_ready_is_given_up_at_its_deadline():
    notes = Notes()
    _, figures = run(
        steady(1, 300),
        world(
            min_replicas=0, max_replicas=1, cold_s=5.0, start_deadline_s=40.0, faults=("never-ready:for=30",)
        ),
        journal=notes,
    )

    stops = [
        (at_s, one.because) for _, at_s, _, effects in notes.turns for one in effects if isinstance(one, Stop)
    ]
    assert stops[0][0] == pytest.approx(41.0, abs=1.5)
    assert "not ready 40 s after its launch" in stops[0][1]
    assert figures.completed > 200


def test_to_zero_and_back():
    rows = [*steady(2, 30), (600.0, 500, 100)]
    done, figures = run(
        rows, world(
            min_replicas=0, max_replicas=2, cold_s=15.0, concurrency_target=40, scale_down_delay_s=60.0,
            settle_s=300.0,
        ),
    )  # fmt: skip

    assert figures.completed == figures.requests
    assert figures.cold_starts == 2
    assert done.tally.ttft_s[-1] == pytest.approx(15.0, abs=0.5)
    # Two starts of 15 s, 30 s of traffic, two idle times of 60 s: nothing more is paid for.
    assert figures.replica_hours * 3600 < 15 + 30 + 60 + 15 + 60 + 15
    assert desired(done)[-1][1] == 0


def test_gpus_that_are_not_there_are_waited_for():
    _, figures = run(
        steady(10, 200),
        world(
            min_replicas=1, max_replicas=4, gpus=1, price=3.0, cold_s=10.0, concurrency_target=1.5, settle_s=300.0,
            machines=Machines(nodes=1, gpus_per_node=2),
        ),
    )  # fmt: skip

    assert figures.max_provisioned > 2
    assert figures.hours_by_phase["waiting"] > 0
    assert figures.gpu_hours <= 2 * figures.cost / 3.0
    assert figures.gpu_hours == pytest.approx(figures.replica_hours)  # whoever waits is not paid for
    assert figures.cost == pytest.approx(3.0 * figures.gpu_hours)


def test_what_a_hanging_replica_has_not_begun_to_answer_is_answered_by_another():
    scenario = world(min_replicas=2, max_replicas=2, faults=("hang:at=50,for=100,health=1",))
    done, figures = run(steady(2, 200), scenario)

    # A stream that it was in the middle of is lost; nothing else is.
    assert figures.outcomes.get("failed_midstream", 0) == figures.failed <= 1
    assert figures.completed + figures.failed == figures.requests
    assert figures.retries >= 1
    # Sent there within a second of its hanging: the rest of the gateway's idle timeout and one answer. Whoever came
    # after that was sent to the other, until the first had rested and was tried once more.
    answered_s = [e2e_s for e2e_s in done.tally.e2e_s if e2e_s < float("inf")]
    assert 59.0 < max(answered_s) < 62.0
    assert sum(e2e_s > 5.0 for e2e_s in answered_s) <= 2


def test_clients_that_leave_are_counted_and_free_their_slots():
    done, figures = run(
        steady(4, 60),
        world(min_replicas=1, max_replicas=1, slots=2, faults=("leave:share=0.5,patience=1",)),
    )

    assert figures.outcomes["client_gone"] == figures.failed > 20
    assert figures.completed + figures.failed == figures.requests
    gone = [row for row, at_s in enumerate(done.tally.e2e_s) if at_s == float("inf")]
    assert len(gone) == figures.failed


@pytest.mark.parametrize("fault", ["no-metrics:at=100", "stale-metrics:at=100", "nan-metrics:at=100"])
def test_bad_metrics_do_not_shrink_a_fleet_that_is_in_use(fault):
    done, _ = run(
        steady(12, 400),
        world(min_replicas=1, max_replicas=4, concurrency_target=2, scale_down_delay_s=30.0, faults=(fault,)),
    )

    wanted = [number for at_s, number in desired(done) if at_s > 100]
    before = [number for at_s, number in desired(done) if at_s <= 100][-1]
    assert all(number >= before - 1 for number in wanted)


def test_a_controller_that_hears_nothing_keeps_what_there_is():
    done, _ = run(
        steady(12, 100) + steady(0.2, 300, from_s=100),
        world(
            min_replicas=1, max_replicas=4, concurrency_target=2, scale_down_delay_s=30.0,
            faults=("no-reports:at=90,for=310",),
        ),
    )  # fmt: skip

    peak = max(number for at_s, number in desired(done) if at_s < 90)
    assert all(number >= peak for at_s, number in desired(done) if 90 < at_s < 400)


def test_pages_that_get_lost_arrive_a_little_less_often():
    notes, all_there = Notes(), Notes()
    lossy = world(min_replicas=1, scraping=Scraping(every_s=5.0, loss_ratio=0.5))
    run(steady(1, 300), lossy, journal=notes)
    run(steady(1, 300), world(min_replicas=1, scraping=Scraping(every_s=5.0)), journal=all_there)

    def pages(kept):
        return sum(type(event).__name__ == "EngineReported" for _, _, event, _ in kept.turns)

    assert 0.25 * pages(all_there) < pages(notes) < 0.75 * pages(all_there)
