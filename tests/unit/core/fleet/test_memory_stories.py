"""What a controller has learned outlives it: it is given to the next one, which goes on from there."""

from dataclasses import replace

import msgspec
import pytest

from tidegate.core.effects import Prefetch
from tidegate.core.events import (
    DemandReported,
    FleetConfigured,
    KnowledgeRestored,
    ReplicaSeen,
    Tick,
    WeightsSeen,
)
from tidegate.core.fleet import FleetController
from tidegate.core.fleet.scaling.days import DAY_S
from tidegate.core.fleet.scaling.forecast import Expected
from tidegate.core.knowledge import GOOD_FOR_S, FleetKnowledge
from tidegate.core.lifecycle import Seen, State
from tidegate.core.scaling_settings import LawSettings, ScalingPolicy
from tidegate.core.settings import FleetLimits, Prefetching
from tidegate.core.types import Address, CapacityFigures, DemandReport, ModelDemand, ModelId, ReplicaLoad
from unit.core.fleet.conftest import World, model

pytestmark = pytest.mark.timeout(300)  # Two days at a report each ten seconds: six seconds on an idle core.
M = ModelId("m")
HOUR_S = 3_600.0
TOOK_S, PROMPT, OUTPUT, SLOTS = 8.0, 500, 100, 8
STEP_S = 10.0
EIGHT_FIFTY = 2 * DAY_S + 8 * HOUR_S + 50 * 60


def tide(at_s):
    """Two requests a second, and six from nine to five."""
    return 6.0 if 9 <= at_s % DAY_S / HOUR_S < 17 else 2.0


def written(knowledge):
    """As it comes out of the file."""
    return msgspec.json.decode(msgspec.json.encode(knowledge), type=FleetKnowledge)


class Days:
    """A controller, replicas that serve ``start_s`` after their launch, and a gateway that reports each ten seconds."""

    def __init__(self, spec, start_s=300.0, prompt=lambda _: PROMPT):
        self.world, self.spec, self.start_s, self.prompt = World(), spec, start_s, prompt
        self.came = self.prompts = 0.0
        self.launched = {}
        self.desired = []
        """Moment and number, when it changed."""

    def begin(self, at, knowledge=None, adopted=0):
        self.world = World()
        self.launched.clear()
        self.came = self.prompts = 0.0
        if knowledge is not None:
            self.world.on(KnowledgeRestored(knowledge), at)
        for number in range(adopted):
            self.world.adopt(at, f"m-{number + 1}")
        self.world.configure(at, {M: self.spec})
        return self

    def run(self, since, until, rate=tide):
        at = since
        while at < until:
            self.came += rate(at) * STEP_S
            self.prompts += rate(at) * STEP_S * self.prompt(at)
            self._turn(DemandReported(self._report(rate(at))), at)
            self._turn(Tick(), at)
            for replica_id in [r for r, ordered_s in self.launched.items() if at >= ordered_s + self.start_s]:
                del self.launched[replica_id]
                self._turn(ReplicaSeen(replica_id, Seen.READY, Address("127.0.0.1", 1)), at)
            number = self.world.decisions[-1].desired
            if not self.desired or self.desired[-1][1] != number:
                self.desired.append((at, number))
            at += STEP_S
        return self

    def _turn(self, event, at):
        before = len(self.world.orders)
        self.world.on(event, at)
        for _, order, replica_id in self.world.orders[before:]:
            if order == "launch":
                self.launched[replica_id] = at
            elif order == "stop":
                self.launched.pop(replica_id, None)
                self.world.exited(at, replica_id)

    def _report(self, rate):
        routes = self.world.table.routes if self.world.table else ()
        serving = [route for route in routes if route.state is State.SERVING]
        there = rate * TOOK_S
        running = min(there, SLOTS * len(serving))
        ended = max(0, int(self.came - there))
        demand = ModelDemand(
            model=M,
            queued=int(there - running),
            in_flight=int(running),
            peak=int(there),
            queued_tokens=0,
            in_flight_tokens=0,
            arrivals_total=int(self.came),
            ended_total=ended,
            output_tokens_total=ended * OUTPUT,
            oldest_wait_s=0.0,
            last_active_s=None,
            prompt_tokens_total=int(self.prompts),
        )
        loads = tuple(
            ReplicaLoad(r.replica_id, int(running / len(serving)) if r in serving else 0, 0) for r in routes
        )
        version = self.world.table.version if self.world.table else 0
        figures = CapacityFigures(M, "e", "", (0.01, 0.08, 0.0015), (0.05, 0.004, 0.00005), 100, 100)
        return DemandReport("g", version, (demand,), loads, (figures,))


def spec(**more):
    settings = {"policy": ScalingPolicy.TIDAL, "min_replicas": 1, "max_replicas": 20, "start": 600.0, **more}
    return model(slots=SLOTS, **settings)


@pytest.fixture(scope="module")
def two_days():
    """What one controller knew at ten to nine on the third day, how many replicas it had, and how it went on."""
    days = Days(spec()).begin(0.0).run(0.0, EIGHT_FIFTY)
    knowledge, standing = written(days.world.brain.remember(EIGHT_FIFTY)), days.world.desired()
    days.desired.clear()
    return knowledge, standing, days.run(EIGHT_FIFTY, EIGHT_FIFTY + 900).desired


