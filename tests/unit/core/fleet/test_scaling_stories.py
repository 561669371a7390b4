"""Numbers of replicas over time: growing, shrinking, zero and back, bad data, restarts."""

import math
from itertools import pairwise

import pytest

from tidegate.core.effects import Decision, Launch, WakeAt
from tidegate.core.scaling_settings import LawSettings, ScalingPolicy, Schedule, ScheduledFloor
from tidegate.core.types import LatencySummary, ModelId

M = ModelId("m")


def decisions(world):
    return [effect for effect in world.effects if isinstance(effect, Decision)]


# ---- growing ----


def test_a_burst_between_two_reports_is_seen_by_its_peak(world, settings):
    world.configure(0, {M: settings(concurrency_target=8)})
    world.report(1, queued=0, in_flight=2, peak=25)

    assert world.desired() == 4
    assert world.ordered("launch") == ["m-1", "m-2", "m-3", "m-4"]


def test_twenty_first_requests_for_one_cold_model_start_it_once(world, settings):
    world.configure(0, {M: settings(concurrency_target=32, max_replicas=4)})
    for n in range(1, 21):
        world.report(n / 1000, queued=n)
        world.tick(n / 1000)

    assert world.ordered("launch") == ["m-1"]


def test_what_is_on_its_way_is_not_ordered_again(world, settings):
    """60 s to start, a burst of 200, a decision each second: ordered once, not once a second."""
    world.configure(0, {M: settings(concurrency_target=10, max_replicas=100, start=60)})
    world.run(0, 59, queued=200)

    assert len(world.ordered("launch")) == 20


def test_a_target_that_one_replica_can_never_show_is_still_reached_by_those_who_wait(world, settings):
    world.configure(0, {M: settings(slots=1, concurrency_target=2)})
    world.report(0, queued=19, in_flight=1)
    assert world.desired() == 10

    world.configure(1, {M: settings(slots=1, concurrency_target=1)})
    world.report(1, queued=9, in_flight=1)
    assert world.desired() == 10


def test_noise_around_the_target_does_not_keep_it_from_growing(world, settings):
    world.configure(0, {M: settings(concurrency_target=20, window_s=5, scale_down_delay_s=30)})
    for at in range(0, 60, 2):
        world.report(at, in_flight=19)
        world.tick(at)
        world.report(at + 1, in_flight=22)
        world.tick(at + 1)

    assert [decision.desired for decision in world.decisions if decision.held_by is None] == [0, 1, 2]
    assert world.desired() == 2


def test_several_gateways_add_up(world, settings):
    world.configure(0, {M: settings(concurrency_target=8)})
    world.report(0, in_flight=10, gateway="a")
    world.report(0, in_flight=10, gateway="b")

    assert world.desired() == 3


# ---- shrinking ----


def test_down_after_the_delay_and_not_a_moment_sooner(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=1, scale_down_delay_s=30, concurrency_target=8)})
    world.run(0, 9, in_flight=32)
    assert world.desired() == 4

    world.run(10, 39, in_flight=8)
    assert world.desired() == 4
    assert world.view(39).decision.held_by == "scale_down_delay"
    assert world.wake_s == 40

    world.tick(40)
    assert world.desired() == 1


def test_the_way_down_stops_at_what_was_needed_meanwhile(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=1, scale_down_delay_s=30, concurrency_target=8)})
    world.run(0, 9, in_flight=80)
    world.run(10, 35, in_flight=40)
    world.run(36, 40, in_flight=8)
    assert world.desired() == 5

    world.run(41, 65, in_flight=8)
    assert world.desired() == 5
    world.run(66, 66, in_flight=8)
    assert world.desired() == 1


def test_leaving_a_burst_keeps_what_current_demand_needs_while_replicas_still_start(world, settings):
    world.configure(0, {M: settings(max_replicas=40, window_s=6, scale_down_delay_s=0, concurrency_target=1)})
    world.run(0, 5, in_flight=4, queued=36)
    world.ready(5, "m-1")
    world.run(6, 60, in_flight=4, queued=36)

    assert world.desired() == 40
    assert world.ordered("stop") == []


def test_no_traffic_is_data_even_when_latency_is_not_a_number(world, settings):
    """Seven replicas, then silence: zero requests is a fact, 0/0 in a percentile is not."""
    world.configure(0, {M: settings(min_replicas=1, window_s=5, scale_down_delay_s=20, concurrency_target=8)})
    world.run(0, 10, in_flight=56)
    assert world.desired() == 7

    world.run(11, 40, in_flight=0, latency=LatencySummary(0, math.nan, math.nan, math.nan, math.nan))
    assert world.desired() == 1


