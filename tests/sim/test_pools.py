"""Tiers of capacity in the simulator: what is warm or asleep, what it costs, and what it saves."""

from array import array
from dataclasses import replace

import pytest

from sim.worlds import GPU, M, Notes, mixed, run, steady, trace_of, world
from tidegate.core.effects import Launch, Promote, Wake
from tidegate.core.scaling_settings import ScalingPolicy
from tidegate.core.settings import FleetLimits, Pool
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import ColdStart
from tidegate.sim.scenario import Machines
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate


def pooled(pool, *, wake_s=4.0, cold_s=100.0, **more):
    """A world whose model has a pool."""
    scenario = world(cold_s=cold_s, gpus=1, price=3.0, window_s=5, scale_down_delay_s=20, **more)
    setup = scenario.models[M]
    setup = replace(
        setup,
        fleet=replace(setup.fleet, pool=pool, expected_start_s=cold_s),
        cold_start=ColdStart(engine_start_s=cold_s, wake_s=wake_s, sleep_s=1.0),
    )
    return replace(scenario, models={M: setup})


TWO_BURSTS = steady(2, 60) + steady(2, 60, from_s=900)


def test_a_sleeper_answers_the_second_burst_in_seconds():
    asleep, slept = run(TWO_BURSTS, pooled(Pool(max_sleeping=1), max_replicas=1))
    _, cold = run(TWO_BURSTS, pooled(Pool(), max_replicas=1))
    second = [asleep.tally.ttft_s[row] for row in range(120, 240)]
    assert max(second) < 6
    assert slept.completed == cold.completed == 240
    assert slept.cold_starts == 1
    assert cold.cold_starts == 2
    assert slept.gpu_hours < cold.gpu_hours, "a wake-up takes less GPU time than a start"
    assert slept.hours_by_phase["sleeping"] > 0.15


def test_a_warm_one_answers_at_once_and_costs_its_gpu():
    warm, kept = run(TWO_BURSTS, pooled(Pool(max_warm=1)))
    second = [warm.tally.ttft_s[row] for row in range(120, 240)]
    assert max(second) < 1
    assert kept.hours_by_phase["warm"] > 0.15
    assert kept.gpu_hours > run(TWO_BURSTS, pooled(Pool(max_sleeping=1)))[1].gpu_hours


def test_each_tier_is_billed_at_its_own_price():
    priced = Pool(max_sleeping=1, sleeping_price_per_h=0.6)
    _, free = run(TWO_BURSTS, pooled(Pool(max_sleeping=1)))
    _, paid = run(TWO_BURSTS, pooled(priced))
    assert paid.cost - free.cost == pytest.approx(0.6 * paid.hours_by_phase["sleeping"], rel=1e-6)


def test_level_2_reads_its_weights_again():
    pool = Pool(max_sleeping=1, sleep_level=2)
    scenario = pooled(pool)
    setup = scenario.models[M]
    cold = ColdStart(weights_gb=16, weights_gb_per_s=2, engine_start_s=90, wake_s=1)
    scenario = replace(scenario, models={M: replace(setup, cold_start=cold)})
    done, _ = run(TWO_BURSTS, scenario)
    assert 9 <= done.tally.ttft_s[120] < 11


def test_streams_run_to_their_end_at_one_that_goes_to_sleep():
    """Answers of 20 s, and a law that shrinks after 20 s: many are still under way when theirs is demoted."""
    rows = steady(4, 120, prompt=200, output=2000) + steady(0.2, 300, prompt=200, output=2000, from_s=120)
    done, figures = run(rows, pooled(Pool(max_warm=1, max_sleeping=3, sleep_after_s=0), cold_s=10.0, law=GPU))
    assert figures.completed == len(rows)
    assert figures.failed == figures.rejected == figures.expired == 0
    assert figures.retries == 0, "nobody was cut off"
    assert figures.hours_by_phase["sleeping"] > 0
    assert done.launches <= 7


