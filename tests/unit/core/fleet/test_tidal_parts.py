"""What the default law learns: what a replica carries, how demand grows, how long bursts last, whose clients wait."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.capacity import Capacity, Kind
from tidegate.core.fleet.scaling.clients import Clients
from tidegate.core.fleet.scaling.fullest import full_replica
from tidegate.core.fleet.scaling.growth import Growth
from tidegate.core.fleet.scaling.past import Past, Totals
from tidegate.core.fleet.scaling.perreplica import Pace
from tidegate.core.fleet.scaling.policies import Demand, Situation
from tidegate.core.fleet.scaling.policies.tidal import Tidal
from tidegate.core.fleet.scaling.rates import Arrivals
from tidegate.core.fleet.scaling.spikes import Spikes
from tidegate.core.fleet.scaling.swings import Swings
from tidegate.core.queueing import pace_spread_s
from tidegate.core.scaling_settings import Promise, Scaling, ScalingPolicy
from tidegate.core.types import ModelId

PROMPT, OUTPUT = 4000, 1000


class Ledger:
    """Clients at a rate, answers after a time; a sample each second."""

    def __init__(self, prompt=PROMPT, output=OUTPUT):
        self.past, self.now_s = Past(), 0.0
        self.came = self.ended = 0.0
        self.prompt, self.output = prompt, output
        self.add(0, 0)

    def add(self, queued, in_flight):
        came, ended = int(self.came), int(self.ended)
        totals = Totals(came, came * self.prompt, ended * self.output, ended, 0)
        self.past.add(self.now_s, queued, in_flight, totals)

    def flow(self, rate, took_s, span_s):
        for _ in range(int(span_s)):
            self.now_s += 1.0
            self.came += rate
            self.ended += rate
            self.add(0, round(rate * took_s))
        return self


def learned(pairs, prompt=PROMPT, output=OUTPUT, capacity=None):
    """A pace from steady minutes at so many in each of two replicas, which took so long."""
    pace, ledger = Pace(), Ledger(prompt, output)
    for batch, took_s in pairs:
        ledger.flow(2 * batch / took_s, took_s, 60)
        for _ in range(30):
            ledger.flow(2 * batch / took_s, took_s, 10)
            pace.look(ledger.past, 2, 256, capacity, ledger.now_s)
    return pace


def truth(batch):
    """Seconds of an answer of 1,000 tokens: 15 ms a step, and 0.45 ms for each beside it."""
    return 15.0 + 0.45 * batch


class TestWhatAReplicaCarries:
    def test_nothing_is_known_at_first_and_the_batch_size_counts(self):
        full = full_replica(Pace(), None, (PROMPT, OUTPUT), Promise(), (64.0, "slots"), None, 1)

        assert full.batch == 64
        assert full.requests_per_s is None
        assert full.bound_by == "slots"

    def test_the_law_is_learned_from_the_ledger_alone(self):
        pace = learned([(15, truth(15)), (40, truth(40))])

        assert pace.answer_s(60, PROMPT, OUTPUT) == pytest.approx(truth(60), rel=0.1)

    def test_time_for_each_token_bounds_the_batch(self):
        pace = learned([(15, truth(15)), (40, truth(40))])
        full = full_replica(pace, None, (PROMPT, OUTPUT), Promise(3.0, 0.05), (256.0, "slots"), None, 1)

        # The mean answer is 1.64 deviations faster than promised: one in twenty is late. Prompts count by the prior.
        prompt_s, took_s = pace.prompt_s(PROMPT), truth(full.batch)
        spread_s = pace_spread_s(took_s / 1000, full.batch / took_s, prompt_s, OUTPUT, 0.45e-3, full.batch)
        assert full.bound_by == "time"
        assert (took_s - prompt_s) / 1000 == pytest.approx(0.05 - 1.645 * spread_s, rel=0.03)
        assert full.requests_per_s == pytest.approx(full.batch / truth(full.batch), rel=0.05)

    def test_for_a_while_it_carries_as_much_as_has_its_mean_answer_in_time(self):
        pace = learned([(15, truth(15)), (40, truth(40))])
        full = full_replica(pace, None, (PROMPT, OUTPUT), Promise(3.0, 0.05), (256.0, "slots"), None, 1)
        brim = (50.0 + pace.prompt_s(PROMPT) - 15.0) / 0.45

        assert full.brim_per_s > full.requests_per_s
        assert full.brim_per_s == pytest.approx(brim / truth(brim), rel=0.05)

    def test_where_slots_are_what_bounds_it_both_are_the_same(self):
        pace = learned([(15, truth(15)), (40, truth(40))])
        full = full_replica(pace, None, (PROMPT, OUTPUT), Promise(3.0, 0.1), (40.0, "slots"), None, 1)

        assert full.bound_by == "slots"
        assert full.brim_per_s == full.requests_per_s

    def test_memory_bounds_the_batch_when_it_is_full_first(self):
        pace = learned([(15, truth(15)), (40, truth(40))])
        full = full_replica(pace, None, (PROMPT, OUTPUT), Promise(3.0, 0.1), (256.0, "slots"), 72.0, 1)

        assert full.bound_by == "memory"
        assert full.batch == pytest.approx(0.9 * 72)

    def test_what_the_gateways_have_learned_is_believed_until_a_minute_was_steady(self):
        capacity = Capacity(Kind(ModelId("m"), "vllm"))
        pace, ledger = Pace(), Ledger().flow(2.0, 30.0, 20)
        pace.look(ledger.past, 1, 256, capacity, ledger.now_s)

        assert pace.is_known
        assert pace.samples == 0
        assert pace.answer_s(1, PROMPT, OUTPUT) == pytest.approx(OUTPUT * capacity.step_s(1, 4500))

    def test_prompts_that_take_all_the_time_bound_the_rate_by_the_first_token(self):
        """8,000 tokens in, ten out: decoding is nothing, and eight prompts a second are too many."""
        capacity = Capacity(Kind(ModelId("m"), "vllm"))
        pace = learned([(2, 1.0), (4, 1.1)], 8000, 10)
        full = full_replica(pace, capacity, (8000, 10), Promise(5.0, 0.1), (256.0, "slots"), None, 1)
        prompt_s = capacity.prefill_s(8000, 0) - capacity.prefill.k0

        assert full.bound_by == "first token"
        assert 0.3 < full.requests_per_s * prompt_s < 0.9

    def test_a_minute_in_which_a_replica_came_teaches_nothing(self):
        pace, ledger = Pace(), Ledger()
        for serving in (1, 2, 1, 2, 1, 2):
            ledger.flow(2.0, 30.0, 30)
            pace.look(ledger.past, serving, 256, None, ledger.now_s)

        assert pace.samples == 0

    def test_what_an_overrun_replica_did_says_nothing_once_a_full_one_could_do_no_more(self):
        """It ended one in ten seconds while it was overrun. Then a day of calm, in which more is tried again and again."""
        pace, ledger = Pace(), Ledger().flow(1.0, 20.0, 60)
        known = learned([(20, 20.0)]).remember()
        pace.restore(replace(known, batches=(), most=(0.1, 0.0)), ledger.now_s)
        tried = []
        for _ in range(24 * 360):
            ledger.flow(1.0, 20.0, 10)
            pace.look(ledger.past, 1, 64, None, ledger.now_s)
            if (most := pace.remember().most) is not None:
                tried.append(most[0])

        assert max(tried) > 1.0
        assert max(tried) <= 64 / pace.answer_s(64, PROMPT, OUTPUT)
        assert pace.remember().most is None

    def test_a_minute_that_was_overrun_in_part_says_nothing_of_what_a_replica_can_do(self):
        """Two a second, twenty at a time; in the first twenty seconds of the last minute forty waited too."""
        pace, ledger = Pace(), Ledger().flow(2.0, 10.0, 120)
        pace.look(ledger.past, 1, 64, None, ledger.now_s)
        for second in range(60):
            ledger.came, ledger.ended, ledger.now_s = ledger.came + 2, ledger.ended + 2, ledger.now_s + 1.0
            ledger.add(40 if second < 20 else 0, 20)
        pace.look(ledger.past, 1, 64, None, ledger.now_s)

        assert pace.most_per_s(ledger.now_s) is None
        assert pace.samples == 0

    def test_one_that_was_overrun_all_along_does(self):
        pace, ledger = Pace(), Ledger().flow(2.0, 10.0, 120)
        pace.look(ledger.past, 1, 64, None, ledger.now_s)
        for _ in range(60):
            ledger.came, ledger.ended, ledger.now_s = ledger.came + 2, ledger.ended + 2, ledger.now_s + 1.0
            ledger.add(40, 20)
        pace.look(ledger.past, 1, 64, None, ledger.now_s)

        assert pace.most_per_s(ledger.now_s) == pytest.approx(2.0, rel=0.05)

    def test_answers_that_come_at_once_teach_nothing(self):
        pace, ledger = Pace(), Ledger().flow(2.0, 0.0, 120)
        for _ in range(12):
            ledger.flow(2.0, 0.0, 10)
            pace.look(ledger.past, 1, 256, None, ledger.now_s)

        assert pace.samples == 0

    @given(st.floats(1.0, 60.0), st.floats(0.1, 60.0))
    def test_a_stricter_promise_never_carries_more_while_it_can_be_kept(self, ttft_s, tpot_ms):
        pace = learned([(15, truth(15)), (40, truth(40))])
        lengths, most = (PROMPT, OUTPUT), (256.0, "slots")
        strict = full_replica(pace, None, lengths, Promise(ttft_s, tpot_ms / 1e3), most, 72.0, 1)
        lax = full_replica(pace, None, lengths, Promise(2 * ttft_s, 2 * tpot_ms / 1e3), most, 72.0, 1)

        if strict.token_alone_s is None:
            assert strict.batch <= lax.batch
            assert strict.requests_per_s <= lax.requests_per_s
        else:
            assert strict.token_alone_s > tpot_ms / 1e3
            assert strict.batch >= lax.batch, "it is not planned for"

    def test_what_one_alone_does_not_get_is_not_planned_for(self):
        """15 ms a token are promised at 10: replicas are filled as far as their memory goes, and each answer is late."""
        pace = learned([(2, truth(2)), (15, truth(15)), (40, truth(40))])
        lengths, most = (PROMPT, OUTPUT), (256.0, "slots")
        kept = full_replica(pace, None, lengths, Promise(3.0, 0.02), most, 72.0, 1)
        none = full_replica(pace, None, lengths, Promise(3.0, 0.01), most, 72.0, 1)

        assert kept.token_alone_s is None
        assert kept.batch < 12
        assert none.token_alone_s == pytest.approx(0.0155, rel=0.1)
        assert (none.batch, none.bound_by) == (pytest.approx(0.9 * 72), "memory")
        hovers = Promise(3.0, 1.002 * none.token_alone_s)
        near = full_replica(pace, None, lengths, hovers, most, 72.0, 1)
        still = full_replica(pace, None, lengths, hovers, most, 72.0, 1, gave_up=True)
        assert near.token_alone_s is None
        assert still.token_alone_s is not None, (
            "what hovers about the promise is not given up and taken up in turn"
        )

    def test_what_one_alone_takes_is_looked_into_before_it_is_said(self):
        """Full ones only have been seen, at 105 ms a token where 30 are promised. Half as full is what is tried next."""
        pace = learned([(200, truth(200))])
        full = full_replica(pace, None, (PROMPT, OUTPUT), Promise(3.0, 0.03), (256.0, "slots"), None, 1)

        assert full.token_alone_s is None
        assert full.batch == pytest.approx(100, rel=0.02)

    def test_a_prompt_that_takes_longer_than_the_first_token_may_is_not_planned_for(self):
        capacity = Capacity(Kind(ModelId("m"), "vllm"))
        pace = learned([(2, 1.0), (4, 1.1)], 8000, 10)
        prompt_s = capacity.prefill_s(8000, 0) - capacity.prefill.k0
        promise = Promise(0.5 * prompt_s, 0.2)
        full = full_replica(pace, capacity, (8000, 10), promise, (16.0, "slots"), None, 1)

        assert full.first_alone_s == pytest.approx(prompt_s + 0.2)
        assert full.bound_by != "first token"


class TestATrend:
    def test_what_rises_steadily_is_seen_and_what_is_level_is_not(self):
        """Level, and then from 10 to 40 requests a second within five minutes: a tenth of one more, each second."""
        arrivals, ledger = Arrivals(), Ledger()
        for _ in range(120):
            ledger.flow(10.0, 1.0, 5)
            arrivals.look(ledger.past, ledger.now_s)
        for step in range(30):
            ledger.flow(10.0 + step, 1.0, 10)
            arrivals.look(ledger.past, ledger.now_s)

        assert arrivals.rise_per_s(ledger.past, ledger.now_s) == pytest.approx(0.1, rel=0.35)
        ledger.flow(40.0, 1.0, 200)
        assert arrivals.rise_per_s(ledger.past, ledger.now_s) == 0.0

    def test_what_came_in_one_second_does_not_last(self):
        arrivals, ledger = Arrivals(), Ledger().flow(2.0, 1.0, 60).flow(100.0, 1.0, 1)
        assert arrivals.lasting_per_s(ledger.past, ledger.now_s) == pytest.approx(2.0, rel=0.05)
        ledger.flow(100.0, 1.0, 9)
        assert arrivals.lasting_per_s(ledger.past, ledger.now_s) == pytest.approx(100.0, rel=0.05)

    def test_before_a_minute_and_a_half_there_is_none(self):
        arrivals, ledger = Arrivals(), Ledger().flow(10.0, 1.0, 40).flow(30.0, 1.0, 40)

        assert arrivals.rise_per_s(ledger.past, ledger.now_s) == 0.0


class TestGrowth:
    def test_steps_that_come_often_are_provided_for(self):
        growth = Growth()
        for second in range(3600):
            growth.add(2.0 + 2.0 * (second // 360), 100.0, float(second))

        assert growth.quantile(0.95) == pytest.approx(2.0, rel=0.05)
        assert growth.quantile(0.50) == 0.0

    def test_what_is_steady_asks_for_nothing(self):
        growth = Growth()
        for second in range(3600):
            growth.add(5.0, 100.0, float(second))

        assert growth.quantile(0.95) == 0.0

    def test_a_shorter_lead_needs_less_of_a_ramp(self):
        """A request a second more each minute."""
        slow, quick = Growth(), Growth()
        for second in range(3600):
            slow.add(second / 60, 300.0, float(second))
            quick.add(second / 60, 30.0, float(second))

        assert slow.quantile(0.5) == pytest.approx(5.0, rel=0.1)
        assert quick.quantile(0.5) == pytest.approx(0.5, rel=0.2)

    def test_a_burst_of_long_ago_is_forgotten(self):
        growth = Growth()
        for second in range(4 * 3600):
            growth.add(50.0 if 600 <= second < 660 else 1.0, 100.0, float(second))

        assert growth.quantile(0.95) == 0.0

    def test_where_starts_take_ten_minutes_the_surge_of_two_hours_ago_is_not_forgotten(self):
        """Twelve starts are no long time: with starts of a hundred seconds it would be twenty minutes."""
        growth = Growth()
        for second in range(0, 4 * 3600, 5):
            growth.add(15.0 if 6600 <= second < 7200 else 5.0, 600.0, float(second))

        assert growth.quantile(0.97) == pytest.approx(10.0, rel=0.05)

    def test_nor_is_it_forgotten_by_a_restart_half_an_hour_later(self):
        """The half-life is two hours: of ten minutes' rise nine are left. With one of half an hour it would be half."""
        growth, restored = Growth(), Growth()
        for second in range(0, 7200, 5):
            growth.add(15.0 if 6600 <= second < 7200 else 5.0, 600.0, float(second))
        restored.restore(growth.remember(7200.0), 9000.0)

        assert restored.seen_s == pytest.approx(growth.seen_s * 0.5**0.25, abs=5.0)
        assert restored.quantile(0.97) == growth.quantile(0.97) == pytest.approx(10.0, rel=0.05)


