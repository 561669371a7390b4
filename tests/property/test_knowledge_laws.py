"""Laws of what outlives a process: whoever is given it goes on as the one who gave it, and no damage to it breaks anything."""

import copy
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.capacity import Capacity, CapacityBook, Kind
from tidegate.core.dispatch import Dispatcher
from tidegate.core.events import (
    CapacitiesRestored,
    DemandReported,
    FleetConfigured,
    KnowledgeRestored,
    ReplicaSeen,
    Tick,
)
from tidegate.core.fleet import FleetController
from tidegate.core.fleet import growth as pools
from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.scaling.days import DAY_S
from tidegate.core.fleet.scaling.forecast import EVERY_S, Forecast
from tidegate.core.fleet.scaling.growth import Growth
from tidegate.core.fleet.scaling.spikes import Spikes
from tidegate.core.knowledge import FleetKnowledge, KnownRates
from tidegate.core.lifecycle import Seen, State
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel, Pool
from tidegate.core.tiers import Tier
from tidegate.core.types import Address, DemandReport, ModelDemand, ModelId

M = ModelId("m")
rates = st.floats(0.0, 1e4, allow_subnormal=False)


def written(known):
    """As it comes out of the file."""
    return msgspec.json.decode(msgspec.json.encode(known), type=type(known))


