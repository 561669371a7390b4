"""Money over time: a day's budget that runs short, what is told of it, and who is refused meanwhile."""

import math
from dataclasses import replace

from tidegate.core.events import SpendingRestored
from tidegate.core.types import ModelId

M, N = ModelId("m"), ModelId("n")


def ready(world, at, upto, since=1):
    for n in range(since, upto + 1):
        world.ready(at, f"m-{n}", 9000 + n)


def test_as_the_days_money_runs_short_replicas_go_one_by_one_and_the_day_stays_within_it(world, settings):
    spec = settings(price=10.0, window_s=1, scale_down_delay_s=0, concurrency_target=8, drain_deadline=60.0)
    world.configure(0, {M: spec}, max_cost_per_day=100.0)
    world.report(0, in_flight=64)
    assert len(world.ordered("launch")) == 8
    ready(world, 1, 8)
    ended = set()
    for minute in range(1, 60 * 24):
        world.run(60 * minute, 60 * minute, in_flight=64)
        for name in set(world.ordered("stop")) - ended:
            world.exited(60 * minute + 30, name)
            ended.add(name)
        spent = world.brain.state(60.0 * minute).spending.last_day
        assert spent <= 100.0
    assert spent > 90.0, "nearly all of it is put to use"
    held = [d.held_by for d in world.decisions if d.desired < d.before]
    assert set(held) == {"fleet.max_cost_per_day"}
    assert all(d.before - d.desired <= 1 for d in world.decisions[1:]), "not all at once"


def test_a_decision_says_what_the_one_before_has_cost_and_the_page_keeps_the_ledger(world, settings):
    world.configure(0, {M: settings(price=6.0, window_s=1, scale_down_delay_s=5)})
    world.report(0, in_flight=16)
    ready(world, 10, 2)
    world.run(600, 602, in_flight=40)
    last = world.decisions[-1]
    assert (last.before, last.desired) == (2, 5)
    assert abs(last.spent - 2 * 6.0 * 600 / 3600) < 1e-6
    assert last.chosen.cost_per_h == 30.0
    spending = world.brain.state(602.0).spending
    assert spending.per_h == 30.0
    line = spending.ledger[-1]
    assert (line.replicas, line.predicted_per_h, line.money) == (2, 12.0, last.spent)


def test_while_a_cap_binds_the_gateways_are_told_to_refuse_the_lower_classes(world, settings):
    world.configure(0, {M: settings(min_replicas=1)}, max_replicas=2)
    world.report(0, in_flight=4)
    ready(world, 1, 1)
    assert not world.model_route().sheds
    world.report(2, in_flight=8, queued=40)
    assert world.model_route().sheds
    assert world.decisions[-1].held_by == "fleet.max_replicas"
    world.ready(3, "m-2")
    world.run(4, 200, in_flight=2)
    assert not world.model_route().sheds


def test_capacity_that_does_not_exist_is_given_up_and_the_way_down_stays_open(world, settings):
    """Five are wanted and the machines have room for three: two wait until their deadline, with a back-off."""
    spec = settings(start_deadline=60.0, window_s=1, scale_down_delay_s=5)
    world.configure(0, {M: spec})
    world.report(0, in_flight=40)
    ready(world, 5, 3)
    world.run(6, 59, in_flight=40)
    assert world.ordered("stop") == []
    world.run(60, 61, in_flight=40)
    assert world.ordered("stop") == ["m-4", "m-5"]
    launched = len(world.ordered("launch"))
    world.run(62, 300, in_flight=40)
    assert len(world.ordered("launch")) - launched <= 10, "it is tried again, ever more rarely, one at a time"
    world.run(301, 330, in_flight=3)
    assert list(world.states().values()).count("serving") == 1, "and what is not needed goes, whatever hangs"


def test_a_restart_forgets_neither_money_nor_starts(world, settings):
    world.on(SpendingRestored(((7200.0, 60.0), (600.0, 30.0), (math.nan, 5.0)), (100.0, 200.0, 5000.0)), 0)
    spec = settings(price=4.0, window_s=1, scale_down_delay_s=0)
    world.configure(0, {M: spec}, max_cost_per_day=100.0, max_starts_per_hour=3)
    world.report(1, in_flight=64)
    assert world.ordered("launch") == ["m-1"], "10 are left of the day, and one of the hour's starts"
    spending = world.brain.state(1.0).spending
    assert spending.last_day == 90.0
    assert len(spending.starts) == 3


def test_what_gateways_spill_is_money_of_the_day_and_of_the_decision_in_force(world, settings):
    world.configure(0, {M: settings(price=6.0, min_replicas=1, max_replicas=1)}, max_cost_per_day=50.0)
    world.report(0, in_flight=4)
    ready(world, 1, 1)
    world.report(600, in_flight=4, spilt_cost_total=2.0)
    world.report(1200, in_flight=4, spilt_cost_total=3.5)
    day = world.brain.state(1200.0).spending
    assert math.isclose(day.last_day, 2.0 + 3.5)
    assert day.per_h == 6.0, "what runs costs what it did"
    world.configure(1200, {M: settings(price=6.0, min_replicas=2, max_replicas=2)}, max_cost_per_day=50.0)
    assert math.isclose(world.decisions[-1].spent, 5.5)


def test_a_gateway_that_begins_anew_counts_from_nothing(world, settings):
    world.configure(0, {M: settings(price=0.0)})
    for at, total in ((0, 0.0), (60, 2.0), (120, 0.5), (180, math.nan), (240, 0.75)):
        world.report(at, spilt_cost_total=total)
    assert math.isclose(world.brain.state(240.0).spending.last_day, 2.75)


def test_a_gateway_heard_first_by_a_new_controller_is_not_paid_for_twice(world, settings):
    world.configure(0, {M: settings(price=0.0)})
    world.on(SpendingRestored(((120.0, 7.0),), ()), 0)
    world.report(1, spilt_cost_total=7.0)
    world.report(2, spilt_cost_total=7.5)
    assert math.isclose(world.brain.state(2.0).spending.last_day, 7.5)


def test_nothing_is_spilt_of_the_money_that_running_replicas_need_for_the_next_hour(world, settings):
    """One replica at 6 an hour, spilling at 2 an hour: of 20 a day spilling begins no more with less than 8 left."""
    spec = replace(settings(price=6.0, min_replicas=1, max_replicas=1), spill_cost_per_h=2.0)
    world.configure(0, {M: spec}, max_cost_per_day=20.0)
    world.report(0, in_flight=4)
    ready(world, 1, 1)
    world.report(60, in_flight=4, spilt_cost_total=11.5)
    assert world.model_route().may_spill
    world.report(120, in_flight=4, spilt_cost_total=13.5)  # as much as an hour allows, within a minute
    assert not world.model_route().may_spill
    assert world.desired() == 1


def test_without_a_cap_on_the_day_spilling_has_its_own_alone(world, settings):
    world.configure(0, {M: replace(settings(price=6.0), spill_cost_per_h=2.0)}, max_cost_per_h=6.0)
    world.report(0, in_flight=40, spilt_cost_total=0.0)
    world.report(60, in_flight=40, spilt_cost_total=1_000.0)
    assert world.model_route().may_spill
