"""Nodes in the simulator: the controller says where each replica goes, and it goes there."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from sim.worlds import M, Notes, steady, trace_of, world
from tidegate.cli.main import cli
from tidegate.core.effects import Launch, Sleep, Wake
from tidegate.core.events import ReplicaAdopted, ReplicaSeen
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Gpu, Node
from tidegate.core.settings import Pool
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import ColdStart
from tidegate.sim.figures import as_json
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate

BIG, SMALL = ModelId("big"), ModelId("small")


def node(name, count, kind="", price=None):
    return Node(name, tuple(Gpu(index, None, kind) for index in range(count)), price)


def two_models(**more):
    """One of four GPUs and one of one, each for its own requests."""
    one = world(gpus=1, cold_s=20.0, window_s=5, scale_down_delay_s=20, max_replicas=6, **more)
    setup = one.models[M]
    big = replace(setup, fleet=replace(setup.fleet, gpus=4))
    return replace(one, models={BIG: big, SMALL: setup})


def played(scenario, rows):
    """Rows of (moment, model)."""
    trace = trace_of([(at_s, 300, 60) for at_s, _ in rows])
    trace.models = [model for _, model in rows]
    notes = Notes()
    done = simulate(trace, scenario, 1, notes)
    return done, summarize(done), [turn for turn in notes.turns if turn[0] == "fleet"]


def places(turns):
    return {
        effect.replica_id: effect.place
        for _, _, _, effects in turns
        for effect in effects
        if isinstance(effect, Launch)
    }


def failed(turns):
    return [
        event.detail
        for _, _, event, _ in turns
        if isinstance(event, ReplicaSeen) and event.seen is Seen.EXITED and event.detail != "stopped"
    ]


def test_each_goes_where_it_was_told_and_the_hours_are_counted_by_node():
    nodes = (node("n1", 4), node("n2", 6, price=12.0))
    scenario = replace(two_models(), nodes=nodes)
    rows = [(at_s, SMALL) for at_s, _, _ in steady(2, 120)]
    rows += [(at_s + 0.01, BIG) for at_s, _, _ in steady(2, 60, from_s=60)]
    done, figures, turns = played(scenario, sorted(rows))
    where = places(turns)
    assert where["small-1"].node == "n2"
    assert where["big-1"].node == "n1"
    assert failed(turns) == []
    assert figures.completed == len(rows)
    n1, n2 = figures.nodes
    assert 0 < n1.used < n1.there == pytest.approx(4 * done.simulated_s / 3600)
    assert 0 < n2.used < n2.there
    assert n1.used + n2.used == pytest.approx(figures.gpu_hours, rel=1e-6)
    assert (n1.cost, n2.cost) == (None, pytest.approx(12.0 * done.simulated_s / 3600))


def test_a_large_one_waits_for_a_place_and_comes_when_the_small_ones_have_gone():
    scenario = replace(two_models(drain_deadline_s=30), nodes=(node("n1", 4),), settle_s=60.0)
    rows = [(at_s, SMALL) for at_s, _, _ in steady(6, 100)]
    rows += [(at_s + 0.01, BIG) for at_s, _, _ in steady(1, 200, from_s=30)]
    _, figures, turns = played(scenario, sorted(rows))
    assert "big-1" in places(turns)
    assert failed(turns) == []
    launched_s = next(
        at_s
        for _, at_s, _, effects in turns
        for effect in effects
        if isinstance(effect, Launch) and effect.model == BIG
    )
    gone_s = max(
        at_s
        for _, at_s, event, _ in turns
        if isinstance(event, ReplicaSeen) and event.seen is Seen.EXITED and at_s <= launched_s
    )
    assert gone_s <= launched_s <= gone_s + 1.0
    # Until then it could not come, and said so at once; nobody waited in vain.
    assert figures.outcomes["rejected_nobody"] == figures.rejected > 0
    assert figures.expired == figures.failed == 0


def test_what_runs_already_has_its_place():
    scenario = replace(two_models(min_replicas=1), nodes=(node("n1", 4), node("n2", 4)))
    _, _, turns = played(scenario, [(float(at), SMALL) for at in range(60)])
    adopted = {event.replica_id: event.place for _, _, event, _ in turns if isinstance(event, ReplicaAdopted)}
    assert {place.node for place in adopted.values()} == {"n1", "n2"}
    assert failed(turns) == []


def test_a_sleeper_wakes_where_it_sleeps():
    one = two_models()
    setup = one.models[SMALL]
    scaling = replace(setup.fleet.scaling, max_replicas=1)
    fleet = replace(setup.fleet, pool=Pool(max_sleeping=1, sleep_after_s=1), scaling=scaling)
    setup = replace(setup, fleet=fleet, cold_start=ColdStart(engine_start_s=60, wake_s=2, sleep_s=1))
    scenario = replace(one, models={SMALL: setup}, nodes=(node("n1", 2),))
    rows = [(float(at), SMALL) for at in [*range(30), *range(300, 330)]]
    _, figures, turns = played(scenario, rows)
    kinds = [type(effect) for _, _, _, effects in turns for effect in effects]
    assert kinds.count(Sleep) >= 1
    assert kinds.count(Wake) == 1
    assert figures.cold_starts == 1
    assert failed(turns) == []
    (n1,) = figures.nodes
    assert n1.used == pytest.approx(figures.gpu_hours, rel=0.05)


def test_json_names_the_nodes_only_where_there_are_some():
    rows = [(float(at), SMALL) for at in range(30)]
    _, with_nodes, _ = played(replace(two_models(), nodes=(node("n1", 8),)), rows)
    _, without, _ = played(two_models(), rows)
    said = {"policy": "p", "trace": "t", "cpu_s": 0.0}
    assert "nodes" not in as_json(without, **said)
    assert as_json(with_nodes, **said)["nodes"]["n1"]["gpu_hours"] == with_nodes.nodes[0].there


POLICY = """
fleet:
  nodes:
    n1: {gpus: 2, kind: h100, price: 8.00/h}
    n2: {gpus: 2, kind: l40s}