# ---- missing data ----


def test_a_busy_fleet_whose_gateway_falls_silent_is_kept(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=5, scale_down_delay_s=20, concurrency_target=8)})
    world.run(0, 30, in_flight=80)
    for at in range(31, 3000, 7):
        world.tick(at)

    assert world.desired() == 10
    assert world.view(3000).in_flight == 80, "the last that was heard, not zero"


def test_after_an_outage_the_first_samples_do_not_shrink(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=5, scale_down_delay_s=20, concurrency_target=8)})
    world.run(0, 30, in_flight=80)
    world.tick(300)
    world.run(300, 319, in_flight=0)
    assert world.desired() == 10
    assert world.view(319).decision.held_by in ("window", "scale_down_delay")

    world.run(320, 320, in_flight=0)
    assert world.desired() == 1


def test_one_silent_gateway_of_two_blocks_shrinking_and_keeps_its_last_share(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=5, scale_down_delay_s=20, concurrency_target=8)})
    for at in range(31):
        world.report(at, in_flight=16, gateway="a")
        world.report(at, in_flight=16, gateway="b")
        world.tick(at)
    world.run(31, 200, in_flight=0, gateway="a")
    assert world.desired() == 4
    assert world.view(200).decision.held_by == "no data"

    world.run(201, 201, in_flight=32, gateway="a")
    assert world.desired() == 6


def test_a_gateway_that_was_taken_away_is_forgotten_at_last(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=5, scale_down_delay_s=20, concurrency_target=8)})
    world.report(0, in_flight=16, gateway="old")
    world.run(0, 599, in_flight=0, gateway="new")
    assert world.desired() == 2

    world.run(600, 640, in_flight=0, gateway="new")
    assert world.desired() == 1


@pytest.mark.parametrize("bad", [math.nan, -1, math.inf])
@pytest.mark.parametrize("field", ["queued", "in_flight", "peak"])
def test_a_figure_that_is_no_count_is_unknown(world, settings, bad, field):
    world.configure(0, {M: settings(min_replicas=1, window_s=5, scale_down_delay_s=20, concurrency_target=8)})
    world.run(0, 30, in_flight=40)
    world.run(31, 200, **({"queued": 0, "in_flight": 0, "peak": 0} | {field: bad}))
    assert world.desired() == 5

    world.run(201, 260, in_flight=0)
    assert world.desired() == 1


def test_a_share_that_became_unknown_still_counts_for_growing(world, settings):
    world.configure(0, {M: settings(min_replicas=1, concurrency_target=8)})
    world.report(0, in_flight=16, gateway="a")
    world.report(0, in_flight=0, gateway="b")
    world.report(1, in_flight=math.nan, gateway="a", peak=math.nan)
    world.report(1, in_flight=32, gateway="b")
    assert world.desired() == 6


def test_a_model_missing_from_a_report_is_unknown(world, settings):
    other = ModelId("other")
    world.configure(0, {M: settings(min_replicas=1, window_s=5, scale_down_delay_s=20), other: settings()})
    world.run(0, 30, in_flight=40)
    world.run(31, 200, in_flight=0, model=other)

    assert world.desired() == 5


def test_without_any_data_the_minimum_is_kept_up(world, settings):
    """Metrics are out, one of three is left: the floor holds on this path too."""
    world.configure(0, {M: settings(min_replicas=3)})
    for n in (1, 2, 3):
        world.ready(10, f"m-{n}")
    world.exited(200, "m-1", "lost its machine")
    world.exited(200, "m-2", "lost its machine")

    assert world.desired() == 3
    assert world.ordered("launch") == ["m-1", "m-2", "m-3", "m-4", "m-5"]


# ---- restarts and settings ----


def test_a_restarted_controller_adopts_and_does_not_shrink_before_a_full_window(world, settings):
    for n in (3, 4, 9):
        world.adopt(0, f"m-{n}")
    world.configure(
        0, {M: settings(min_replicas=1, window_s=10, scale_down_delay_s=60, concurrency_target=8)}
    )
    assert world.desired() == 3
    assert world.states() == {"m-3": "serving", "m-4": "serving", "m-9": "serving"}

    world.run(0, 59, in_flight=1)
    assert world.desired() == 3
    world.run(60, 70, in_flight=1)
    assert world.desired() == 1
    assert world.ordered("launch") == []