@settings(max_examples=25, deadline=None)
@given(st.lists(rates, min_size=1, max_size=24), st.lists(rates, max_size=60), st.floats(0.0, 2 * DAY_S))
def test_a_restored_forecast_says_what_the_other_one_says(day, later, lead_s):
    """Two days of the same hours, then whatever comes."""
    forecast, step = Forecast(), 0
    for step in range(1, int(2 * DAY_S / EVERY_S)):
        asked = day[int(step * EVERY_S // 3600) % len(day)]
        forecast.add(asked, step * EVERY_S, (500.0 + asked, 100.0) if step % 3 else None)
        forecast.floor(900.0, step * EVERY_S)
    restored = Forecast()
    restored.restore(written(forecast.remember(step * EVERY_S)), step * EVERY_S)

    for number, rate in enumerate(later, step + 1):
        now_s = number * EVERY_S
        for one in (forecast, restored):
            one.add(rate, now_s)
        assert restored.floor(900.0, now_s) == forecast.floor(900.0, now_s)
        assert restored.before(lead_s, now_s) == forecast.before(lead_s, now_s)


@given(st.floats(0.0, 20 * DAY_S))
def test_days_keep_their_dates_however_long_nobody_ran(away_s):
    """Busy in one quarter of an hour of the first day. A day later, and a week later, that is what came before."""
    known = KnownRates(3600.0, 4, (0.0, 5.0, 0.0, 0.0), 0.0, (), (), 0.0, 0.0, 0, False, None)
    forecast, now_s = Forecast(), 3600.0 + away_s
    forecast.restore(written(known), now_s)

    before = forecast.before(1.0, now_s)

    is_the_place = int(now_s // 900) % 96 == 1 and int(now_s // DAY_S) in (1, 7)
    assert (before is not None and before.requests_per_s == 5.0) == is_the_place or int(now_s + 1) % 900 == 0


@given(st.lists(st.floats(0.0, 100.0), min_size=30, max_size=200), st.floats(0.5, 0.99))
def test_restored_growth_is_as_large(seen, ratio):
    growth = Growth()
    for number, rate in enumerate(seen):
        growth.add(rate, 20.0, 5.0 * number)
    restored = Growth()
    restored.restore(written(growth.remember(5.0 * len(seen))), 5.0 * len(seen))

    # One bin more or less, where the quantile falls on an edge.
    assert restored.quantile(ratio) == pytest.approx(growth.quantile(ratio), rel=0.17, abs=0.002)
    assert restored.seen_s == growth.seen_s


@given(st.lists(st.floats(0.0, 100.0), min_size=30, max_size=200), st.floats(0.0, 30 * DAY_S))
def test_growth_fades_while_nobody_runs_and_never_grows(seen, away_s):
    growth, restored = Growth(), Growth()
    for number, rate in enumerate(seen):
        growth.add(rate, 20.0, 5.0 * number)
    end_s = 5.0 * len(seen)
    restored.restore(written(growth.remember(end_s)), end_s + away_s)

    assert restored.quantile(0.9) <= growth.quantile(0.9) * 1.17 + 0.002
    assert restored.seen_s <= growth.seen_s
    if away_s > DAY_S:
        assert restored.quantile(0.9) == 0.0
        assert restored.seen_s == 0.0


@given(st.lists(st.integers(0, 9), min_size=30, max_size=200), st.sampled_from([0.0, 0.05, 0.5]))
def test_a_restored_staircase_is_the_same(needs, risk):
    growth, restored = pools.Growth(), pools.Growth()
    for second, need in enumerate(needs):
        growth.note(need, second % 3, float(second))
    restored.restore(tuple(written(span) for span in growth.remember()), float(len(needs)))

    for standing in (0, 1):
        assert restored.staircase(risk, standing) == growth.staircase(risk, standing)


@given(
    st.lists(st.tuples(st.floats(0.1, 16), st.floats(1, 20_000), st.floats(0.001, 100)), max_size=80),
    st.lists(st.tuples(st.floats(0.1, 16), st.floats(1, 20_000), st.floats(0.001, 100)), max_size=20),
    st.integers(0, 80),
)
def test_a_restored_capacity_goes_on_as_the_other_one(seen, later, settled_from):
    capacity, restored = Capacity(Kind(M, "e", "g")), CapacityBook()

    def learn(one, samples, begin):
        for number, (sequences, tokens, took_s) in enumerate(samples, begin):
            settled = number >= settled_from
            one.learn_prefill(float(number), 1, tokens, tokens**2 / 2, took_s, settled=settled)
            one.learn_decode(float(number), sequences, tokens, took_s / 10, settled=settled)
            one.learn_room(tokens, was_short=number % 7 == 0)
            one.learn_tokens(100, round(tokens))

    learn(capacity, seen, 0)
    known = capacity.remember()
    restored.restore([written(known)] if known is not None else [])
    after = restored.of(capacity.kind)
    for one in (capacity, after):
        learn(one, later, len(seen))

    assert after.is_known == capacity.is_known
    assert after.prefill_s(2_000, 0) == pytest.approx(capacity.prefill_s(2_000, 0), rel=1e-6)
    assert after.step_s(8, 8_000) == pytest.approx(capacity.step_s(8, 8_000), rel=1e-6)
    assert after.kv_tokens == capacity.kv_tokens
    assert after.token_scale == capacity.token_scale


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["m", "n"]), st.sampled_from([Tier.COLD, Tier.SLEEPING]), st.floats(0.01, 1e4)
        ),
        max_size=60,
    )
)
def test_restored_starts_are_predicted_alike(seen):
    cold, restored = ColdStarts(), ColdStarts()
    for model, tier, took_s in seen:
        cold.learn(ModelId(model), took_s, tier, stages={State.STARTING.value: took_s})
    restored.restore([written(known) for known in cold.remember()])

    for model in (ModelId("m"), ModelId("n")):
        for tier in (Tier.COLD, Tier.SLEEPING):
            assert restored.readiness(model, 60.0, tier) == cold.readiness(model, 60.0, tier)
        assert restored.view(model, 60.0) == cold.view(model, 60.0)


@given(st.lists(st.tuples(st.floats(0.0, 9.0), st.integers(0, 9)), max_size=80), st.floats(1.0, 300.0))
def test_restored_bursts_weigh_alike(steps, lead_s):
    spikes, restored = Spikes(), Spikes()
    for number, (needed, serving) in enumerate(steps):
        spikes.look(needed, serving, lead_s, 10.0 * number)
    restored.restore(spikes.remember())
    end_s = 10.0 * len(steps) + 1000.0
    for one in (spikes, restored):
        one.look(0.0, 9, lead_s, end_s)  # ends what is under way
        one.look(9.0, 1, lead_s, end_s + 1)
    if spikes.remember() == restored.remember():
        assert restored.is_worth(lead_s, end_s + 50) == spikes.is_worth(lead_s, end_s + 50)