models:
  m: {engine: emulated, slots: 16, gpus: 2, kind: h100, scaling: {min_replicas: 0, max_replicas: 3}}
"""


def test_a_policy_file_with_nodes_is_simulated_on_them(tmp_path):
    policy, trace = tmp_path / "p.yaml", tmp_path / "trace.csv"
    policy.write_text(POLICY)
    rows = [f"{number * 0.25},300,60" for number in range(200)]
    trace.write_text("\n".join(["arrived_s,prompt_tokens,output_tokens", *rows]) + "\n")
    asked = ["simulate", str(policy), "--trace", str(trace), "--cold-start", "10s"]
    done = CliRunner().invoke(cli, [*asked, "--json"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["nodes"]["n1"]["gpu_hours_used"] > 0
    assert found["nodes"]["n2"]["gpu_hours_used"] == 0
    assert found["replicas"]["max"] == 1
    assert found["cost"] == pytest.approx(8.0 * found["replica_hours"], rel=1e-6)
    told = CliRunner().invoke(cli, [*asked, "--journal", str(tmp_path / "day.jsonl")])
    assert "GPU-hours in use, by node" in told.stdout
    decided = json.loads(CliRunner().invoke(cli, ["explain", str(tmp_path / "day.jsonl"), "--json"]).stdout)
    first = next(one for one in decided["decisions"] if one["orders"])
    assert first["orders"][0]["place"] == {"node": "n1", "gpus": [0, 1], "memory_bytes": None}
    explained = CliRunner().invoke(cli, ["explain", str(tmp_path / "day.jsonl"), str(first["number"])])
    assert "Launch m-1 on GPUs 0, 1 of n1:" in explained.stdout
