"""The dispatcher's laws, over any order of arrivals, answers, failures, leavings and tables."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import CancelUpstream, Hedge, Record, Reject, Resume, Send, Spill
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    ModelsConfigured,
    ReportDue,
    RequestArrived,
    RouteTableChanged,
    Tick,
    TokensSent,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig, QueueLimits, Routing, SpillBounds, TrafficShift
from tidegate.core.types import Address, ModelRoute, Route, RouteTable

SPILL = SpillBounds(
    prompt_price=0.01, output_price=0.01, max_cost_per_h=30.0, max_in_flight=3, max_wait_s=4.0
)
"""Each request may cost 10.24 for its answer, so money and requests in flight both bind."""

states = st.sampled_from([State.SERVING, State.SERVING, State.STARTING, State.DRAINING])
known = st.sampled_from([None, None, (), ("red",), ("blue", "red")])
adapters = st.sampled_from([None, None, "red", "blue"])


LIMITS = QueueLimits(max_requests=5, max_tokens=900, max_bytes=4_000)
CONFIG = {
    "a": DispatchConfig(queue=LIMITS, hedge_ratio=0.5, hedge_after_s=0.5, resume=True),
    "b": DispatchConfig(queue=LIMITS, routing=Routing.ROUND_ROBIN, max_retries=1, spill=SPILL),
}


class DispatchMachine(RuleBasedStateMachine):
    """Keeps its own simple books beside the dispatcher and compares."""

    def __init__(self):
        super().__init__()
        self.dispatcher = Dispatcher()
        self.now_s = 0.0
        self.names = 0
        self.version = 0
        self.routes = ()
        self.running = {}  # request -> replica
        self.hedged = {}  # request -> the second replica that works on it
        self.begun = set()
        self.spilt = set()
        self.waiting = set()
        self.ended = {}
        self.model_of = {}
        self.adapter_of = {}
        self.tell(ModelsConfigured(CONFIG))
        self.know_the_pace()

    def know_the_pace(self):
        """First tokens after 0.1 s for 100 tokens: from then on it is known what makes others wait."""
        self.table_changes({1: ("a", 4, State.SERVING, None)}, can_serve=True)
        for _ in range(24):
            self.arrive("a", 100, 0, 0, "x", 20.0)
            self.now_s += 0.1
            name = f"r{self.names}"
            self.tell(FirstByte(name))
            self.tell(UpstreamEnded(name, 200, 100, 0, 1))

    def tell(self, event):
        effects = self.dispatcher.on(event, self.now_s)
        ended = {effect.request_id for effect in effects if isinstance(effect, Record)}
        for effect in effects:
            if isinstance(effect, CancelUpstream) and effect.request_id not in {*ended, *self.hedged}:
                self.gives_way(effect.request_id, effect.replica_id)
            self.heed(effect)
        return effects

    def gives_way(self, request_id, replica_id):
        """It is taken back without having had a byte, and waits again."""
        assert request_id not in self.begun
        assert self.running.pop(request_id) == replica_id
        self.waiting.add(request_id)

    def heed(self, effect):
        match effect:
            case Send(request_id, replica_id):
                assert request_id in self.waiting
                assert request_id not in self.begun
                self.waiting.discard(request_id)
                self.seat(request_id, replica_id)
            case Resume(request_id, replica_id):
                assert request_id in self.waiting
                assert request_id in self.begun
                self.waiting.discard(request_id)
                self.seat(request_id, replica_id)
            case Hedge(request_id, replica_id):
                assert request_id not in self.begun
                assert request_id not in self.hedged
                assert self.running[request_id] != replica_id
                first = self.running[request_id]
                self.seat(request_id, replica_id)
                self.running[request_id], self.hedged[request_id] = first, replica_id
            case CancelUpstream(request_id, replica_id):
                if request_id in self.waiting:
                    return
                assert replica_id in (self.running[request_id], self.hedged.get(request_id))
                if request_id in self.hedged:
                    self.drop(request_id, replica_id)
            case Spill(request_id, replica_id):
                assert request_id in self.waiting
                assert request_id not in self.begun
                assert request_id not in self.spilt
                self.waiting.discard(request_id)
                self.spilt.add(request_id)
                self.running[request_id] = replica_id
            case Record(request_id, outcome=outcome):
                assert (effect.spilt_cost is not None) == (request_id in self.spilt)
                assert request_id not in self.ended
                self.ended[request_id] = outcome
                self.waiting.discard(request_id)
                self.running.pop(request_id, None)
                self.hedged.pop(request_id, None)
            case Reject(request_id):
                assert request_id not in self.ended

    def seat(self, request_id, replica_id):
        self.running[request_id] = replica_id
        route = next(r for r in self.routes if r.replica_id == replica_id)
        assert route.state is State.SERVING
        assert self.has(route, request_id)
        assert self.at(replica_id) + (request_id in self.hedged) <= route.slots

    def has(self, route, request_id):
        adapter = self.adapter_of[request_id]
        return adapter is None or route.knows is None or adapter in route.knows

    def at(self, replica_id):
        return [*self.running.values(), *self.hedged.values()].count(replica_id)

    def drop(self, request_id, replica_id):
        """One of the two replicas is no longer at work on it."""
        other = self.hedged.pop(request_id)
        if self.running[request_id] == replica_id:
            self.running[request_id] = other

    def one_of(self, data):
        """A request at work, and one of its replicas."""
        name = data.draw(st.sampled_from(sorted(self.running)))
        places = [self.running[name], *([self.hedged[name]] if name in self.hedged else [])]
        return name, data.draw(st.sampled_from(places))

    @rule(
        model=st.sampled_from(["a", "b", "both", "unknown"]),
        tokens=st.integers(0, 300),
        body=st.integers(0, 1_500),
        priority=st.integers(0, 2),
        flow=st.sampled_from("xyz"),
        for_s=st.floats(0.0, 20.0),
        streams=st.booleans(),
        begins=st.integers(0, 2),
        adapter=adapters,
    )
    def arrive(self, model, tokens, body, priority, flow, for_s, streams=True, begins=0, adapter=None):
        self.names += 1
        name = f"r{self.names}"
        self.waiting.add(name)
        self.model_of[name] = model
        self.adapter_of[name] = adapter
        deadline_s = self.now_s + for_s
        arrived = RequestArrived(
            name, model, tokens, None, body, deadline_s, flow, priority, adapter, streams=streams
        )
        prefix = tuple(range(100 * begins, 100 * begins + 4)) if begins else ()
        self.tell(replace(arrived, prefix=prefix, block_tokens=256 if begins else 0))

    @rule(seconds=st.floats(0.0, 5.0))
    def time_passes(self, seconds):
        self.now_s += seconds
        self.tell(Tick())

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def first_byte(self, data):
        name, place = self.one_of(data)
        self.begun.add(name)
        self.tell(FirstByte(name, place))
        assert name not in self.hedged

    @precondition(lambda self: self.running)
    @rule(data=st.data(), tokens=st.integers(0, 2_000))
    def tokens_come(self, data, tokens):
        assert self.tell(TokensSent(data.draw(st.sampled_from(sorted(self.running))), tokens)) == []

    @precondition(lambda self: self.running)
    @rule(data=st.data(), status=st.sampled_from([200, 200, 400]), output=st.none() | st.integers(0, 500))
    def answer(self, data, status, output):
        name, place = self.one_of(data)
        if name in self.hedged:
            self.begun.add(name)
        self.tell(UpstreamEnded(name, status, output_tokens=output, replica_id=place))
        assert name in self.ended

    @precondition(lambda self: self.running)
    @rule(data=st.data(), failure=st.sampled_from(list(Failure)), resumable=st.booleans())
    def fail(self, data, failure, resumable):
        name, place = self.one_of(data)
        if name in self.hedged:
            self.drop(name, place)
            self.tell(UpstreamFailed(name, failure, replica_id=place))
            assert name not in self.ended
            return
        del self.running[name]
        self.waiting.add(name)
        begun = name in self.begun
        tokens = 7 if resumable and begun else None
        effects = self.tell(UpstreamFailed(name, failure, replica_id=place, resumable_tokens=tokens))
        if begun:
            assert not [e for e in effects if isinstance(e, Send) and e.request_id == name]

    @precondition(lambda self: self.running or self.waiting)
    @rule(data=st.data())
    def leave(self, data):
        name = data.draw(st.sampled_from(sorted({*self.running, *self.waiting})))
        self.tell(ClientGone(name))
        assert name in self.ended

    @rule(
        models=st.sets(st.sampled_from("ab")),
        routing=st.sampled_from([Routing.LEAST_SECONDS, Routing.LEAST_TOKENS]),
        weights=st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2)),
    )
    def policy_changes(self, models, routing, weights):
        """Models go and come back while their requests run; so does a name that stands for both."""
        config = {model: CONFIG[model] for model in sorted(models)}
        if "a" in config:
            config["a"] = replace(config["a"], routing=routing)
        shift = None if weights is None else TrafficShift(tuple(zip("ab", weights, strict=True)))
        self.tell(ModelsConfigured(config, shifts={} if shift is None else {"both": shift}))

    @rule(
        replicas=st.dictionaries(
            st.integers(1, 6), st.tuples(st.sampled_from("ab"), st.integers(0, 4), states, known)
        ),
        can_serve=st.booleans(),
    )
    def table_changes(self, replicas, can_serve):
        self.version += 1
        kept = {route.replica_id: route.model for route in self.routes}
        self.routes = tuple(
            Route(
                f"x-{n}",
                kept.get(f"x-{n}", model),
                state,
                Address("h", n),
                # A replica's slots change only downwards to nothing, when it drains.
                0 if state is not State.SERVING else 4,
                "openai",
                knows=knows,
                leaves_at_s=self.now_s + 5.0 if state is State.SERVING and mark == 0 else None,
            )
            for n, (model, mark, state, knows) in sorted(replicas.items())
        )
        there = {route.replica_id for route in self.routes}
        table = RouteTable(self.version, tuple(ModelRoute(model, can_serve) for model in "ab"), self.routes)
        effects = self.dispatcher.on(RouteTableChanged(table), self.now_s)
        cut = [
            (name, place)
            for places in (self.running, self.hedged)
            for name, place in places.items()
            if place not in there and name not in self.spilt
        ]
        cancelled = [(e.request_id, e.replica_id) for e in effects if isinstance(e, CancelUpstream)]
        assert sorted(cancelled[: len(cut)]) == sorted(cut)
        for name, place in cancelled:
            if name in self.hedged:
                self.drop(name, place)
            elif name not in self.waiting:
                self.gives_way(name, place) if name not in self.begun else self.running.pop(name)
                self.waiting.add(name)
        for effect in effects:
            if not isinstance(effect, CancelUpstream):
                self.heed(effect)

    @invariant()
    def accepted_is_open_plus_ended(self):
        assert self.dispatcher.open_requests == len(self.running) + len(self.waiting)
        assert len(self.ended) + self.dispatcher.open_requests == self.names

    @invariant()
    def spilt_requests_keep_to_their_bounds(self):
        stats = self.dispatcher.spill_stats(self.now_s).get("b")
        if stats is None:
            assert not self.spilt
            return
        there = sorted(self.spilt & self.running.keys())
        assert stats.in_flight == len(there) <= SPILL.max_in_flight
        assert stats.cost_last_h <= SPILL.max_cost_per_h + 1e-9
        assert stats.requests_total == len(self.spilt)

    @invariant()
    def what_is_reported_is_what_runs(self):
        report = self.dispatcher.on(ReportDue(), self.now_s)[0].report
        assert {load.replica_id: load.in_flight for load in report.replicas} == {
            route.replica_id: self.at(route.replica_id) for route in self.routes
        }
        assert sum(demand.queued for demand in report.models) == len(self.waiting)

    def teardown(self):
        """Every mark against a replica ends: rests after 16 s at most, then it takes a request at least; where one
        holds none, nobody waits whose adapter it has. And whoever still waits is told at its time."""
        self.tell(ModelsConfigured(CONFIG))
        for _ in range(4):
            self.now_s += 10.0
            self.tell(Tick())
        for route in self.routes:
            if route.state is State.SERVING and not self.at(route.replica_id):
                could = [name for name in self.waiting if self.model_of[name] == route.model]
                assert not [name for name in could if self.has(route, name)]
        self.now_s += 700.0
        self.tell(Tick())
        assert not self.waiting
        assert self.dispatcher.open_requests == len(self.running) == 0


TestDispatch = DispatchMachine.TestCase
TestDispatch.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
