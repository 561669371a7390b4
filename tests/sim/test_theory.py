"""Queueing theory holds in the simulator: exact results that no tuning could bring about."""

import math
import random
from collections import Counter
from itertools import pairwise
from statistics import mean, stdev

import pytest

from sim.worlds import CLOCKWORK, Notes, run, steady, world
from tidegate.core.effects import Record, Send
from tidegate.core.events import RequestArrived, RouteTableChanged, UpstreamFailed


def erlang_c(servers, load):
    """The probability that a customer of M/M/c waits (Erlang, 1917)."""
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = load * blocked / (number + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


def markov(rate, mean_s, count, seed):
    """Poisson arrivals; answers of so many milliseconds, geometric, which is exponential in steps of 1 ms."""
    dice = random.Random(seed)
    at_s, rows = 0.0, []
    for _ in range(count):
        at_s += dice.expovariate(rate)
        rows.append((at_s, 1, max(1, math.ceil(dice.expovariate(1 / (mean_s * 1000))))))
    return rows


@pytest.mark.parametrize("servers, load", [(1, 0.6), (3, 2.1), (8, 6.8)])
def test_waiting_in_one_line_for_c_servers_is_as_erlang_has_it(servers, load):
    mean_s = 1.0
    rate = load / mean_s
    rows = markov(rate, mean_s, 20_000, seed=servers)
    scenario = world(law=CLOCKWORK, slots=1, min_replicas=servers, max_replicas=servers, timeout_s=1e9)

    done, figures = run(rows, scenario)

    assert figures.completed == len(rows)
    expected_s = erlang_c(servers, load) * mean_s / (servers - load)
    waits_s = list(done.tally.queue_wait_s)[1_000:]
    # Means of 20 batches: long enough that they hardly depend on each other.
    size = len(waits_s) // 20
    batches = [mean(waits_s[size * number : size * (number + 1)]) for number in range(20)]
    margin_s = 2.86 * stdev(batches) / math.sqrt(20)  # Student's t for 99 %, 19 degrees
    assert abs(mean(batches) - expected_s) < margin_s


def test_waiting_probability_is_erlangs_c():
    servers, load = 4, 3.0
    done, _ = run(
        markov(load, 1.0, 20_000, seed=11),
        world(law=CLOCKWORK, slots=1, min_replicas=servers, max_replicas=servers, timeout_s=1e9),
    )

    waited = sum(wait_s > 1e-9 for wait_s in done.tally.queue_wait_s) / 20_000
    assert waited == pytest.approx(erlang_c(servers, load), abs=0.02)


WORLDS = {
    "fixed": world(slots=3, min_replicas=2, max_replicas=2),
    "from zero": world(
        slots=3, min_replicas=0, max_replicas=4, concurrency_target=6, scale_down_delay_s=15.0
    ),
    "a slow one": world(slots=3, min_replicas=2, max_replicas=4, faults=("slow:at=30,for=60,factor=4",)),
    "a death": world(slots=3, min_replicas=2, max_replicas=3, faults=("kill:at=50",)),
}


def uneven(seed=5):
    dice = random.Random(seed)
    rows = steady(4, 60) + steady(12, 60, from_s=60) + steady(2, 80, from_s=120)
    return [(at_s, dice.randrange(50, 2500), dice.randrange(2, 300)) for at_s, _, _ in rows]


@pytest.mark.parametrize("name", WORLDS)
def test_in_the_system_is_rate_times_time(name):
    """Little's law (1961): the mean number of open requests is their rate times their mean time."""
    notes = Notes()
    done, figures = run(uneven(), WORLDS[name], journal=notes)

    area = seen = spent_s = 0.0
    steps = []
    for brain, at_s, event, effects in notes.turns:
        if brain == "dispatch":
            records = [effect for effect in effects if isinstance(effect, Record)]
            spent_s += sum(record.e2e_s for record in records)
            steps.append((at_s, isinstance(event, RequestArrived) - len(records)))
    for (at_s, change), (next_s, _) in pairwise(steps):
        seen += change
        area += seen * (next_s - at_s)

    assert figures.completed + figures.failed == figures.requests
    assert area == pytest.approx(spent_s, rel=1e-9)
    # And the gateway's own reports say the same, as far as a look each second can.
    reported = mean(q + f for q, f in zip(done.series.queued, done.series.in_flight, strict=True))
    assert reported == pytest.approx(area / done.simulated_s, rel=0.1)


@pytest.mark.parametrize("name", WORLDS)
def test_nobody_waits_while_a_slot_is_free(name):
    """Work conservation: after each turn either nobody is queued or every serving replica is full."""
    notes = Notes()
    scenario = WORLDS[name]
    run(uneven(), scenario, journal=notes)
    slots = next(iter(scenario.models.values())).fleet.slots

    queued, seated, serving, looked, rests_until_s = set(), {}, set(), 0, -1.0
    for brain, at_s, event, effects in notes.turns:
        if brain != "dispatch":
            continue
        match event:
            case RequestArrived():
                queued.add(event.request_id)
            case RouteTableChanged():
                serving = {route.replica_id for route in event.table.routes if route.slots}
            case UpstreamFailed():
                seated.pop(event.request_id, None)
                queued.add(event.request_id)
                rests_until_s = at_s + 1.0  # a replica that failed gets nothing new for a second
            case _:
                pass
        for effect in effects:
            if isinstance(effect, Send):
                queued.discard(effect.request_id)
                seated[effect.request_id] = effect.replica_id
            elif isinstance(effect, Record):
                queued.discard(effect.request_id)
                seated.pop(effect.request_id, None)
        if queued and at_s >= rests_until_s:
            looked += 1
            taken = Counter(seated.values())
            assert all(taken[replica_id] == slots for replica_id in serving)
    assert looked


def test_every_answer_takes_its_steps():
    done, _ = run([(0.0, 1, 250), (10.0, 1, 1)], world(law=CLOCKWORK, slots=4, min_replicas=1))

    assert done.tally.ttft_s[0] == pytest.approx(0.001)
    assert done.tally.e2e_s[0] == pytest.approx(0.250)
    assert done.tally.e2e_s[1] == pytest.approx(0.001)
    assert done.pace.percentile(0.5) == pytest.approx(0.001, rel=0.01)