def test_two_models_take_turns_on_one_gpu():
    """The first has to be asleep before the second can wake: it shrinks, then it grows."""
    one = pooled(Pool(max_sleeping=1), cold_s=40.0)
    names = [ModelId("a"), ModelId("b")]
    scenario = replace(
        one,
        models=dict.fromkeys(names, one.models[M]),
        fleet=FleetLimits(max_gpus=1),
        machines=Machines(nodes=1, gpus_per_node=1),
    )
    rows, models = [], []
    for turn in range(8):
        rows += steady(1, 20, from_s=200.0 * turn)
        models += [names[turn % 2]] * 20
    trace = trace_of(rows)
    trace.models = models
    done = simulate(trace, scenario)
    figures = summarize(done)
    assert figures.completed == len(rows)
    assert figures.cold_starts == 2, "each is started once and sleeps in between"
    later = array("d", done.tally.ttft_s)[40:]
    assert max(later) < 8


def test_a_replica_that_is_lent_ends_what_it_had_for_its_own_model():
    """Long answers of one model are under way when its replica is demoted and given to the other one."""
    one = pooled(Pool(max_warm=2, group="same"), cold_s=20.0, concurrency_target=4, slots=4)
    names = [ModelId("a"), ModelId("b")]
    scenario = replace(one, models=dict.fromkeys(names, one.models[M]))
    rows, models = [], []
    for turn in range(6):
        start_s = 150.0 * turn
        rows += [(start_s + 0.1 * n, 100, 60 * (n + 1) ** 2) for n in range(12)]
        models += [names[turn % 2]] * 12
        rows += [(start_s + 70 + 0.1 * n, 100, 500) for n in range(12)]
        models += [names[1 - turn % 2]] * 12
    trace = trace_of(rows)
    trace.models = models
    notes = Notes()
    done = simulate(trace, scenario, 1, notes)
    figures = summarize(done)
    assert figures.completed == len(rows)
    assert figures.retries == 0
    lent = [e for _, _, _, effects in notes.turns for e in effects if isinstance(e, Promote)]
    assert any(not e.replica_id.startswith(e.model) for e in lent), "replicas have changed hands"


def orders(notes, kind, since_s=0.0):
    """Moment and replica of each such order."""
    return [
        (at_s, effect.replica_id)
        for brain, at_s, _, effects in notes.turns
        if brain == "fleet" and at_s >= since_s
        for effect in effects
        if isinstance(effect, kind)
    ]


def test_a_model_run_in_two_ways_sleeps_at_night_and_the_cheapest_wakes_first():
    """An evening on a large GPU and a small one, two quiet hours, and a morning that begins with single requests."""
    night_s, morning_s = 600.0, 9_000.0
    evening = steady(0.2, 120) + steady(4, 120, output=400, from_s=120) + steady(0.2, 300, from_s=240)
    morning = steady(0.2, 120, from_s=morning_s) + steady(5, 120, output=400, from_s=morning_s + 120)
    rows = evening + morning
    scenario = mixed(
        pool=Pool(max_sleeping=3, sleep_after_s=30.0),
        policy=ScalingPolicy.TIDAL,
        max_replicas=3,
        window_s=5,
        scale_down_delay_s=30,
    )
    notes = Notes()
    done, figures = run(rows, scenario, journal=notes)
    assert figures.completed == len(rows)
    assert figures.failed == figures.rejected == figures.expired == 0
    made = {
        effect.replica_id: effect.variant
        for _, _, _, effects in notes.turns
        for effect in effects
        if isinstance(effect, Launch)
    }
    assert set(made.values()) == {"", "small"}
    woken = [(at_s, made[name]) for at_s, name in orders(notes, Wake, morning_s)]
    (first_s, cheapest), (then_s, dearer), *_ = woken
    assert (cheapest, dearer) == ("small", "")
    assert first_s < morning_s + 2
    assert then_s > morning_s + 120
    assert all(at_s > then_s for at_s, _ in orders(notes, Launch, morning_s)), "everybody needed was asleep"
    assert max(done.tally.ttft_s[len(evening) :]) < 8, "a wake-up of 4 s, where a start takes 60"
    assert figures.hours_by_phase["sleeping"] > 2 * 0.9 * (morning_s - night_s) / 3600
