"""The four sources of demand: how many each asks for, how much of it was heard, and how old that is."""

from dataclasses import replace

import pytest

from tidegate.core.capacity import Capacity, Kind
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.scaling.estimates import Estimate, Load, Memory, by_backlog, by_ledger
from tidegate.core.fleet.scaling.fullest import Full
from tidegate.core.fleet.scaling.policies import Demand, EngineSeen, Situation
from tidegate.core.fleet.scaling.policies.tidal import Tidal
from tidegate.core.scaling_settings import Promise, Scaling, ScalingPolicy
from tidegate.core.types import DemandReport, LatencySummary, ModelDemand, ModelId, ReplicaId

M = ModelId("m")
CAPACITY = Capacity(Kind(M, "vllm"))
PROMISE = Promise(3.0, 0.1)
FULL = Full(32.0, 2.0, 2.5, "slots")
CALM = Load(4.0, 0.0, 35.0)


def report(book, at_s, gateway, queued=0, prompts=None, in_flight=0, ttft_s=None):
    demand = ModelDemand(
        M, queued, in_flight, queued + in_flight, 9_000 * queued, 0, 0, 0, 0, 0.0, None,
        LatencySummary(60, ttft_p90_s=ttft_s), queued_prompt_tokens=prompts,
    )  # fmt: skip
    book.hear(DemandReport(gateway, 0, (demand,), ()), float(at_s))


def two_gateways():
    """Both have spoken; after the third second one of them is silent."""
    book = DemandBook()
    for second in range(21):
        report(book, second, "a", 2, 8_000, 10, ttft_s=0.5)
        if second <= 3:
            report(book, second, "b", 1, 40_000, 10, ttft_s=0.5)
    return book


class TestWhatGatewaysSay:
    def test_coverage_is_the_share_of_them_that_is_heard_and_age_that_of_the_one_silent_longest(self):
        book = two_gateways()
        before, after = book.demand(M, 60.0, 10.0), book.demand(M, 60.0, 20.5)

        both, one = (by_ledger(demand, FULL, CALM, at) for demand, at in ((before, 10.0), (after, 20.5)))
        assert (both.coverage, both.is_silent) == (1.0, False)
        assert (one.coverage, one.age_s, one.is_silent) == (0.5, 0.5, True)
        waits = by_backlog(after, CAPACITY, PROMISE, CALM, 20.5)
        assert (waits.coverage, waits.age_s, waits.is_silent) == (0.5, 0.5, True)
        assert after.queued_prompt_tokens == 48_000, "the last word of the one that is silent counts on"

    def test_where_all_are_silent_it_is_as_old_as_their_last_word(self):
        said = by_ledger(two_gateways().demand(M, 60.0, 80.0), FULL, CALM, 80.0)

        assert (said.coverage, said.age_s) == (0.0, 77.0)

    def test_latencies_are_covered_by_those_that_tell_them(self):
        """One has said nothing for half a minute."""
        book = two_gateways()
        report(book, 40, "a", in_flight=10, ttft_s=0.5)

        assert book.demand(M, 60.0, 21.0).signals_coverage == 1.0
        assert book.demand(M, 60.0, 41.0).signals_coverage == 0.5

    def test_a_gateway_that_does_not_count_prompts_leaves_them_unknown(self):
        book = DemandBook()
        report(book, 0, "new", 2, 8_000)
        report(book, 0, "old", 1)

        demand = book.demand(M, 60.0, 0.0)
        assert demand.queued_prompt_tokens is None
        assert by_backlog(demand, CAPACITY, PROMISE, CALM, 0.0).replicas is None

    def test_figures_that_cannot_be_leave_the_last_prompts_in_force(self):
        book = DemandBook()
        report(book, 0, "a", 2, 8_000)
        report(book, 1, "a", -1, -5)

        assert book.demand(M, 60.0, 1.0).queued_prompt_tokens == 8_000