def test_the_step_of_each_morning_is_provided_for_after_a_restart(two_days):
    """A restart at 8:50. At 8:55 four more replicas are ordered, since starts take five minutes, and six a second came at
    nine on the days before: as the controller does that was not restarted. Without what was known, nothing happens
    before nine."""
    knowledge, standing, went_on = two_days
    until = EIGHT_FIFTY + 900

    knows = Days(spec()).begin(EIGHT_FIFTY, knowledge, standing).run(EIGHT_FIFTY, until)
    knows_nothing = Days(spec()).begin(EIGHT_FIFTY, None, standing).run(EIGHT_FIFTY, until)

    assert knows.desired == went_on
    assert knows.desired[:2] == [(EIGHT_FIFTY, 3), (EIGHT_FIFTY + 250, 7)]
    assert knows_nothing.desired[0] == (EIGHT_FIFTY, 3)
    assert knows_nothing.desired[1][0] >= EIGHT_FIFTY + 600


def test_starts_are_predicted_from_those_measured_before_the_restart(two_days):
    """The settings say 600 s; starts have taken 300 s."""
    knowledge, *_ = two_days
    world = World()
    world.on(KnowledgeRestored(knowledge), EIGHT_FIFTY)
    world.configure(EIGHT_FIFTY, {M: spec()})

    starts = world.view(EIGHT_FIFTY).starts
    assert starts.median_s == pytest.approx(300.0, abs=STEP_S)
    assert starts.samples == 3  # alone; those of a morning come up side by side
    assert starts.stages["requested"] == pytest.approx(300.0, abs=STEP_S)
    (launched,) = world.ordered("launch")
    route = next(route for route in world.table.routes if route.replica_id == launched)
    assert route.expected_ready_s == pytest.approx(EIGHT_FIFTY + 300.0, abs=STEP_S)


def test_a_restart_lets_nothing_go_before_a_full_window_has_been_seen(two_days):
    """Twelve run where one would do. All that is known says so, and still they stay for the window."""
    knowledge, *_ = two_days
    night = EIGHT_FIFTY + 11 * HOUR_S
    settings = spec(window_s=60.0, scale_down_delay_s=300.0)

    days = Days(settings).begin(night, knowledge, 12).run(night, night + 2_400, lambda _: 0.5)

    fell = [at for at, number in days.desired if number < 12]
    assert fell
    assert fell[0] >= night + 300.0


def test_the_next_controller_remembers_what_it_was_given(two_days):
    """Nothing is lost by a restart after which nothing happens."""
    knowledge, *_ = two_days
    brain = FleetController()
    brain.on(KnowledgeRestored(knowledge), EIGHT_FIFTY)
    brain.on(FleetConfigured({M: spec()}, FleetLimits()), EIGHT_FIFTY)

    again = written(brain.remember(EIGHT_FIFTY))

    (before,), (after,) = knowledge.models, again.models
    assert after.rates == before.rates
    assert after.tidal.pace == before.tidal.pace
    assert [number for number, _ in after.tidal.growth.counts] == [n for n, _ in before.tidal.growth.counts]
    assert after.tidal.bursts_s == before.tidal.bursts_s
    assert again.starts == knowledge.starts


def test_what_is_older_than_four_weeks_is_no_knowledge(two_days):
    knowledge, *_ = two_days
    late = knowledge.at_s + GOOD_FOR_S + 1
    world = World()
    world.on(KnowledgeRestored(knowledge), late)
    world.configure(late, {M: spec()})

    assert world.view(late).starts.samples == 0
    assert world.view(late).starts.median_s == 600.0


def test_what_comes_after_the_first_configuration_changes_nothing(two_days):
    knowledge, *_ = two_days
    world = World()
    world.configure(EIGHT_FIFTY, {M: spec()})
    world.on(KnowledgeRestored(knowledge), EIGHT_FIFTY + 1)
    world.configure(EIGHT_FIFTY + 2, {M: spec()})

    assert world.view(EIGHT_FIFTY + 2).starts.samples == 0


def test_a_model_that_is_no_longer_configured_is_forgotten(two_days):
    knowledge, *_ = two_days
    brain = FleetController()
    brain.on(KnowledgeRestored(knowledge), EIGHT_FIFTY)
    brain.on(FleetConfigured({ModelId("other"): spec()}, FleetLimits()), EIGHT_FIFTY)
    brain.on(FleetConfigured({M: spec()}, FleetLimits()), EIGHT_FIFTY + 1)

    assert brain.remember(EIGHT_FIFTY + 1).models[0].rates is None


def test_starts_of_models_that_are_gone_are_not_written_down_for_ever(two_days):
    knowledge, *_ = two_days
    brain = FleetController()
    brain.on(KnowledgeRestored(knowledge), EIGHT_FIFTY)
    brain.on(FleetConfigured({ModelId("other"): spec()}, FleetLimits()), EIGHT_FIFTY)

    assert brain.remember(EIGHT_FIFTY + 1).starts == ()