def test_a_window_longer_than_the_delay_is_waited_for_too(world, settings):
    for n in (1, 2, 3):
        world.adopt(0, f"m-{n}")
    world.configure(0, {M: settings(min_replicas=1, window_s=30, scale_down_delay_s=0)})
    world.run(0, 29, in_flight=1)
    assert world.desired() == 3
    assert world.view(29).decision.held_by == "window"
    world.run(30, 30, in_flight=1)
    assert world.desired() == 1

    world.adopt(31, "m-8")
    world.run(31, 60, in_flight=1)
    assert world.desired() == 2
    world.run(61, 61, in_flight=1)
    assert world.desired() == 1


def test_an_extra_replica_started_by_hand_is_adopted_then_shrunk_with_a_reason(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=5, scale_down_delay_s=20)})
    world.ready(1, "m-1")
    world.run(1, 30, in_flight=1)
    world.adopt(30, "m-7")
    assert world.desired() == 2

    world.run(31, 52, in_flight=1)
    assert world.desired() == 1
    assert world.ordered("stop") == ["m-7"]
    assert world.ordered("launch") == ["m-1"]


def test_something_unknown_that_runs_is_stopped(world, settings):
    world.configure(0, {M: settings()})
    world.ready(1, "ghost-1")
    assert world.ordered("stop") == ["ghost-1"]


def test_adopted_before_the_settings_are_known(world, settings):
    world.adopt(0, "m-5")
    world.adopt(0, "gone-1", ModelId("gone"))
    assert world.orders == []

    world.configure(1, {M: settings()})
    assert world.states() == {"m-5": "serving", "gone-1": "draining"}
    assert world.ordered("stop") == ["gone-1"]


def test_allowing_zero_does_not_stop_a_replica_in_use(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=5, scale_down_delay_s=20)})
    world.ready(1, "m-1")
    world.run(0, 50, in_flight=0, last_active=50)
    world.configure(51, {M: settings(min_replicas=0, window_s=5, scale_down_delay_s=20)})
    for at in range(51, 120):
        world.report(at, in_flight=at % 2, last_active=at)
        world.tick(at)
    assert world.ordered("stop") == []
    assert world.desired() == 1


def test_a_change_of_policy_keeps_the_number_and_converges(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=5, scale_down_delay_s=20)})
    world.run(0, 30, in_flight=40)
    by_steps = settings(min_replicas=1, window_s=5, scale_down_delay_s=20, policy=ScalingPolicy.THRESHOLDS)
    world.configure(31, {M: by_steps})
    world.configure(31, {M: by_steps})
    world.run(31, 100, in_flight=40)

    assert world.desired() == 5


# ---- zero and back ----


def test_a_model_that_may_be_at_zero_starts_there_and_stays(world, settings):
    world.configure(0, {M: settings()})
    world.run(0, 300, in_flight=0)

    assert world.orders == []
    assert world.desired() == 0
    assert world.model_route().can_serve


@pytest.mark.parametrize("policy", ScalingPolicy)
def test_one_request_after_a_long_idle_time_wakes_it_at_once(world, settings, policy):
    world.configure(0, {M: settings(policy=policy)})
    for at in range(0, 45 * 60, 5):
        world.report(at)
        world.tick(at)
    assert world.orders == []

    world.report(2700.5, queued=1)
    assert world.ordered("launch") == ["m-1"]
    assert [decision.desired for decision in decisions(world)] == [1]


def test_probes_are_not_activity(world, settings):
    """Scrapes and empty reports go on all the time; only the ledger's own figures count."""
    world.configure(0, {M: settings(window_s=5, scale_down_delay_s=20)})
    world.report(0, queued=1, last_active=0)
    world.ready(3, "m-1")
    world.run(3, 40, in_flight=0, last_active=4)
    world.exited(40, "m-1")
    world.run(41, 300, in_flight=0, last_active=4)

    assert world.desired() == 0
    assert world.ordered("stop") == ["m-1"]
    assert world.ordered("launch") == ["m-1"]


def test_the_idle_time_counts_from_the_end_of_the_last_request(world, settings):
    world.configure(0, {M: settings(window_s=1, scale_down_delay_s=60)})
    world.report(0, queued=1, last_active=0)
    world.ready(1, "m-1")
    world.run(1, 299, in_flight=1, last_active=0)
    world.run(300, 359, in_flight=0, last_active=300)
    assert world.desired() == 1
    world.run(360, 360, in_flight=0, last_active=300)
    assert world.desired() == 0


def test_a_start_longer_than_the_idle_time_is_not_cut_off(world, settings):
    """180 s to load, 120 s of idle time, and the client has gone: it is let come up, and idles in peace."""
    world.configure(0, {M: settings(window_s=5, scale_down_delay_s=120)})
    world.report(0, queued=1, last_active=0)
    world.run(1, 179, in_flight=0, last_active=10)
    assert world.desired() == 1
    assert world.view(179).decision.held_by == "coming_up"

    world.ready(180, "m-1")
    world.run(180, 299, in_flight=0, last_active=10)
    assert world.desired() == 1
    assert world.view(299).decision.held_by == "idle_time"
    world.run(300, 300, in_flight=0, last_active=10)
    assert world.desired() == 0


