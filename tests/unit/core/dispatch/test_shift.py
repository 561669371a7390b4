"""Stories about traffic that moves from one version of a model to another."""

import itertools

import pytest

from tidegate.core.dispatch.shift import Shift
from tidegate.core.effects import RolledBack, Send
from tidegate.core.events import (
    Failure,
    FirstByte,
    ModelsConfigured,
    RequestArrived,
    RouteTableChanged,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.lifecycle import State
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import ALL_QUEUES, DispatchConfig, TrafficShift
from tidegate.core.types import Address, ModelRoute, Route, RouteTable
from unit.core.dispatch.dispatch_world import World, outcomes, rejected


class Versions(World):
    """Clients ask for "m"; "old" and "new" answer, one replica each."""

    def __init__(self, old=90.0, new=10.0, **shift):
        super().__init__()
        self.shift(old, new, **shift)
        self.serve("old", "new")

    def shift(self, old, new, now_s=0.0, **shift):
        config = TrafficShift((("old", old), ("new", new)), **shift)
        models = {"old": DispatchConfig(), "new": DispatchConfig()}
        return self.on(ModelsConfigured(models, ALL_QUEUES, {"m": config}), now_s)

    def serve(self, *models, now_s=0.0):
        self.version += 1
        routes = tuple(
            Route(f"{m}-1", m, State.SERVING, Address("h", 1), 10_000, "openai") for m in sorted(models)
        )
        told = tuple(ModelRoute(m, m in models) for m in ("old", "new"))
        self.on(RouteTableChanged(RouteTable(self.version, told, routes)), now_s)

    def to(self, name, now_s=0.0, *, tokens=100, **more):
        """Which version a request goes to; it is answered at once."""
        (order,) = [
            e
            for e in self.on(RequestArrived(name, "m", tokens, None, 400, now_s + 600.0, **more), now_s)
            if isinstance(e, Send)
        ]
        self.on(UpstreamEnded(name, 200, tokens, 0, 0), now_s)
        return order.replica_id[:3]


def test_a_weight_is_a_share_of_the_tokens_and_not_of_the_requests():
    world = Versions()
    tokens = {"old": 0, "new": 0}
    for n in range(500):
        size = 5_000 if n % 7 == 0 else 100
        tokens[world.to(f"r{n}", tokens=size)] += size

    assert tokens["new"] / sum(tokens.values()) == pytest.approx(0.10, abs=0.01)


def test_a_session_stays_with_its_version():
    world = Versions(50.0, 50.0)

    for session in range(40):
        assert len({world.to(f"{session}.{n}", session=f"s{session}") for n in range(5)}) == 1


def test_sessions_move_only_towards_the_version_whose_weight_grows():
    shifts = [Shift(TrafficShift((("old", 100.0 - w), ("new", w)))) for w in (1.0, 5.0, 25.0, 50.0, 99.0)]
    names = [f"session {n}" for n in range(2_000)]

    chosen = [{n: shift.choose(n, lambda m: True, lambda m: 0.0) for n in names} for shift in shifts]

    for before, after in itertools.pairwise(chosen):
        assert all(after[n] == "new" for n in names if before[n] == "new")
    shares = [sum(one == "new" for one in found.values()) / len(names) for found in chosen]
    assert shares == pytest.approx([0.01, 0.05, 0.25, 0.50, 0.99], abs=0.03)


def test_requests_without_a_session_make_up_for_sessions_of_unequal_size():
    world = Versions(50.0, 50.0)
    tokens = {"old": 0, "new": 0}
    heavy = world.to("first", session="heavy")
    for n in range(400):
        tokens[world.to(f"h{n}", tokens=300, session="heavy")] += 300
        tokens[world.to(f"r{n}", tokens=700)] += 700

    assert tokens[heavy] / sum(tokens.values()) == pytest.approx(0.5, abs=0.02)


def test_the_version_that_has_the_prompt_is_preferred_while_it_is_not_ahead():
    shift = Shift(TrafficShift((("old", 50.0), ("new", 50.0))))
    shift.sent("old", 10_000.0)
    shift.sent("new", 10_000.0)

    found = []
    for _ in range(20):
        version = shift.choose(None, lambda m: True, {"old": 0.0, "new": 900.0}.get)
        shift.sent(version, 1_000.0)
        found.append(version)

    assert found[0] == "new"
    assert 8 <= found.count("new") <= 12


def test_a_version_that_nobody_serves_is_left_out():
    world = Versions(50.0, 50.0)
    world.serve("old")

    assert {world.to(f"r{n}") for n in range(10)} == {"old"}


def test_a_version_that_fails_is_taken_out_and_the_journal_says_why():
    world = Versions(50.0, 50.0, min_samples=20, max_error_ratio=0.05)
    told = []
    for n in range(200):
        now_s = 2.0 * n  # its replica rests for a second now and then
        effects = world.on(RequestArrived(f"r{n}", "m", 100, None, 400, 6_000.0), now_s)
        (order,) = [e for e in effects if isinstance(e, Send)]
        if order.replica_id == "new-1":
            world.on(FirstByte(f"r{n}"), now_s)
            told += world.on(UpstreamFailed(f"r{n}", Failure.ABORTED), now_s)
        else:
            world.on(UpstreamEnded(f"r{n}", 200, 100, 0, 10), now_s)
        if any(isinstance(e, RolledBack) for e in told):
            break

    (back,) = [e for e in told if isinstance(e, RolledBack)]
    assert (back.name, back.version) == ("m", "new")
    assert "100.0 % of its requests failed" in back.because
    assert {world.to(f"after{n}", 500.0) for n in range(20)} == {"old"}
    world.shift(50.0, 50.0, 510.0, min_samples=20)
    assert {world.to(f"again{n}", 511.0) for n in range(20)} == {"old", "new"}


def test_a_slow_version_is_taken_out_and_one_as_slow_as_the_first_is_not():
    config = TrafficShift((("old", 50.0), ("new", 50.0)), max_ttft_s=1.0, min_samples=20)
    alone, both = Shift(config), Shift(config)
    reasons = []
    for _ in range(60):
        alone.ended("old", Outcome.COMPLETED, 0.5)
        reasons.append(alone.ended("new", Outcome.COMPLETED, 1.5))
        both.ended("old", Outcome.COMPLETED, 1.5)
        assert both.ended("new", Outcome.COMPLETED, 1.5) is None

    assert "took longer than 1 s" in next(filter(None, reasons))


def test_clients_that_leave_and_requests_turned_away_are_no_errors_of_a_version():
    shift = Shift(TrafficShift((("old", 50.0), ("new", 50.0)), min_samples=5))

    for _ in range(50):
        assert shift.ended("new", Outcome.CLIENT_GONE, None) is None
        assert shift.ended("new", Outcome.REJECTED_FULL, None) is None


def test_a_name_without_models_behind_it_is_unknown():
    world = World()
    world.table(0)

    assert rejected(world.ask("a", 0.0, model="x")).outcome is Outcome.REJECTED_UNKNOWN_MODEL
    assert outcomes(world.ask("b", 0.0)) == []


def test_a_promise_that_is_no_longer_made_takes_no_version_out():
    world = Versions(0.0, 100.0, max_ttft_s=0.5, min_samples=50)
    for n in range(40):
        world.on(RequestArrived(f"r{n}", "m", 100, None, 400, 700.0), 10.0 * n)
        world.on(FirstByte(f"r{n}"), 10.0 * n + 5.0)
        world.on(UpstreamEnded(f"r{n}", 200, 100, 0, 5), 10.0 * n + 6.0)

    world.shift(0.0, 100.0, 400.0, min_samples=50)

    assert {world.to(f"s{n}", 401.0) for n in range(40)} == {"new"}


def test_no_name_of_a_session_can_be_found_that_stops_the_draw(monkeypatch):
    monkeypatch.setattr("tidegate.core.dispatch.shift._digest", lambda text: 2**60 - 1)
    shift = Shift(TrafficShift((("old", 1.0), ("new", 2.0))))

    assert shift.choose("made for it", lambda m: True, lambda m: 0.0) == "new"