class TestRates:
    def test_a_clockwork_that_doubles_is_noticed_within_seconds(self):
        arrivals, ledger = Arrivals(), Ledger()
        for _ in range(600):
            ledger.flow(4.0, 10.0, 1)
            arrivals.look(ledger.past, ledger.now_s)
        ledger.flow(8.0, 10.0, 10)

        assert arrivals.per_s(ledger.past, ledger.now_s) > 6.5

    def test_chance_is_not_taken_for_growth(self):
        """Five requests in one second among a minute of one a second."""
        arrivals, ledger = Arrivals(), Ledger()
        ledger.flow(1.0, 10.0, 60)
        ledger.came += 5
        ledger.flow(1.0, 10.0, 1)

        assert arrivals.per_s(ledger.past, ledger.now_s) == pytest.approx(65 / 60, rel=0.05)

    def test_nothing_is_known_before_there_were_two_samples(self):
        assert Arrivals().per_s(Past(), 0.0) is None


class TestBursts:
    def test_the_first_bursts_are_bought_for(self):
        spikes = Spikes()
        for at_s in range(60):
            spikes.look(3.0, 1, 120.0, float(at_s))

        assert spikes.is_worth(120.0, 60.0)

    def test_the_fourth_minute_long_burst_is_not(self):
        spikes = Spikes()
        for at_s in range(4 * 600 - 540):
            spikes.look(3.0 if at_s % 600 < 60 else 0.5, 1, 120.0, float(at_s))
            if at_s == 3 * 600 + 5:
                assert not spikes.is_worth(120.0, float(at_s))

    def test_one_that_lasts_longer_than_all_before_is_bought_for(self):
        spikes = Spikes()
        for at_s in range(3 * 600 + 100):
            spikes.look(3.0 if at_s % 600 < 60 or at_s > 1800 else 0.5, 1, 120.0, float(at_s))

        assert spikes.is_worth(120.0, 1900.0)

    def test_short_leads_are_worth_it(self):
        spikes = Spikes()
        for at_s in range(3 * 600 + 5):
            spikes.look(3.0 if at_s % 600 < 60 else 0.5, 1, 5.0, float(at_s))

        assert spikes.is_worth(5.0, 1805.0)