class TestWhatWaits:
    def asked(self, queued, tokens, load=CALM):
        demand = Demand(queued=queued, in_flight=20, peak=20.0 + queued, queued_prompt_tokens=tokens)
        return by_backlog(demand, CAPACITY, PROMISE, load, 0.0).replicas

    def test_four_large_prompts_are_seen_though_four_find_room(self):
        """Four books of 200,000 tokens are 184 s of prefill, to be done in 35; four letters of 1,000 next to nothing."""
        assert self.asked(4, 800_000) == pytest.approx(4 * CAPACITY.prefill_s(200_000, 0.0) / 35.0)
        assert self.asked(4, 800_000) > 5.0
        assert self.asked(4, 4_000) < 0.02
        demand = Demand(queued=4, in_flight=20, peak=24.0)
        assert by_ledger(demand, FULL, CALM, 0.0).replicas == 2.0, "the ledger counts heads"

    def test_where_replicas_come_at_once_the_promised_first_token_is_the_measure(self):
        assert self.asked(4, 800_000, replace(CALM, drain_s=2.0)) == pytest.approx(
            4 * CAPACITY.prefill_s(200_000, 0.0) / PROMISE.ttft_s
        )

    def test_clients_who_wait_for_their_answers_are_no_backlog(self):
        assert self.asked(4, 800_000, replace(CALM, is_backlog=False)) == 0.0

    def test_the_law_orders_for_the_tokens_that_wait(self):
        """Two replicas with room for all heads, and three prompts of 150,000 tokens each at the door."""

        def proposed(tokens):
            law = Tidal(Scaling(ScalingPolicy.TIDAL, 1, 20), 2, 0.0)
            demand = Demand(
                queued=3, in_flight=4, concurrency=7.0, peak=7.0, complete_since_s=0.0, capacity=CAPACITY,
                queued_prompt_tokens=tokens,
            )  # fmt: skip
            return law.propose(Situation(demand, 2, 1, 20, live=2, serving=2, slots=32, promise=PROMISE), 1.0)

        assert proposed(3_000).wanted == 2
        many = proposed(450_000)
        assert many.wanted == 4
        assert many.because.endswith("backlog needs 4")
        assert many.inputs["by_backlog"] == pytest.approx(3 * CAPACITY.prefill_s(150_000, 0.0) / 24.5)


class TestMemory:
    def seen(self, pages, in_flight=40):
        """``pages`` are each engine's age, running and share of memory in use."""
        engines = [
            EngineSeen(ReplicaId(f"m-{n}"), age, run, 0, use) for n, (age, run, use) in enumerate(pages)
        ]
        demand = Demand(in_flight=in_flight, peak=float(in_flight))
        return Situation(demand, 2, 1, 9, serving=len(engines), live=len(engines), engines=tuple(engines))

    def test_a_page_teaches_once_however_often_it_is_looked_at(self):
        """A request held a fortieth of the memory, and of the next page's requests each a twentieth."""
        once, often = Memory(), Memory()
        for memory, looks in ((once, 1), (often, 15)):
            memory.look(self.seen([(0.0, 20, 0.5)]), 100.0)
            assert memory.room == pytest.approx(40.0)
            for look in range(looks):
                memory.look(self.seen([(look / 15, 10, 0.5)]), 105.0 + look / 15)

        assert once.room == pytest.approx(1 / (0.05 - 0.025 * 0.9**5))
        assert often.room == pytest.approx(once.room)

    def test_each_engine_teaches_by_how_many_run_there(self):
        memory = Memory()
        memory.look(self.seen([(0.0, 20, 0.5), (0.0, 20, 0.5)]), 100.0)
        memory.look(self.seen([(0.0, 20, 0.5), (0.0, 20, 0.9)]), 400.0)

        gained = 0.5 * (1 - 0.9**30) * (0.9 / 20 - 0.025)
        assert 1 / memory.room == pytest.approx(0.025 + gained)


@pytest.mark.parametrize("name", ["ledger", "backlog", "memory", "latency"])
def test_the_rule_of_four_fifths_is_one_for_all(name):
    assert not Estimate(name, 1.0, 0.8, 0.0).is_silent
    assert Estimate(name, 1.0, 0.79, 0.0).is_silent
    assert not Estimate(name, None, 0.0, 0.0, is_expected=False).is_silent
