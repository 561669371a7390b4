"""Long random walks: tables, policies, failures and clients change for hours, and in the end nothing is held by nobody.

The machine beside this finds short stories. Faults that need a model to go and come back while its requests run, or a
hundred requests before something is learned, come up only here.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import CancelUpstream, Hedge, Record, Resume, Send, Spill
from tidegate.core.events import (
    CacheTold,
    ClientGone,
    Failure,
    FirstByte,
    ModelsConfigured,
    ReportDue,
    RequestArrived,
    RouteTableChanged,
    StopBegun,
    Tick,
    TokensSent,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig, QueueLimits, Routing, SpillBounds, TrafficShift
from tidegate.core.types import AdapterTrouble, Address, ModelRoute, Route, RouteTable

STEPS = 600
MODELS = ("a", "b", "c")
ADAPTERS = tuple(f"adapter {n}" for n in range(30))


class Dice:
    def __init__(self, chance):
        self.below, self.uniform = chance.randrange, chance.random


class Walk:
    """One dispatcher, and the world's own simple books of who is where."""

    def __init__(self, seed, *, looks=False):
        self.chance = random.Random(seed)
        self.looks = looks
        """Whether it is asked questions on the way, which must change nothing."""
        self.dispatcher = Dispatcher(dice=Dice(random.Random(seed)))
        self.now_s = self.chance.choice([0.0, 1e6])
        self.pace_s = self.chance.choice([0.01, 0.3, 2.0, 600.0])
        self.names = self.tables = 0
        self.routes, self.running, self.waiting = {}, {}, set()
        self.begun, self.ended = set(), set()
        self.story = []
        self.policy_changes()

    def tell(self, event):
        effects = self.dispatcher.on(event, self.now_s)
        self.story.append((event, effects))
        for effect in effects:
            self.heed(effect)
        assert self.dispatcher.open_requests == len(self.running) + len(self.waiting)
        assert self.names == self.dispatcher.open_requests + len(self.ended)

    def heed(self, effect):
        match effect:
            case Send(request_id, place) | Resume(request_id, place) | Spill(request_id, place):
                self.waiting.remove(request_id)
                assert not (isinstance(effect, Send) and request_id in self.begun)
                self.running[request_id] = {place}
                if not isinstance(effect, Spill):
                    self.fits(place)
            case Hedge(request_id, place):
                self.running[request_id].add(place)
                self.fits(place)
            case CancelUpstream(request_id, place) if request_id in self.running:
                self.lose(request_id, place)
            case Record(request_id):
                assert request_id not in self.ended
                self.ended.add(request_id)
                self.waiting.discard(request_id)
                self.running.pop(request_id, None)

    def fits(self, place):
        route = self.routes[place]
        assert route.state is State.SERVING
        assert sum(place in places for places in self.running.values()) <= route.slots

    def lose(self, request_id, place):
        """One replica fewer works on it; without any it waits."""
        self.running[request_id].discard(place)
        if not self.running[request_id]:
            del self.running[request_id]
            self.waiting.add(request_id)

    def one(self):
        name = self.chance.choice(sorted(self.running))
        return name, self.chance.choice(sorted(self.running[name]))

    # ---- what happens ----

    def arrives(self):
        pick, self.names = self.chance.choice, self.names + 1
        name, begins = f"r{self.names}", self.chance.randrange(4)
        prefix = tuple(range(100 * begins, 100 * begins + self.chance.randrange(1, 6))) if begins else ()
        self.waiting.add(name)
        self.tell(
            RequestArrived(
                name,
                pick([*MODELS, "both", "both", "unknown"]),
                pick([0, 1, 50, 300, 10**7]),
                pick([None, 0, 5, 10**9]),
                pick([0, 100, 1_500, 10**7]),
                self.now_s + pick([-1.0, 0.0, 0.1, 5.0, 600.0]),
                f"tenant {self.chance.randrange(pick([1, 3, 50]))}",
                self.chance.randrange(3),
                pick([None, None, None, "x", self.chance.choice(ADAPTERS)]),
                streams=self.chance.random() < 0.7,
                prefix=prefix,
                block_tokens=256 if prefix else 0,
                weight=pick([1.0, 0.01, 100.0]),
                session=pick([None, f"s{self.chance.randrange(50)}"]),
                again=pick([None, 1, 2]),
            )
        )

    def begins(self):
        name, place = self.one()
        self.begun.add(name)
        self.tell(FirstByte(name, place))

    def ends(self):
        pick, (name, place) = self.chance.choice, self.one()
        prompt, cached, output = pick([None, 0, 5, 10**8]), pick([None, 0, 10**8]), pick([None, 0, 1, 10**6])
        self.tell(UpstreamEnded(name, pick([200, 200, 400]), prompt, cached, output, replica_id=place))
        assert name in self.ended

    def fails(self):
        pick, (name, place) = self.chance.choice, self.one()
        self.lose(name, place)
        tokens = pick([None, 0, 7]) if name in self.begun else None
        self.tell(UpstreamFailed(name, pick(list(Failure)), None, replica_id=place, resumable_tokens=tokens))

    def client_leaves(self):
        name = self.chance.choice(sorted({*self.running, *self.waiting}))
        self.tell(ClientGone(name))
        assert name in self.ended

    def grows(self):
        self.tell(TokensSent(self.one()[0], self.chance.randrange(3_000)))

    def table_changes(self):
        pick, self.tables = self.chance.choice, self.tables + 1
        for number in range(1, 7):
            known = self.routes.pop(f"x{number}", None)
            if self.chance.random() < 0.2:
                continue
            state = pick([State.SERVING] * 4 + [State.STARTING, State.DRAINING, State.WARM, State.SLEEPING])
            leaves_at_s = self.now_s + 5.0 if state is State.SERVING and self.chance.random() < 0.2 else None
            self.routes[f"x{number}"] = Route(
                f"x{number}",
                known.model if known else pick(MODELS),
                state,
                Address("h", number),
                4 * number if state is State.SERVING else 0,
                "vllm",
                adapters=pick([None, ("x",), ADAPTERS[:12]]),
                knows=pick([None, (), ("x",), ADAPTERS[:9]]),
                leaves_at_s=leaves_at_s,
            )
        ready_s = pick([None, self.now_s + 3.0, self.now_s + 1e4])
        models = tuple(
            ModelRoute(
                model,
                self.chance.random() < 0.7,
                None,
                ready_s,
                sheds=self.chance.random() < 0.1,
                may_spill=self.chance.random() < 0.9,
                troubles=pick([(), (), (AdapterTrouble("x", "it is not to be read", self.now_s + 9.0),)]),
            )
            for model in MODELS
            if self.chance.random() < 0.95
        )
        self.tell(RouteTableChanged(RouteTable(self.tables, models, tuple(self.routes.values()))))

    def policy_changes(self):
        pick = self.chance.choice
        models = {model: self.config() for model in MODELS if self.chance.random() < 0.85}
        versions = tuple((model, pick([0.0, 1.0, 5.0])) for model in MODELS)
        shift = TrafficShift(versions, max_ttft_s=pick([None, 0.5]), min_samples=5)
        shifts = {"both": shift} if self.chance.random() < 0.6 else {}
        queues = QueueLimits(max_requests=pick([8, 20_000]), max_tokens=pick([2_000, 10**9]))
        self.tell(ModelsConfigured(models, queues, shifts, prefix_index_bytes=pick([2**12, 2**20])))

    def config(self):
        pick = self.chance.choice
        spill = SpillBounds(0.0, 1e-6, pick([0.0, 0.01, 10.0]), pick([1, 8]), max_wait_s=pick([None, 1.0]))
        return DispatchConfig(
            pick([Routing.LEAST_SECONDS] * 9 + list(Routing)),
            QueueLimits(
                max_requests=pick([3, 20, 200]),
                max_tokens=pick([900, 10**6]),
                max_bytes=pick([4_000, 10**8]),
                class_share=pick([1.0, 0.5]),
                tenant_share=pick([1.0, 0.3]),
                ageing_s=pick([1.0, 30.0]),
                aged_share=pick([0.0, 0.1, 1.0]),
            ),
            max_retries=pick([0, 1, 2]),
            slow_start_s=pick([0.0, 30.0]),
            reserve_share=pick([0.0, 0.3]),
            hedge_ratio=pick([0.0, 0.5]),
            hedge_after_s=0.2,
            resume=pick([True, False]),
            adapter_slots=pick([1, 2, 8]),
            adapters=pick([None, None, ("x",), ADAPTERS]),
            spill=pick([None, spill]),
        )

    def is_looked_at(self):
        self.dispatcher.prefix_stats()
        self.dispatcher.spill_stats(self.now_s)
        flow = f"tenant {self.names % 60}"
        asked = RequestArrived("look", "a", 50, None, 100, self.now_s + 5.0, flow, self.names % 3)
        self.dispatcher.foresees_refusal(asked, self.now_s)

    def go(self, steps):
        chances = (
            (self.arrives, 40),
            (lambda: self.tell(Tick()), 10),
            (self.begins, 10),
            (self.ends, 10),
            (self.fails, 9),
            (self.client_leaves, 4),
            (self.grows, 2),
            (self.table_changes, 4),
            (self.policy_changes, 2),
            (lambda: self.tell(CacheTold(f"x{self.chance.randrange(8)}", self.now_s - 1.0)), 1),
            (lambda: self.tell(ReportDue()), 4),
        )
        needs_running = (self.begins, self.ends, self.fails, self.grows)
        for _ in range(steps):
            if self.chance.random() < 0.7:
                self.now_s += self.chance.expovariate(1.0 / self.pace_s)
            (step,) = self.chance.choices([step for step, _ in chances], [weight for _, weight in chances])
            if self.running or (step not in needs_running and (self.waiting or step != self.client_leaves)):
                step()
                if self.looks:
                    self.is_looked_at()

    def everybody_leaves(self):
        for name in sorted({*self.running, *self.waiting}):
            if name not in self.ended:
                self.tell(ClientGone(name))
        self.now_s += 1_000.0
        self.tell(Tick())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_when_all_have_left_nothing_is_held_by_anybody(seed):
    walk = Walk(seed)
    walk.go(STEPS)
    walk.everybody_leaves()

    floor = walk.dispatcher._floor
    assert (floor.waiting.requests, floor.waiting.tokens, floor.waiting.bytes) == (0, 0, 0)
    assert not [s for s in floor.seats.values() if s.in_flight or s.tokens or s.unbegun or s.opening]
    assert not [book for book in floor.spills.values() if book.in_flight]
    for line in floor.lines.values():
        held = line.queue.held
        assert (held.requests, held.tokens, held.bytes, line.queue.work) == (0, 0, 0, 0.0)
        assert not line.tenants._in_flight
        assert line.waits.turnover._held == 0
        for load in line.router._law.insight.loads.values() if line.router.prefix_stats() else ():
            assert not {**load.visits, **load.waiting, **load.in_use}
            assert (load.kv_tokens, load.waiting_s) == pytest.approx((0.0, 0.0), abs=1e-6)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_at_the_stop_deadline_everybody_has_an_ending(seed):
    walk = Walk(seed)
    walk.go(STEPS // 2)
    walk.tell(StopBegun(walk.now_s + 3.0))
    before = len(walk.story)
    walk.pace_s = 0.001
    walk.go(100)
    assert not [e for _, effects in walk.story[before:] for e in effects if isinstance(e, Hedge | Spill)]

    walk.now_s += 3.0
    walk.tell(Tick())

    assert walk.dispatcher.open_requests == 0


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_questions_on_the_way_change_nothing(seed):
    alone, asked = Walk(seed), Walk(seed, looks=True)
    alone.go(STEPS // 2)
    asked.go(STEPS // 2)

    assert alone.story == asked.story