class TestClients:
    def test_those_who_wait_are_recognised_when_answers_get_faster(self):
        """64 of them: a second replica halves the time, and 64 are still there."""
        clients, ledger = Clients(), Ledger()
        for took_s in (80.0, 40.0):
            for _ in range(30):
                ledger.flow(64 / took_s, took_s, 10)
                clients.look(ledger.past, ledger.now_s)

        assert clients.wait

    def test_those_who_do_not_are_fewer_at_a_time_then(self):
        clients, ledger = Clients(), Ledger()
        for took_s in (80.0, 40.0):
            for _ in range(30):
                ledger.flow(0.8, took_s, 10)
                clients.look(ledger.past, ledger.now_s)

        assert not clients.wait

    def test_nothing_is_read_out_of_the_pauses_between_reports(self):
        """One report a minute of a load as steady as can be, looked at each second."""
        clients, past, arrivals = Clients(), Past(), Arrivals()
        rates = []
        for second in range(3600):
            if second % 60 == 0:
                past.add(float(second), 0, 64, Totals(4 * second, 0, 0, 4 * second))
            clients.look(past, float(second))
            if second > 120:
                rates.append(arrivals.per_s(past, float(second)))
            assert not clients.wait

        assert set(rates) == {4.0}, "and their rate does not fall until the next one"

    def test_a_steady_load_says_nothing_either_way(self):
        clients, ledger = Clients(), Ledger()
        for _ in range(90):
            ledger.flow(4.0, 16.0, 10)
            clients.look(ledger.past, ledger.now_s)

        assert not clients.wait