# ---- thresholds without signals ----


def test_missing_signals_never_shrink_and_are_never_zero(world, settings):
    steps = settings(min_replicas=1, policy=ScalingPolicy.THRESHOLDS)
    world.configure(0, {M: steps})
    for at in range(400):
        world.signals(at, 0.95 if at < 70 else None)
        world.report(at, in_flight=3)
        world.tick(at)
    assert world.desired() == 2
    assert "gpu_utilization" not in world.view(400).decision.inputs

    for at in range(400, 800):
        world.signals(at, 0.05)
        world.report(at, in_flight=3)
        world.tick(at)
    assert world.desired() == 1


# ---- saying so ----


def test_a_decision_has_reason_inputs_and_what_one_more_or_less_would_mean(world, settings):
    world.configure(0, {M: settings(min_replicas=1, max_replicas=5, concurrency_target=8, price=2.5)})
    world.report(1, queued=20, in_flight=40)
    (decision,) = decisions(world)

    assert (decision.before, decision.desired, decision.held_by) == (1, 5, "max_replicas")
    assert decision.because == "60 queued or in flight at 8 a replica ask for 8; max_replicas allows 5"
    assert decision.inputs["queued"] == 20
    assert decision.inputs["asked"] == 8
    assert (decision.fewer.replicas, decision.fewer.slots, decision.fewer.queued) == (4, 32, 28)
    assert (decision.chosen.replicas, decision.chosen.queued, decision.chosen.cost_per_h) == (5, 20, 12.5)
    assert (decision.more.replicas, decision.more.queued) == (6, 12)


def test_the_same_decision_is_told_once(world, settings):
    world.configure(0, {M: settings(min_replicas=1, max_replicas=2, window_s=5, scale_down_delay_s=20)})
    world.run(0, 100, in_flight=60)
    assert [(d.desired, d.held_by) for d in world.decisions] == [(1, "min_replicas"), (2, "max_replicas")]

    world.decisions.clear()
    world.run(101, 200, in_flight=1)
    assert [(d.desired, d.held_by) for d in world.decisions] == [
        (2, "window"),
        (2, "scale_down_delay"),
        (1, None),
    ]


def test_a_wait_is_a_moment_to_be_woken_at(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=1, scale_down_delay_s=0.5)})
    world.run(0, 5, in_flight=16)
    world.report(6, in_flight=1)
    assert world.wake_s == 6.5
    world.tick(6.5)
    assert world.desired() == 1


def test_metrics_alone_start_no_turn(world, settings):
    world.configure(0, {M: settings(policy=ScalingPolicy.THRESHOLDS, min_replicas=1)})
    world.signals(100, 0.99)
    assert world.effects == []
    world.tick(100)
    assert any(isinstance(effect, Launch) for effect in world.effects)


def test_a_moment_that_has_passed_is_never_asked_for(world, settings):
    world.configure(0, {M: settings(min_replicas=1, window_s=3, scale_down_delay_s=7)})
    for at in range(200):
        world.report(at / 3, in_flight=(at * 7) % 40)
        world.tick(at / 3)
    wakes = [(at, e.at_s) for at, _, effects in world.turns for e in effects if isinstance(e, WakeAt)]
    assert wakes
    assert all(one[1] != other[1] for one, other in pairwise(wakes)), "nor is the same moment twice in a row"
    assert all(at_s > at for at, at_s in wakes)


def test_without_a_gpu_meter_the_slots_in_use_say_how_busy_the_engines_are(world, settings):
    world.configure(
        0, {M: settings(policy=ScalingPolicy.THRESHOLDS, min_replicas=1, max_replicas=3, slots=8)}
    )
    world.ready(10, "m-1")
    world.run(11, 80, in_flight=8)
    assert world.desired() == 2  # one full engine: 1.00 is above 0.85
    assert world.decisions[-1].because == "slot usage 1.00 is above 0.85"
    world.ready(81, "m-2")

    world.run(82, 500, in_flight=3)

    assert world.desired() == 1  # 3 of 16 slots: 0.19 is below 0.3
    assert "slot usage 0.19 below 0.3" in world.decisions[-1].because


