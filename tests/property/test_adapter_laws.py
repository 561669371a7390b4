"""The laws of LoRA adapters on replicas, over any order of policies, orders that fail, and replicas that come and go."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.core.effects import Launch, LoadAdapter, PublishRoutes, Stop, UnloadAdapter
from tidegate.core.events import AdapterSeen, FleetConfigured, ReplicaSeen, Tick
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen, State
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import FleetLimits, FleetModel, Restarts
from tidegate.core.types import Address

NAMES = ("red", "green", "blue")
RETRY_S = 30.0
SPEC = FleetModel(
    "vllm",
    scaling=Scaling(min_replicas=2, max_replicas=2),
    restarts=Restarts(backoff_first_s=1.0, backoff_max_s=4.0, give_up_after=3, retry_failed_s=RETRY_S),
    loads_adapters=True,
    adapters_at_start=False,
)


class AdapterMachine(RuleBasedStateMachine):
    """Two replicas, whose engines keep their own lists."""

    def __init__(self):
        super().__init__()
        self.brain = FleetController()
        self.now_s = 0.0
        self.wanted = {}
        self.starting = []
        self.engines = {}  # replica -> what its engine has, by name
        self.under_way = {}  # replica -> the order
        self.sources = {}  # replica -> the mark under which each name was loaded there first
        self.stuck = set()  # (replica, name) of what could not be unloaded once
        self.routes = ()
        self.configure({"red": 1})

    def tell(self, event):
        for effect in self.brain.on(event, self.now_s):
            match effect:
                case Launch(replica_id):
                    self.starting.append(replica_id)
                case Stop(replica_id):
                    self.gone(replica_id)
                case LoadAdapter(replica_id, adapter) | UnloadAdapter(replica_id, adapter):
                    assert replica_id in self.engines
                    assert replica_id not in self.under_way, "one at a time"
                    assert isinstance(effect, UnloadAdapter) == (adapter not in self.wanted)
                    self.under_way[replica_id] = effect
                    if isinstance(effect, LoadAdapter):
                        first = self.sources[replica_id].setdefault(adapter, self.wanted[adapter])
                        assert first == self.wanted[adapter], "one source for a name, as long as it lives"
                case PublishRoutes(table):
                    self.routes = table.routes

    def gone(self, replica_id):
        self.engines.pop(replica_id, None)
        self.under_way.pop(replica_id, None)

    @rule(wanted=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([1, 1, 1, 2])))
    def configure(self, wanted):
        self.wanted = wanted
        adapters = tuple((name, f"{name}-{mark}") for name, mark in wanted.items())
        self.tell(FleetConfigured({"m": replace(SPEC, adapters=adapters)}, FleetLimits()))

    @precondition(lambda self: self.starting)
    @rule()
    def one_is_ready(self):
        replica_id = self.starting.pop(0)
        self.engines[replica_id], self.sources[replica_id] = set(), {}
        self.tell(ReplicaSeen(replica_id, Seen.READY, Address("h", 1)))

    @precondition(lambda self: self.engines)
    @rule(data=st.data())
    def one_dies(self, data):
        replica_id = data.draw(st.sampled_from(sorted(self.engines)))
        self.gone(replica_id)
        self.tell(ReplicaSeen(replica_id, Seen.EXITED, detail="killed"))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), fails=st.booleans())
    def an_order_is_carried_out(self, data, fails=False):
        replica_id = data.draw(st.sampled_from(sorted(self.under_way)))
        self.carry_out(replica_id, fails=fails)

    def carry_out(self, replica_id, *, fails):
        order = self.under_way.pop(replica_id)
        engine = self.engines[replica_id]
        if not fails:
            engine.add(order.adapter) if isinstance(order, LoadAdapter) else engine.discard(order.adapter)
        elif isinstance(order, UnloadAdapter):
            self.stuck.add((replica_id, order.adapter))
        there = order.adapter in engine
        self.tell(AdapterSeen(replica_id, order.adapter, there, "HTTP 500" if fails else ""))

    @rule(seconds=st.floats(0.0, 40.0))
    def time_passes(self, seconds):
        self.now_s += seconds
        self.tell(Tick())

    @invariant()
    def nobody_is_sent_where_an_adapter_is_not_or_is_not_wanted(self):
        for route in self.routes:
            if route.state is State.SERVING and route.replica_id in self.engines:
                order = self.under_way.get(route.replica_id)
                going = {order.adapter} if isinstance(order, UnloadAdapter) else set()
                assert set(route.knows) <= self.engines[route.replica_id] - going

    def teardown(self):
        """When nothing fails any more, every replica that serves has what is wanted within the longest pause."""
        for _ in range(60):
            self.now_s += RETRY_S
            self.tell(Tick())
            while self.starting:
                self.one_is_ready()
            while self.under_way:
                self.carry_out(min(self.under_way), fails=False)
        serving = [route for route in self.routes if route.state is State.SERVING]
        assert serving
        for route in serving:
            assert set(route.knows) == set(self.wanted)
            left = self.engines[route.replica_id] - set(self.wanted)
            assert left <= {name for replica_id, name in self.stuck if replica_id == route.replica_id}


TestAdapters = AdapterMachine.TestCase
TestAdapters.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