class TestSwings:
    @given(st.lists(st.booleans(), min_size=1, max_size=400), st.integers(1, 60))
    def test_changes_of_direction_within_an_hour_are_bounded(self, wishes, every_s):
        """Whatever is wished for: two in the account, 2.4 an hour paid in at a lead of 100 s, and as many on credit."""
        swings, steps = Swings(0.0), []
        for number, is_up in enumerate(wishes):
            now_s = float(number * every_s)
            if is_up or swings.may_fall(now_s, 100.0):
                swings.step(now_s, 100.0, is_up=is_up)
                steps.append((now_s, is_up))
        turned = [
            at_s
            for (before_s, before), (at_s, is_up) in itertools.pairwise(steps)
            if before is not is_up and at_s - before_s <= 600.0
        ]
        assert all(sum(start <= at_s < start + 3600.0 for at_s in turned) <= 6 for start in turned)

    def test_the_moment_it_names_is_the_moment_it_allows(self):
        swings = Swings(0.0)
        for now_s, is_up in ((0.0, False), (1.0, True), (2.0, False), (3.0, True)):
            swings.step(now_s, 100.0, is_up=is_up)
        due_s = swings.falls_at_s(4.0, 100.0)

        assert due_s is not None
        assert not swings.may_fall(due_s - 1.0, 100.0)
        assert swings.may_fall(due_s + 0.1, 100.0)

    def test_the_last_one_is_not_kept_for_it(self):
        """A request in each half minute, and a delay of seconds: somebody wants it to go to zero between them."""
        law = Tidal(Scaling(ScalingPolicy.TIDAL, 0, 3, window_s=1.0, scale_down_delay_s=2.0), 0, 0.0)
        past, standing, zero_s = Past(), 0, []
        for second in range(240):
            now_s, is_asked = float(second), second % 30 < 5
            number = second // 30 + 1
            past.add(now_s, 0, int(is_asked), Totals(number, 500 * number, 100 * number, number - is_asked))
            demand = Demand(
                in_flight=int(is_asked),
                concurrency=float(is_asked),
                peak=float(is_asked),
                complete_since_s=0.0,
                past=past,
            )
            seen = Situation(
                demand, standing, 0, 3, floor=int(is_asked), live=standing, serving=standing, slots=8
            )
            wanted = law.propose(seen, now_s).wanted
            if standing and not wanted:
                zero_s.append(second % 30)
            standing = wanted

        assert len(zero_s) == 8
        assert max(zero_s) <= 8, "five seconds of answer, two of delay"
