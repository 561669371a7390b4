"""The default law at work: a ledger that flows, replicas that take their time, and the number that is proposed."""

import itertools
from dataclasses import replace

import pytest

from tidegate.core.fleet.coldstart import Readiness
from tidegate.core.fleet.scaling.past import Past, Totals
from tidegate.core.fleet.scaling.policies import Coming, Demand, EngineSeen, Situation
from tidegate.core.fleet.scaling.policies.tidal import Tidal
from tidegate.core.scaling_settings import Promise, Scaling, ScalingPolicy
from tidegate.core.types import ReplicaId

SLOTS = 32
PROMPT, OUTPUT = 1000, 200


class Fleet:
    """Replicas with a law of their own: an answer takes ``5 s + 0.2 s`` for each other request beside it.

    So one with its 32 slots in use ends 32 / 11.4 = 2.8 requests a second. Open clients: what they ask for comes, and what
    finds no slot waits.
    """

    def __init__(self, serving=1, start_s=100.0, least=1, most=16, slots=SLOTS, **scaling):
        settings = {"scale_down_delay_s": 60.0, **scaling}
        self.scaling = Scaling(ScalingPolicy.TIDAL, least, most, **settings)
        self.law = Tidal(self.scaling, serving, 0.0)
        self.past, self.now_s = Past(), 0.0
        self.serving, self.start_s, self.slots = serving, start_s, slots
        self.coming = []
        self.standing = serving
        self.came = self.ended = 0.0
        self.there = 0.0
        self.said = None
        self.numbers = []
        self.is_heard = True
        self.page_age_s = 5.0
        """Of the engines' pages; None: they have none."""
        self.pages_gone = 0
        """So many replicas' pages do not come any more."""
        self.latency = True
        self.version = "v1"
        self.promise = Promise(2.0, 0.1)
        self.late_s, self.left_over = 0.0, 0
        """First tokens take so much longer than the load has it; and so many wait, whatever is free."""
        self.stuck = False
        """Nothing that starts gets ready."""

    def run(self, span_s, rate=0.0, clients=None):
        """``clients``: so many that wait for their answers, in place of a rate."""
        for _ in range(int(span_s)):
            self._second(rate(self.now_s) if callable(rate) else rate, clients)
        return self

    @property
    def each(self):
        return min(self.slots, self.there / self.serving) if self.serving else 0.0

    def _second(self, rate, clients):
        self.now_s += 1.0
        ended = self.serving * self.each / (5.0 + 0.2 * self.each)
        came = rate if clients is None else max(0.0, clients - self.there + ended)
        self.there = max(0.0, self.there + came - ended)
        self.there = self.there if self.there > 0.01 else 0.0
        self.came, self.ended = self.came + came, self.ended + ended
        for launched_s in [one for one in self.coming if self.now_s >= one + self.start_s and not self.stuck]:
            self.coming.remove(launched_s)
            self.serving += 1
        running = min(self.there, self.slots * self.serving)
        came, over = int(self.came), int(self.ended)
        if self.is_heard:
            self.past.add(
                self.now_s,
                round(self.there - running),
                round(running),
                Totals(came, came * PROMPT, over * OUTPUT, over, 0),
            )
        self.said = self.law.propose(self._situation(running, rate or clients), self.now_s)
        self._obey(max(self.scaling.min_replicas, min(self.said.wanted, self.scaling.max_replicas)))

    def _situation(self, running, is_busy):
        waits_s = (self.there - running) / max(0.1, self.serving * 2.8)
        floor = int(self.there > 0 or self.now_s < 60)
        return Situation(
            demand=Demand(
                queued=round(self.there - running) + self.left_over,
                in_flight=round(running),
                concurrency=round(self.there) + self.left_over,
                peak=round(self.there) + self.left_over,
                complete_since_s=0.0 if self.is_heard else None,
                ttft_p90_s=0.2 + waits_s + self.late_s if self.latency and is_busy else None,
                tpot_p90_s=(5.0 + 0.2 * self.each) / OUTPUT if self.latency and is_busy else None,
                signals_at_s=self.now_s if self.latency else None,
                past=self.past,
            ),
            standing=self.standing,
            min_replicas=self.scaling.min_replicas,
            max_replicas=self.scaling.max_replicas,
            floor=floor,
            floor_by="in_use" if floor else None,
            live=self.serving + len(self.coming),
            serving=self.serving,
            serving_slots=self.serving * self.slots,
            may_shrink=self.is_heard and self.now_s > 60,
            slots=self.slots,
            promise=self.promise,
            coming=tuple(Coming(at_s, at_s + self.start_s) for at_s in self.coming),
            readiness=Readiness(self.start_s, 0.1, 5),
            engines=tuple(
                EngineSeen(
                    ReplicaId(f"{self.version}-{number}"),
                    self.page_age_s if number >= self.pages_gone else 900.0,
                    round(self.each),
                    0,
                    0.5 * self.each / self.slots,
                )
                for number in range(0 if self.page_age_s is None else self.serving)
            ),
        )

    def _obey(self, number):
        while self.serving + len(self.coming) < number:
            self.coming.append(self.now_s)
        while self.serving + len(self.coming) > number:
            if self.coming:
                self.coming.pop()
            else:
                self.serving -= 1
        if number != self.standing:
            self.numbers.append((self.now_s, number))
        self.standing = number


