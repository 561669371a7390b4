"""What the laws look back at: means and rates over spans, over gateways that come, go and begin anew."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.fleet.coldstart import ColdStarts, Readiness
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.scaling.past import KEPT_S, Past, Totals
from tidegate.core.types import CapacityFigures, DemandReport, LatencySummary, ModelDemand, ModelId

M = ModelId("m")


def demand_of(arrivals=0, prompt=0, output=0, ended=0, refused=0, queued=0, in_flight=0, **more):
    return ModelDemand(
        M, queued, in_flight, queued + in_flight, 0, 0, arrivals, ended, output, 0.0, None,
        prompt_tokens_total=prompt, refused_total=refused, **more,
    )  # fmt: skip


def report(book, at_s, gateway="g", capacities=(), **figures):
    book.hear(DemandReport(gateway, 0, (demand_of(**figures),), (), capacities), float(at_s))


class TestMeans:
    def test_a_level_counts_for_as_long_as_it_held(self):
        past = Past()
        past.add(0.0, 10, 0, Totals())
        past.add(4.0, 0, 20, Totals())
        # 4 s of ten waiting, then 6 s of twenty in flight.
        assert past.mean_queued(10.0, 10.0) == pytest.approx(4.0)
        assert past.mean_in_flight(10.0, 10.0) == pytest.approx(12.0)
        assert past.mean_concurrency(3.0, 10.0) == pytest.approx(20.0)

    def test_a_window_that_is_longer_than_what_was_seen_is_cut_to_that(self):
        """Six seconds of data in a window of a minute are no reason to divide by sixty."""
        past = Past()
        past.add(100.0, 0, 30, Totals())
        past.add(106.0, 0, 30, Totals())
        assert past.mean_concurrency(60.0, 106.0) == pytest.approx(30.0)
        assert past.seen_s(106.0) == 6.0

    def test_nothing_seen_is_not_zero(self):
        past = Past()
        assert past.mean_concurrency(60.0, 5.0) is None
        assert past.arrivals_per_s(60.0, 5.0) is None
        past.add(5.0, 3, 0, Totals(9))
        assert past.mean_concurrency(60.0, 5.0) == 3.0, "as it is"
        assert past.arrivals_per_s(60.0, 5.0) is None, "one look at a counter tells no rate"

    def test_the_old_is_dropped_and_the_answers_stay(self):
        past = Past()
        for second in range(5_000):
            past.add(float(second), second % 7, 3, Totals(2 * second))
        assert past.arrivals_per_s(60.0, 4_999.0) == pytest.approx(2.0)
        assert past.mean_in_flight(1_200.0, 4_999.0) == pytest.approx(3.0)
        assert past.seen_s(4_999.0) == KEPT_S


@given(
    st.lists(st.tuples(st.floats(0.01, 30.0), st.integers(0, 500), st.integers(0, 500)), min_size=2, max_size=60),
    st.floats(0.5, 400.0),
)  # fmt: skip
def test_a_mean_lies_between_the_least_and_the_most_within_the_span(steps, span_s):
    past, now_s = Past(), 0.0
    levels = []
    for took_s, queued, in_flight in steps:
        now_s += took_s
        past.add(now_s, queued, in_flight, Totals())
        levels.append((now_s, queued + in_flight))
    now_s += 1.0
    first = max((at_s for at_s, _ in levels if at_s <= now_s - span_s), default=levels[0][0])
    within = [level for at_s, level in levels if at_s >= first]
    mean = past.mean_concurrency(span_s, now_s)
    assert min(within) - 1e-6 <= mean <= max(within) + 1e-6


class TestCounters:
    def test_two_gateways_are_added_up(self):
        book = DemandBook()
        for second in range(0, 61, 10):
            report(
                book,
                second,
                "a",
                arrivals=3 * second,
                prompt=300 * second,
                ended=3 * second,
                output=30 * second,
            )
            report(
                book, second, "b", arrivals=second, prompt=1_000 * second, ended=second, output=50 * second
            )
        past = book.demand(M, 10.0, 60.0).past
        assert past.arrivals_per_s(30.0, 60.0) == pytest.approx(4.0)
        assert past.mean_prompt_tokens(30.0, 60.0) == pytest.approx(325.0)
        assert past.mean_output_tokens(30.0, 60.0) == pytest.approx(20.0)

    def test_a_gateway_that_was_there_before_brings_no_flood(self):
        """The controller restarts beside a gateway that has counted a million requests."""
        book = DemandBook()
        report(book, 0, arrivals=1_000_000)
        report(book, 10, arrivals=1_000_020)
        assert book.demand(M, 10.0, 10.0).past.arrivals_per_s(60.0, 10.0) == pytest.approx(2.0)

    def test_a_gateway_that_begins_anew_counts_from_nothing(self):
        book = DemandBook()
        report(book, 0, arrivals=500, ended=500)
        report(book, 10, arrivals=510, ended=510)
        report(book, 20, arrivals=5, ended=5)  # restarted at 15 s
        assert book.demand(M, 10.0, 20.0).past.arrivals_per_s(20.0, 20.0) == pytest.approx(15 / 20)

    def test_what_was_turned_away_is_demand_too(self):
        book = DemandBook()
        report(book, 0)
        report(book, 10, arrivals=100, refused=40, ended=100, output=600)
        past = book.demand(M, 10.0, 10.0).past
        assert past.refused_per_s(10.0, 10.0) == pytest.approx(4.0)
        assert past.mean_output_tokens(10.0, 10.0) == pytest.approx(10.0), "of those that were answered"


class TestLatency:
    def test_without_a_metrics_source_the_gateways_own_percentiles_count(self):
        book = DemandBook()
        report(book, 0, "a", latency=LatencySummary(ttft_p90_s=0.5, tpot_p90_s=0.02))
        report(book, 1, "b", latency=LatencySummary(ttft_p90_s=1.5, tpot_p90_s=0.01))
        demand = book.demand(M, 10.0, 2.0)
        assert (demand.ttft_p90_s, demand.tpot_p90_s) == (1.5, 0.02), "the worst of each"
        assert book.demand(M, 10.0, 100.0).ttft_p90_s is None, "a minute later nothing is known"

    def test_a_percentile_that_is_no_number_is_not_known(self):
        book = DemandBook()
        report(book, 0, latency=LatencySummary(ttft_p90_s=float("nan")))
        assert book.demand(M, 10.0, 0.0).ttft_p90_s is None


class TestCapacity:
    def test_who_has_seen_most_is_believed(self):
        book = DemandBook()
        few = CapacityFigures(M, "vllm", "", (0.01, 0.5, 0.0), (0.01, 0.0, 0.0), 3, 3)
        many = CapacityFigures(M, "vllm", "", (0.02, 0.1, 0.0), (0.012, 0.0001, 0.0), 900, 500, 80_000.0)
        report(book, 0, "a", (few,))
        report(book, 0, "b", (many,))
        capacity = book.demand(M, 10.0, 0.0).capacity
        assert capacity.prefill_s(2_000, 0) == pytest.approx(0.22)
        assert capacity.step_s(10, 0) == pytest.approx(0.013)
        assert capacity.kv_tokens == 80_000.0

    def test_what_a_few_answers_have_taught_is_mostly_the_prior_and_is_not_believed(self):
        book = DemandBook()
        for samples, is_known in ((1, False), (31, False), (32, True)):
            learned = CapacityFigures(M, "", "", (0.01, 0.08, 0.0), (0.01, 0.0, 0.0), samples, samples)
            report(book, float(samples), "a", (learned,))
            assert (book.demand(M, 10.0, float(samples)).capacity is not None) == is_known

    @pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -0.01])
    def test_what_cannot_be_a_law_changes_nothing(self, wrong):
        book = DemandBook()
        good = CapacityFigures(M, "", "", (0.01, 0.08, 0.0), (0.01, 0.0, 0.0), 100, 100)
        report(book, 0, "a", (good,))
        for figures in (
            replace(good, prefill=(0.01, wrong, 0.0), prefill_samples=900),
            replace(good, decode=(0.01, 0.0, wrong), decode_samples=900),
            replace(good, kv_tokens=wrong, decode_samples=900),
        ):
            report(book, 1, "b", (figures,))
        capacity = book.demand(M, 10.0, 1.0).capacity
        assert (capacity.prefill_s(1_000, 0), capacity.kv_tokens) == (pytest.approx(0.09), None)

    def test_nothing_learned_is_not_known(self):
        book = DemandBook()
        report(book, 0)
        assert book.demand(M, 10.0, 0.0).capacity is None


class TestReadiness:
    def test_nothing_is_known_before_the_first_start_unless_it_is_configured(self):
        cold = ColdStarts()
        assert cold.readiness(M, None).quantile_s(0.9) is None
        assert cold.readiness(M, None).p_ready(1_000.0) is None
        assert cold.readiness(M, 100.0).quantile_s(0.5) == pytest.approx(100.0)

    def test_measured_starts_take_the_place_of_what_was_configured(self):
        cold = ColdStarts()
        for took_s in (80.0, 100.0, 125.0):
            cold.learn(M, took_s)
        ready = cold.readiness(M, 600.0)
        assert ready.median_s == pytest.approx(100.0)
        assert 110.0 < ready.quantile_s(0.9) < 140.0
        assert ready.samples == 3

    def test_one_that_is_overdue_may_still_come_and_one_far_beyond_may_not(self):
        ready = Readiness(100.0, 0.2, 8)
        assert ready.p_ready(20.0, age_s=110.0) > 0.5
        assert ready.p_ready(20.0, age_s=100_000.0) == 0.0


@given(
    st.floats(1.0, 600.0),
    st.floats(0.1, 1.0),
    st.floats(0.0, 500.0),
    st.floats(0.0, 500.0),
    st.floats(0.0, 500.0),
)
def test_more_time_never_makes_readiness_less_likely(median_s, spread, age_s, sooner_s, more_s):
    ready = Readiness(median_s, spread, 5)
    assert (
        0.0 <= ready.p_ready(sooner_s, age_s) <= ready.p_ready(sooner_s + more_s, age_s) + 1e-9 <= 1.0 + 2e-9
    )


def test_a_report_without_the_new_totals_still_counts():
    """Journals of earlier versions have none."""
    book = DemandBook()
    book.hear(DemandReport("g", 0, (ModelDemand(M, 0, 1, 1, 0, 0, 5, 4, 0, 0.0, None),), ()), 0.0)
    assert book.demand(M, 10.0, 0.0).concurrency == 1