# ---- damage ----


def a_life():
    """What a controller knows after some hours with one start and some traffic."""
    brain = FleetController()
    brain.on(FleetConfigured({M: _spec()}, FleetLimits()), 0.0)
    for step in range(300):
        now_s = 30.0 * step
        brain.on(_report(step, now_s), now_s)
        brain.on(Tick(), now_s)
        if step == 3:
            brain.on(ReplicaSeen("m-1", Seen.READY, Address("h", 1)), now_s)
    return brain.remember(9000.0)


def _spec():
    scaling = Scaling(ScalingPolicy.TIDAL, 1, 9, scale_down_delay_s=60.0)
    return FleetModel("vllm", slots=4, scaling=scaling, pool=Pool(max_warm=2, max_sleeping=2))


def _report(step, now_s):
    came = 20 * step
    demand = ModelDemand(
        M, 0, 5, 6, 0, 500, came, max(0, came - 5), 50 * came, 0.0, now_s, prompt_tokens_total=80 * came
    )
    return DemandReported(DemandReport("g", 0, (demand,), ()))


LIFE = msgspec.json.decode(msgspec.json.encode(a_life()))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_became_of_the_file_the_controller_goes_on(data):
    """Any of its numbers replaced by any other. What still has its shape is taken, and no turn fails."""
    damaged = copy.deepcopy(LIFE)
    for _ in range(data.draw(st.integers(1, 12))):
        places = list(_numbers(damaged))
        holder, key = places[data.draw(st.integers(0, len(places) - 1))]
        holder[key] = data.draw(
            st.sampled_from([0, -1, 1, 1e-300, 1e300, -1e300, 10**30, 2**62, 1e15, 0.5, None])
        )
    try:
        knowledge = msgspec.convert(damaged, FleetKnowledge)
    except msgspec.ValidationError:
        return
    brain = FleetController()
    brain.on(KnowledgeRestored(knowledge), 9000.0)
    brain.on(FleetConfigured({M: _spec()}, FleetLimits()), 9000.0)
    for step in range(40):
        now_s = 9000.0 + 30.0 * step
        brain.on(_report(step, now_s), now_s)
        brain.on(Tick(), now_s)
    view = brain.state(now_s).models[0]
    assert 1 <= view.desired <= 9
    assert view.starts.median_s is None or math.isfinite(view.starts.median_s)
    msgspec.json.encode(brain.remember(now_s))


def _numbers(value):
    """Every place in it that holds a number."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in list(items):
        if isinstance(one, dict | list):
            yield from _numbers(one)
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield value, key


@settings(max_examples=60)
@given(
    st.lists(st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1.0, 1e-9]), min_size=3, max_size=3),
    st.lists(st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1.0, 1e-9]), min_size=9, max_size=9),
    st.floats(0.0, 1e300),
    st.integers(-1, 10**6),
)
def test_no_sums_that_a_file_may_hold_break_a_law(coefficients, sums, error, count):
    law = {"coefficients": coefficients, "sums": sums, "error": error, "count": count}
    known = dict.fromkeys(("prefill", "settled_prefill", "decode", "settled_decode"), law)
    event = {
        "capacities": [
            {"model": "m", "engine": "e", "gpu": "", "kv_tokens": -1.0, "token_scale": 0.0, **known}
        ]
    }
    brain = Dispatcher()
    brain.on(msgspec.convert(event, CapacitiesRestored), 0.0)
    capacity = brain._floor.shared.capacities.of(Kind(M, "e"))
    for number in range(60):
        capacity.learn_prefill(float(number), 1, 500, 125_000, 0.05)
        capacity.learn_decode(float(number), 4, 4_000, 0.02)
    assert 0.0 <= capacity.prefill_s(2_000, 0) < math.inf
    assert 0.0 <= capacity.step_s(8, 8_000) < math.inf