def turns(numbers):
    """Changes of direction."""
    ways = [after > before for (_, before), (_, after) in itertools.pairwise(numbers)]
    return sum(one is not other for one, other in itertools.pairwise(ways))


class TestUp:
    def test_a_rate_that_four_replicas_carry_gets_them_and_no_cascade(self):
        """From one to nine a second at 2.8 each, and starts take 100 s: what comes up counts, and of what will have waited by
        then three more are bought to be rid of it."""
        fleet = Fleet().run(300, 1.0).run(900, 9.0)

        assert max(number for _, number in fleet.numbers) <= 8
        assert 4 <= fleet.standing <= 7
        assert turns(fleet.numbers) <= 1

    def test_a_burst_is_answered_within_seconds(self):
        fleet = Fleet().run(300, 1.0).run(15, 12.0)

        assert fleet.standing >= 3

    def test_a_flood_is_ordered_for_as_it_will_be_when_replicas_serve(self):
        """Twelve a second where one does 2.8: in the 100 s of a start some 900 will wait. What five replicas would carry ten
        are rid of by second 460; ordered for as the line grows, the same ten are so by 520."""
        fleet = Fleet(most=40).run(300, 1.0).run(40, 12.0)
        ordered = fleet.standing
        fleet.run(120, 12.0)

        assert 9 <= ordered <= 12
        assert max(number for _, number in fleet.numbers) <= ordered
        assert fleet.there < SLOTS * fleet.serving

    def test_a_burst_of_one_second_is_ordered_for_as_it_is(self):
        """Two hundred at once, then as before, and starts take a minute: nothing is bought for a flood that does not come."""
        fleet = Fleet(start_s=60.0, most=40).run(300, 1.0).run(1, 200.0)
        at_once = fleet.standing
        fleet.run(60, 1.0)

        assert at_once <= 9
        assert max(number for _, number in fleet.numbers) == at_once

    def test_everybody_full_grows_and_half_of_them_full_shrinks(self):
        """The rules of batching fall out: nobody has set a utilisation."""
        full = Fleet(serving=2).run(600, 5.7)
        assert full.standing > 2
        half = Fleet(serving=4).run(900, 2.0)
        assert half.standing < 4

    def test_a_step_that_has_come_before_is_held_for(self):
        """Each ten minutes two a second more: at six a second there is room for eight."""
        fleet = Fleet(most=30).run(3000, lambda at_s: 2.0 + 2.0 * (at_s // 600))
        rate = 2.0 + 2.0 * (2999 // 600)

        assert fleet.said.inputs["reserve"] > 0.4
        assert fleet.standing >= rate / 2.8 + 0.5

    def test_what_is_far_too_late_counts_no_more(self):
        fleet = Fleet().run(300, 1.0)
        fleet.stuck = True
        fleet.run(60, 9.0)
        asked = fleet.standing
        fleet.run(600, 9.0)

        assert fleet.standing > asked
        assert fleet.standing <= 2 * asked + 4  # it waits long; each source still says what it says

    @pytest.mark.parametrize("is_stuck, more", [(False, []), (True, [6])])
    def test_for_one_that_is_far_beyond_its_time_another_is_ordered(self, is_stuck, more):
        """Four carry the ten a second, and a fifth is held for the next step. It dies and is started anew: 100 s, a tenth
        more or less. In time it is the fifth; of one that has not come after 160 s nothing is to be expected."""
        fleet = Fleet(most=30).run(3000, lambda at_s: 2.0 + 2.0 * (at_s // 600))
        began_s, fleet.stuck, fleet.numbers = fleet.now_s, is_stuck, []
        fleet.serving -= 1
        fleet.coming.append(began_s)
        fleet.run(400, 10.0)

        assert [number for _, number in fleet.numbers] == more
        assert all(began_s + 150.0 <= at_s <= began_s + 200.0 for at_s, _ in fleet.numbers)


class TestWhatCannotBeKept:
    """A request alone takes 26 ms a token; 20 ms are promised. Three a second come, and two full replicas end 5.6."""

    def slow(self, rate):
        fleet = Fleet(start_s=20.0, most=40)
        fleet.promise = Promise(2.0, 0.02)
        return fleet.run(1800, rate)

    def test_more_replicas_than_the_rest_needs_are_not_bought(self):
        """At one request in each it would be sixteen, and no answer in time."""
        fleet = self.slow(3.0)

        assert max(number for _, number in fleet.numbers) <= 6
        assert fleet.standing <= 3
        assert "(one request alone takes 26 ms a token, promised 20 ms: more replicas do not help)" in (
            fleet.said.because
        )

    def test_what_can_be_kept_still_is(self):
        """The rate triples, and what waits beyond the first token's time is worked off."""
        fleet = self.slow(3.0).run(900, 9.0)

        assert fleet.there <= fleet.serving * SLOTS, "nobody waits"
        assert 4 <= fleet.standing <= 7


class TestDown:
    def test_one_at_a_time_and_each_with_room_to_spare(self):
        fleet = Fleet(serving=6).run(1200, 2.0)

        assert fleet.standing <= 2
        steps = [
            before - after for (_, before), (_, after) in zip(fleet.numbers, fleet.numbers[1:], strict=False)
        ]
        assert set(steps) <= {1}

    def test_a_flood_ebbs_by_quarters(self):
        """48 stand, and 2 requests a second are what is left. By ones, a fifth of a lead time apart, it would take a quarter
        of an hour; by quarters it is seven steps to the last seven."""
        fleet = Fleet(serving=48, most=48).run(1200, 2.0)
        numbers = [48, *(number for _, number in fleet.numbers)]
        steps = [before - after for before, after in itertools.pairwise(numbers) if after < before]

        assert fleet.standing <= 2
        assert steps[0] == 12
        assert all(step <= max(1, before // 4) for step, before in zip(steps, numbers, strict=False))
        assert len(steps) <= 16

    def test_nobody_goes_while_first_tokens_are_late_though_the_ledger_needs_two_only(self):
        """Three times what is promised, of some who wait for a replica that has their adapter: more replicas are no remedy,
        and fewer would make it worse. Once the promise is kept they go."""
        fleet = Fleet(serving=6)
        fleet.late_s, fleet.left_over = 6.0, 2
        fleet.run(900, 2.0)
        assert fleet.numbers == []
        assert fleet.said.asked <= 5, "it is not the demand that keeps them"

        fleet.late_s, fleet.left_over = 0.0, 0
        fleet.run(900, 2.0)
        assert fleet.standing <= 2

    def test_two_and_one_do_not_take_turns(self):
        """Two at 0.7 of what one carries: one would be at 1.4. Hours of it."""
        fleet = Fleet(serving=2).run(3 * 3600, 3.9)

        assert fleet.numbers == [] or turns(fleet.numbers) == 0

    def test_the_delay_is_kept(self):
        fleet = Fleet(serving=4, scale_down_delay_s=300.0).run(600, 8.0)
        began_s = fleet.now_s
        standing = fleet.standing
        fleet.run(250, 0.5)
        assert fleet.standing == standing
        fleet.run(600, 0.5)
        assert fleet.standing < standing
        assert all(
            at_s >= began_s + 250 for at_s, number in fleet.numbers if at_s > began_s and number < standing
        )

    def test_nobody_asks_any_more_and_the_last_one_goes(self):
        fleet = Fleet(least=0).run(600, 1.0).run(900, 0.0)

        assert fleet.standing == 0


class TestWhatIsNotKnown:
    def test_a_gateway_that_is_silent_shrinks_nothing(self):
        fleet = Fleet(serving=4).run(300, 8.0)
        standing = fleet.standing
        fleet.is_heard = False
        fleet.run(900, 0.0)

        assert fleet.standing == standing
        assert fleet.said.held_by == "no data"

    @pytest.mark.parametrize("what", [("page_age_s", 900.0), ("latency", False)])
    def test_a_source_that_has_fallen_silent_shrinks_nothing_while_there_is_work(self, what):
        fleet = Fleet(serving=5).run(50, 8.0)
        setattr(fleet, *what)
        fleet.run(900, 1.0)

        assert fleet.standing >= 5
        assert fleet.said.held_by in ("memory_unknown", "latency_unknown")

    @pytest.mark.parametrize("gone, stays", [(1, 4), (2, 6), (4, 6), (6, 6)])
    def test_nobody_goes_while_less_than_four_fifths_of_the_pages_come(self, gone, stays):
        """Six replicas, work for two. One page of six is away, then of five: one goes each time. Of four it is a quarter."""
        fleet = Fleet(serving=6).run(50, 8.0)
        fleet.pages_gone = gone
        fleet.run(900, 1.0)

        assert fleet.standing == stays
        assert fleet.said.held_by == "memory_unknown"

    def test_where_nobody_is_there_the_ledger_knows_as_much_as_a_page_that_does_not_come(self):
        fleet = Fleet(serving=5, least=0).run(50, 8.0)
        fleet.page_age_s = 900.0
        fleet.run(900, 0.0)

        assert fleet.standing == 0

    def test_engines_that_say_nothing_are_no_source_though_those_before_them_said_something(self):
        """A later version has another name for its figure, so nobody reads it."""
        fleet = Fleet(serving=5).run(50, 8.0)
        fleet.version, fleet.page_age_s = "v2", None
        fleet.run(900, 1.0)

        assert fleet.standing < 5

    def test_a_source_that_never_spoke_is_none(self):
        fleet = Fleet(serving=5)
        fleet.page_age_s, fleet.latency = None, False
        fleet.run(900, 1.0)

        assert fleet.standing < 5


class TestSettings:
    def test_what_was_learned_outlives_a_change_of_them(self):
        fleet = Fleet().run(300, 1.0).run(600, 4.0)
        each = fleet.said.inputs["requests_per_s_each"]
        before, fleet.scaling = fleet.law, replace(fleet.scaling, scale_down_delay_s=300.0)
        fleet.law = Tidal(fleet.scaling, fleet.standing, fleet.now_s)
        fleet.law.inherit(before)
        fleet.run(1, 4.0)

        assert fleet.said.inputs["requests_per_s_each"] == pytest.approx(each, rel=0.05)
        assert fleet.said.inputs["reserve"] > 0.0

    def test_who_risks_less_holds_more_for_growth(self):
        """Twice the rate for half a minute in each twenty: within a tenth of all lead times."""

        def tide(now_s):
            return 8.0 if now_s % 1200 < 30 else 4.0

        bold, wary = (Fleet(serving=3, law=(("risk", risk),)).run(7_000, tide) for risk in (0.2, 0.01))

        assert bold.said.inputs["reserve"] == 0.0
        assert wary.said.inputs["reserve"] > 0.5


class TestClients:
    def test_those_who_wait_for_their_answers_do_not_pin_the_fleet_at_its_maximum(self):
        """64 of them for ever: they ask as fast as they are answered. Two replicas hold them."""
        fleet = Fleet(most=16).run(3600, clients=60)

        assert fleet.standing <= 4


class TestNoise:
    def test_a_third_more_and_less_each_five_seconds_moves_nothing(self):
        fleet = Fleet(serving=3).run(2 * 3600, lambda at_s: 6.0 * (1.3 if at_s % 5 < 2.5 else 0.7))

        assert turns(fleet.numbers) <= 4
