"""The published setting by the slot: what laws cost in it, and the controller at work in it."""

import pytest

from benchmarks.fleet.slotlaws import Traffic, filled, foreseeing, reactive
from benchmarks.fleet.slotwise import follow
from tidegate.core.scaling_settings import Promise, Scaling

EACH = 8.0
DAY = slice(0, 144)


def tidal(delay_s=1_800.0):
    return Scaling(
        min_replicas=1,
        max_replicas=100,
        window_s=30.0,
        scale_down_delay_s=delay_s,
        promise=Promise(ttft_s=10.0, tpot_s=2.0),
    )


class TestLaws:
    def test_a_law_that_knows_each_slot_costs_what_is_needed(self):
        traffic = Traffic((80.0, 160.0, 80.0) * 48, EACH)

        score = traffic.played(DAY, foreseeing(traffic, 2.0))

        assert score.served == 1.0
        assert score.lost == 0.0

    def test_a_number_serves_in_the_slot_after_the_one_it_was_decided_in(self):
        traffic = Traffic((80.0, 160.0, 80.0, 80.0), EACH)

        assert reactive(traffic, 1.0, 0) == [10, 10, 20, 10]
        assert reactive(traffic, 0.5, 1) == [20, 20, 40, 40]

    def test_what_rises_by_more_than_it_can_know_is_lost(self):
        """From 10 to 40 replicas, of which it knows 20: half of the 320 in the one slot, of 1,360 in all."""
        traffic = Traffic((80.0, 320.0, 320.0, 320.0, 320.0), EACH)

        score = traffic.played(slice(0, 5), foreseeing(traffic, 2.0))

        assert score.lost == pytest.approx(160.0 / 1_360.0)

    def test_starts_are_charged_beside_the_cheapest_schedule_with_starts(self):
        """Ten more are paid for from the slot before they are needed, by whoever knows and by the oracle."""
        traffic = Traffic((80.0, 160.0, 160.0), EACH)

        score = traffic.played(slice(0, 3), foreseeing(traffic, 2.0))

        assert score.charged == pytest.approx(1.0)

    def test_a_gap_in_the_recording_is_filled_from_its_neighbours(self):
        assert filled([10.0, 0.0, 0.0, 40.0, 50.0]) == (10.0, 20.0, 30.0, 40.0, 50.0)


class TestController:
    def test_a_step_is_lost_in_its_slot_and_served_in_the_next(self):
        """Three quiet hours at ten replicas' worth, then twice that."""
        course = follow((80.0,) * 18 + (160.0,) * 6, EACH, tidal(), running=12)

        assert max(course.lost[:18]) == 0.0
        assert course.lost[18] > 40.0
        assert max(course.lost[19:]) == 0.0
        assert 20.0 <= course.served[-1] <= 31.0

    def test_starts_are_charged_before_they_serve(self):
        course = follow((80.0,) * 18 + (160.0,) * 2, EACH, tidal(), running=12)

        assert course.charged[18] > course.served[18] + 5.0
        assert course.served[19] > course.served[18] + 5.0
        assert course.charged[:18] == course.served[:18]

    def test_what_is_not_needed_goes_when_its_time_is_over(self):
        course = follow((160.0,) * 12 + (80.0,) * 12, EACH, tidal(1_200.0), running=22)

        assert course.served[13] >= 20.0
        assert 10.0 <= course.served[-1] <= 12.0