def test_new_slots_are_for_new_replicas_and_running_ones_keep_their_batch_size(world, settings):
    world.configure(0, {M: settings(min_replicas=1, slots=8)})
    world.ready(1, "m-1")

    world.configure(2, {M: settings(min_replicas=2, max_replicas=2, slots=16)})
    world.ready(3, "m-2")
    world.tick(10)

    assert world.slots() == {"m-1": 8, "m-2": 16}


# ---- what is said of it ----


@pytest.mark.parametrize("policy", ScalingPolicy)
@pytest.mark.parametrize("in_flight", [0, 3])
def test_where_nothing_changes_nothing_new_is_said(world, settings, policy, in_flight):
    """Two replicas by the schedule for four minutes, and four turns a second: a law is asked each second or seldomer, and
    what stood in between was called by another name than at its turn, twice a second, for ever."""
    always_two = Schedule((ScheduledFloor(2),))
    world.configure(0, {M: settings(policy=policy, schedule=always_two, start=2, max_replicas=3)})
    world.ready(1, "m-1")
    world.ready(1, "m-2", port=9001)
    world.run(1, 180, every=0.5, in_flight=in_flight)
    before = len(world.decisions)
    world.run(180.5, 240, every=0.5, in_flight=in_flight)

    assert world.desired() >= 2
    assert world.decisions[before:] == []


def test_in_a_crowd_that_grows_and_goes_what_is_asked_for_is_not_told_again_and_again(world, settings):
    """Two at most, and a crowd that changes each second: told are that two run, that the most keeps it there, and that it
    is the delay which does so later. It was 41 decisions, each with another number asked for."""
    world.configure(0, {M: settings(max_replicas=2, concurrency_target=8, start=2, scale_down_delay_s=300)})
    world.report(0, in_flight=0, queued=30)
    for name, port in (("m-1", 9000), ("m-2", 9001)):
        world.ready(2, name, port=port)
    for second in range(3, 300):
        world.run(second, second, in_flight=16, queued=10 + second)
    for second in range(300, 600):
        world.run(second, second, in_flight=8 - second % 5, queued=0)

    told = [(one.desired, one.held_by) for one in world.decisions]
    assert told == [(0, None), (2, "max_replicas"), (2, "window"), (2, "scale_down_delay")]


@pytest.mark.parametrize("policy", [ScalingPolicy.TIDAL, ScalingPolicy.CRON, ScalingPolicy.CONCURRENCY])
def test_a_schedules_replicas_come_before_its_hour_and_go_after_it(world, settings, policy):
    """Two from minute 10 to minute 20, and starts that take 30 s."""
    ten_minutes = Schedule((ScheduledFloor(2, from_s=600, until_s=1_200),))
    world.configure(0, {M: settings(policy=policy, schedule=ten_minutes, start=30, max_replicas=3)})
    world.run(0, 540)
    assert world.desired() == 0

    world.run(541, 599)
    assert (world.desired(), world.decisions[-1].held_by) == (2, "schedule")
    assert world.decisions[-1].because.endswith("the schedule says 2")
    world.ready(599, "m-1")
    world.ready(599, "m-2", port=9001)

    world.run(600, 1_100)
    assert world.desired() == 2
    world.run(1_101, 1_400)
    assert world.desired() == 0


@pytest.mark.parametrize("policy", ["tidal", "concurrency", "tokens", "queue", "cron"])
def test_a_number_that_only_the_minimum_keeps_says_so(world, settings, policy):
    """Two at least, and nobody ever asks. What `tidal` said was that nothing is known of the demand, and two replicas."""
    world.configure(0, {M: settings(policy=ScalingPolicy(policy), min_replicas=2, start=2, max_replicas=3)})
    world.ready(1, "m-1")
    world.ready(1, "m-2", port=9001)
    world.run(1, 900)

    assert world.desired() == 2
    last = world.decisions[-1]
    assert (last.held_by, last.because.endswith("min_replicas keeps 2")) == ("min_replicas", True)


@pytest.mark.parametrize("also", [(), (LawSettings(ScalingPolicy.FORECAST),)])
def test_a_forecast_that_has_not_proven_itself_keeps_nobody(world, settings, also):
    world.configure(0, {M: settings(window_s=1, scale_down_delay_s=7, also=also)})
    world.report(0, queued=16)
    for number in (1, 2):
        world.ready(10, f"m-{number}", 9000 + number)
    world.run(11, 60, in_flight=16)
    world.run(61, 67, in_flight=0)
    assert world.desired() == 2, "the last request was there at 60, and the delay is 7 s"
    world.run(68, 70, in_flight=0)
    assert world.desired() == 0, "not at 70, when a forecast would look again"
    assert not any("no forecast" in decision.because for decision in world.decisions if decision.desired)
