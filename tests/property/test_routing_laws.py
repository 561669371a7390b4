"""The router in seconds, over any order of requests, answers, failures, tables and told caches."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.core.dispatch.routing.cost import TIE_S
from unit.core.dispatch.routing_world import chain, seats, seconds_world

NAMES = ("a", "b", "c")
prompts = st.lists(st.integers(0, 2), max_size=5).map(
    lambda path: chain(*(hash(tuple(path[: n + 1])) % 10**9 for n in range(len(path))))
)


class Router(RuleBasedStateMachine):
    """Sends where the router says, or anywhere, and looks at what it believes."""

    def __init__(self):
        super().__init__()
        self.world = seconds_world(*NAMES, index_bytes=8_000, adapter_slots=2)
        self.open = []

    def entry(self, tokens, blocks, adapter, flow, streams):
        return self.world.entry(
            tokens + 100 * len(blocks), blocks, adapter=adapter, flow=flow, streams=streams
        )

    @rule(
        tokens=st.integers(0, 5_000),
        blocks=prompts,
        adapter=st.sampled_from([None, None, "x", "y", "z"]),
        flow=st.sampled_from(["one", "two"]),
        streams=st.booleans(),
    )
    def send(self, tokens, blocks, adapter, flow, streams):
        world, now_s = self.world, self.world.now_s
        entry = self.entry(tokens, blocks, adapter, flow, streams)
        chosen = world.picker.pick(entry, world.seats, now_s)
        totals = {
            terms.replica_id: terms.total_s for terms in world.picker.explain(entry, world.seats, now_s)
        }
        assert totals[chosen.replica_id] <= min(totals.values()) + len(totals) * TIE_S
        assert all(total_s >= 0.0 for total_s in totals.values())
        chosen.take(entry)
        world.tell("sent", entry, chosen, now_s)
        self.open.append((chosen.replica_id, entry))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def begin(self, data):
        name, entry = data.draw(st.sampled_from(self.open))
        self.world.begin(name, entry)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), cached=st.none() | st.integers(0, 6_000), output=st.integers(0, 500))
    def end(self, data, cached, output):
        name, entry = data.draw(st.sampled_from(self.open))
        self.open.remove((name, entry))
        self.world.end(name, entry, cached, output)
        self.world.tell("left", entry, name)  # may be told twice

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def fail(self, data):
        name, entry = data.draw(st.sampled_from(self.open))
        self.open.remove((name, entry))
        self.world.leave(name, entry)

    @rule(name=st.sampled_from(NAMES))
    def restart(self, name):
        """It leaves the table, and one of that name comes."""
        world = self.world
        self.open = [(at, entry) for at, entry in self.open if at != name]
        world.seats = [seat for seat in world.seats if seat.replica_id != name]
        world.tell("seats_are", world.seats, world.now_s)
        world.seats = sorted([*world.seats, *seats(name)], key=lambda seat: seat.replica_id)
        world.tell("seats_are", world.seats, world.now_s)

    @rule(name=st.sampled_from(NAMES), ago_s=st.floats(0.0, 100.0))
    def cache_told(self, name, ago_s):
        self.world.picker.insight.cache_told(name, self.world.now_s - ago_s)

    @rule(seconds=st.floats(0.0, 40.0))
    def wait(self, seconds):
        self.world.now_s += seconds

    @invariant()
    def what_is_believed_is_what_is_there(self):
        for name, load in self.world.picker.insight.loads.items():
            there = [entry for at, entry in self.open if at == name]
            assert len(load.visits) == len(there)
            assert load.kv_tokens == pytest.approx(
                sum(v.prompt_tokens for v in load.visits.values()), abs=1e-6
            )
            waiting = [visit.work_s for visit in load.waiting.values()]
            assert load.waiting_s == pytest.approx(sum(waiting), abs=1e-6)
            assert load.tail_s == pytest.approx(sum(waiting[1:]), abs=1e-6)
            assert sum(load.in_use.values()) == sum(bool(entry.arrived.prefix) for entry in there)
            assert 0.2 <= load.pace <= 8.0

    @invariant()
    def adapters_fit_into_their_slots(self):
        adapters = self.world.picker.insight.adapters
        for name in self.world.picker.insight.loads:
            at_work = {entry.arrived.adapter for at, entry in self.open if at == name} - {None}
            assert at_work <= set(adapters.on_gpu(name))
            assert len(adapters.on_gpu(name)) <= max(2, len(at_work))

    @invariant()
    def the_index_keeps_its_bound(self):
        stats = self.world.picker.insight.recall.stats()
        assert stats.index_bytes <= stats.index_limit_bytes

    def teardown(self):
        for name, entry in self.open:
            self.world.leave(name, entry)
        for load in self.world.picker.insight.loads.values():
            assert (load.visits, load.waiting, load.in_use) == ({}, {}, {})
            assert (load.kv_tokens, load.kv_begun) == (0.0, 0.0)
            assert load.waiting_s == pytest.approx(0.0, abs=1e-6)


Router.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestRouter = Router.TestCase
