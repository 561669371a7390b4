"""The dispatcher's laws, over any order of arrivals, answers, failures, leavings and tables."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import CancelUpstream, Record, Reject, Send
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    ModelsConfigured,
    ReportDue,
    RequestArrived,
    RouteTableChanged,
    Tick,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig, QueueLimits, Routing
from tidegate.core.types import Address, ModelRoute, Route, RouteTable

states = st.sampled_from([State.SERVING, State.SERVING, State.STARTING, State.DRAINING])


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
        self.begun = set()
        self.waiting = set()
        self.ended = {}
        self.model_of = {}
        limits = QueueLimits(max_requests=5, max_tokens=900, max_bytes=4_000)
        config = {
            "a": DispatchConfig(queue=limits),
            "b": DispatchConfig(queue=limits, routing=Routing.ROUND_ROBIN, max_retries=1),
        }
        self.tell(ModelsConfigured(config))

    def tell(self, event):
        effects = self.dispatcher.on(event, self.now_s)
        for effect in effects:
            match effect:
                case Send(request_id, replica_id):
                    assert request_id in self.waiting
                    self.waiting.discard(request_id)
                    self.running[request_id] = replica_id
                    route = next(r for r in self.routes if r.replica_id == replica_id)
                    assert route.state is State.SERVING
                    assert list(self.running.values()).count(replica_id) <= route.slots
                case CancelUpstream(request_id, replica_id):
                    assert self.running[request_id] == replica_id
                case Record(request_id, outcome=outcome):
                    assert request_id not in self.ended
                    self.ended[request_id] = outcome
                    self.waiting.discard(request_id)
                    self.running.pop(request_id, None)
                case Reject(request_id):
                    assert request_id not in self.ended
        return effects

    @rule(
        model=st.sampled_from(["a", "b", "unknown"]),
        tokens=st.integers(0, 300),
        body=st.integers(0, 1_500),
        priority=st.integers(0, 2),
        for_s=st.floats(0.0, 20.0),
    )
    def arrive(self, model, tokens, body, priority, for_s):
        self.names += 1
        name = f"r{self.names}"
        self.waiting.add(name)
        self.model_of[name] = model
        self.tell(RequestArrived(name, model, tokens, None, body, self.now_s + for_s, priority=priority))

    @rule(seconds=st.floats(0.0, 5.0))
    def time_passes(self, seconds):
        self.now_s += seconds
        self.tell(Tick())

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def first_byte(self, data):
        name = data.draw(st.sampled_from(sorted(self.running)))
        self.begun.add(name)
        self.tell(FirstByte(name))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def answer(self, data):
        name = data.draw(st.sampled_from(sorted(self.running)))
        self.tell(UpstreamEnded(name, 200))
        assert name in self.ended

    @precondition(lambda self: self.running)
    @rule(data=st.data(), failure=st.sampled_from(list(Failure)))
    def fail(self, data, failure):
        name = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[name]
        self.waiting.add(name)
        effects = self.tell(UpstreamFailed(name, failure))
        if name in self.begun:
            assert not [e for e in effects if isinstance(e, Send) and e.request_id == name]
            assert name in self.ended

    @precondition(lambda self: self.running or self.waiting)
    @rule(data=st.data())
    def leave(self, data):
        name = data.draw(st.sampled_from(sorted({*self.running, *self.waiting})))
        self.tell(ClientGone(name))
        assert name in self.ended

    @rule(
        replicas=st.dictionaries(
            st.integers(1, 6), st.tuples(st.sampled_from("ab"), st.integers(0, 4), states)
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
            )
            for n, (model, _, state) in sorted(replicas.items())
        )
        gone = [
            name for name, place in self.running.items() if place not in {r.replica_id for r in self.routes}
        ]
        models = tuple(ModelRoute(model, can_serve) for model in "ab")
        effects = self.dispatcher.on(
            RouteTableChanged(RouteTable(self.version, models, self.routes)), self.now_s
        )
        cancelled = {e.request_id for e in effects if isinstance(e, CancelUpstream)}
        assert cancelled == set(gone)
        for name in gone:
            del self.running[name]
            self.waiting.add(name)
        for effect in effects:
            if isinstance(effect, Send):
                self.waiting.discard(effect.request_id)
                self.running[effect.request_id] = effect.replica_id
            if isinstance(effect, Record):
                assert effect.request_id not in self.ended
                self.ended[effect.request_id] = effect.outcome
                self.waiting.discard(effect.request_id)

    @invariant()
    def accepted_is_open_plus_ended(self):
        assert self.dispatcher.open_requests == len(self.running) + len(self.waiting)
        assert len(self.ended) + self.dispatcher.open_requests == self.names

    @invariant()
    def what_is_reported_is_what_runs(self):
        report = self.dispatcher.on(ReportDue(), self.now_s)[0].report
        here = list(self.running.values())
        assert {load.replica_id: load.in_flight for load in report.replicas} == {
            route.replica_id: here.count(route.replica_id) for route in self.routes
        }
        assert sum(demand.queued for demand in report.models) == len(self.waiting)

    def teardown(self):
        """Rests last a second: two seconds on, a free slot means an empty line."""
        self.now_s += 2.0
        self.tell(Tick())
        here = list(self.running.values())
        free = {
            r.model for r in self.routes if r.state is State.SERVING and here.count(r.replica_id) < r.slots
        }
        assert not [name for name in self.waiting if self.model_of[name] in free]


TestDispatch = DispatchMachine.TestCase
TestDispatch.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
