"""The same trace through the simulator and through the live owners gives the same decisions."""

import random
from dataclasses import dataclass

import pytest

from parity.live import TICK_S, live
from sim.worlds import Notes, trace_of, world
from tidegate.core.effects import Decision, Launch, Record, Send, Stop
from tidegate.engine.catalogue import profile
from tidegate.sim.world import simulate

LAW = profile("llama-3.1-70b-a100x4").law
"""Slow enough that minutes have few steps."""

ZERO_AND_BACK = ((0, 40, 0.5), (60, 100, 5.0), (150, 160, 1.0))
A_CROWD = ((0, 30, 1.0), (30, 50, 12.0), (50, 120, 2.0))
"""From when to when, and requests a second."""

# No two things are due at the same moment, for nothing says which comes first then: durations are no whole
# seconds, as reports are, and of two starts one takes longer.
TO_ZERO = {"min_replicas": 0, "window_s": 9.7, "scale_down_delay_s": 10.45, "cold_s": 5.3, "sigma": 0.2}
ONE_AT_LEAST = {"min_replicas": 1, "window_s": 4.6, "scale_down_delay_s": 7.15, "cold_s": 3.7, "sigma": 0.2}


def waves(seed, spans):
    """Requests at random moments; each span has its rate."""
    dice = random.Random(seed)
    rows = []
    for begin_s, end_s, rate in spans:
        at_s = begin_s + dice.expovariate(rate)
        while at_s < end_s:
            rows.append((at_s, dice.randrange(20, 2000), dice.randrange(1, 200)))
            at_s += dice.expovariate(rate)
    return rows


@dataclass(frozen=True)
class Decided:
    """What was decided, in words that both sides must share to the letter."""

    kind: str
    what: tuple
    because: str = ""


def sends(turns):
    return [(order.request_id, order.replica_id, order.attempt) for _, order in orders(turns, Send)]


def decided(turns):
    found = []
    for at_s, order in orders(turns, Decision, Launch, Stop):
        match order:
            case Decision():
                what = (order.desired, order.before, order.held_by)
            case _:
                what = order.replica_id
        found.append((at_s, Decided(type(order).__name__, what, order.because)))
    return found


def orders(turns, *kinds):
    return [
        (at_s, effect) for _, at_s, _, effects in turns for effect in effects if isinstance(effect, kinds)
    ]


def both(rows, scenario, seed):
    """All turns in the simulator and in the live loop, until the fleet has shrunk."""
    notes, trace = Notes(), trace_of(rows)
    done = simulate(trace, scenario, seed, notes)
    return notes.turns, live(trace, scenario, seed, done.simulated_s)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "spans, scaling",
    [(ZERO_AND_BACK, TO_ZERO), (A_CROWD, ONE_AT_LEAST)],
    ids=["to zero and back", "a crowd"],
)
def test_the_simulator_and_the_live_loop_decide_alike(spans, scaling, seed):
    scenario = world(law=LAW, slots=8, max_replicas=3, settle_s=120.0, **scaling)

    simulated, lived = both(waves(seed, spans), scenario, seed)

    assert sends(lived) == sends(simulated)
    times, others = zip(*decided(simulated), strict=True)
    lived_times, lived_others = zip(*decided(lived), strict=True)
    assert lived_others == others
    assert lived_times == pytest.approx(times, rel=0, abs=TICK_S)
    assert {other.kind for other in others} == {"Decision", "Launch", "Stop"}


def test_every_request_takes_the_same_time():
    scenario = world(law=LAW, slots=8, max_replicas=3, settle_s=120.0, **ONE_AT_LEAST)

    simulated, lived = both(waves(4, A_CROWD), scenario, 4)

    def times(turns):
        records = (record for _, record in orders(turns, Record))
        return {r.request_id: (r.queued_s, r.ttft_s, r.e2e_s) for r in records}

    assert times(lived).keys() == times(simulated).keys()
    for request_id, lasted in times(simulated).items():
        # The live loop's clock counts in nanoseconds.
        assert times(lived)[request_id] == pytest.approx(lasted, abs=1e-6)