def test_a_law_among_several_learns_too(two_days):
    """Settings that let the largest of two laws count, and back: what tidal knows goes along, and is remembered."""
    knowledge, *_ = two_days
    both = replace(spec(), scaling=replace(spec().scaling, also=(LawSettings(ScalingPolicy.CONCURRENCY),)))
    brain = FleetController()
    brain.on(KnowledgeRestored(knowledge), EIGHT_FIFTY)
    for number, settings in enumerate((both, spec())):
        brain.on(FleetConfigured({M: settings}, FleetLimits()), EIGHT_FIFTY + number)
        assert brain.remember(EIGHT_FIFTY).models[0].tidal.pace == knowledge.models[0].tidal.pace


def test_what_is_expected_is_said_in_the_reason_in_the_inputs_and_to_whoever_looks(two_days):
    """At 8:51 nothing of the step at nine is within a lead time; at 8:56 it is, and four are started for it."""
    knowledge, standing, _ = two_days
    days = Days(spec()).begin(EIGHT_FIFTY, knowledge, standing).run(EIGHT_FIFTY, EIGHT_FIFTY + 60)
    before = days.world.view(EIGHT_FIFTY + 60)
    days.run(EIGHT_FIFTY + 60, EIGHT_FIFTY + 360)
    after = days.world.view(EIGHT_FIFTY + 360)

    assert before.forecast.requests_per_s == pytest.approx(2.0)
    assert (before.forecast.is_believed, before.forecast.sets_floor) == (True, False)
    assert "the days before" not in before.decision.because
    lead_s = after.decision.inputs["lead_s"]
    assert after.forecast == Expected(pytest.approx(6.0), lead_s, True, True, PROMPT, OUTPUT)
    assert (
        "held for the 6.00 requests/s of 500 and 100 tokens that the days before let expect within"
        in after.decision.because
    )
    inputs = after.decision.inputs
    assert inputs["expected_per_s"] == pytest.approx(6.0)
    assert (inputs["expected_within_s"], inputs["forecast_is_believed"]) == (lead_s, 1.0)
    assert inputs["forecast_sets_floor"] == 1.0
    assert (inputs["expected_prompt_tokens"], inputs["expected_output_tokens"]) == (PROMPT, OUTPUT)


def test_long_prompts_of_each_morning_are_provided_for_though_no_more_requests_come():
    """Two a second at all hours, of 1,500 tokens, and from nine to five of 6,000. A replica carries fewer of those, and at
    five to nine of the third day as many are started as will be needed."""

    def prompt(at_s):
        return 6_000.0 if 9 <= at_s % DAY_S / HOUR_S < 17 else 1_500.0

    days = Days(spec(), prompt=prompt).begin(0.0).run(0.0, EIGHT_FIFTY, lambda _: 2.0)
    before = days.world.desired()
    days.run(EIGHT_FIFTY, EIGHT_FIFTY + 400, lambda _: 2.0)

    said = days.world.decisions[-1]
    assert days.world.desired() > before
    assert said.inputs["expected_prompt_tokens"] > 4_000.0
    assert said.inputs["forecast_sets_floor"] == 1.0


def test_any_law_has_the_mornings_replicas_with_the_forecast_beside_it(two_days):
    """Sixteen are in flight at two a second, eight a replica: two are enough until nine, and by themselves stay two."""
    knowledge, standing, _ = two_days
    law = spec(policy=ScalingPolicy.CONCURRENCY, concurrency_target=8)
    with_it = replace(
        law,
        scaling=replace(law.scaling, also=(LawSettings(ScalingPolicy.FORECAST, (("utilization", 1.0),)),)),
    )

    def at_five_to(settings):
        return Days(settings).begin(EIGHT_FIFTY, knowledge, standing).run(EIGHT_FIFTY, EIGHT_FIFTY + 400)

    alone, beside = at_five_to(law), at_five_to(with_it)
    assert alone.world.desired() <= 3
    assert alone.world.view(EIGHT_FIFTY + 400).forecast is None
    assert beside.world.desired() > alone.world.desired()
    assert beside.world.decisions[-1].because.startswith(
        "forecast: 6.00 requests/s of 500 and 100 tokens are expected within"
    )
    assert beside.world.view(EIGHT_FIFTY + 400).forecast.sets_floor


def test_weights_are_fetched_ahead_of_an_hour_that_a_former_process_saw(two_days):
    """A restart in the night. The weights were thrown away, and nine o'clock is the hour at which they are needed."""
    knowledge, *_ = two_days
    five = EIGHT_FIFTY - 4 * HOUR_S
    world = World()
    world.on(KnowledgeRestored(replace(knowledge, at_s=five)), five)
    settings = replace(spec(min_replicas=0), prefetch=Prefetching.AHEAD)
    world.configure(five, {M: settings})
    world.on(WeightsSeen(M, "n1", "hub", 10**10, 10**10), five)
    world.tick(five)

    prefetches = [effect for effect in world.effects if isinstance(effect, Prefetch)]
    assert [order.because for order in prefetches] == [
        "2 requests/s came a day ago, within 60 min of this time"
    ]
