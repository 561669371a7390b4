"""What the controller is told of a start, stage by stage."""

from dataclasses import replace

import pytest

from sim.worlds import M, Notes, run, steady, world
from tidegate.core.events import ReplicaSeen
from tidegate.engine.coldstart import Build, ColdStart
from tidegate.sim.scenario import Machines

WHOLE = ColdStart(
    procurement_s=60,
    image_gb=12,
    weights_gb=14,
    weights_gb_per_s=2,
    build=Build("h100", "13.1"),
    compile_s=30,
    cached_compile_s=8,
    kv_profiling_s=3,
    graph_capture_s=2,
    engine_start_s=10,
    first_request_s=1,
)


def started(rows, scenario, cold_start):
    notes = Notes()
    setup = replace(scenario.models[M], cold_start=cold_start)
    done, figures = run(rows, replace(scenario, models={M: setup}), journal=notes)
    seen = [
        (at_s, event.replica_id, event.seen.value, event.detail)
        for _, at_s, event, _ in notes.turns
        if isinstance(event, ReplicaSeen)
    ]
    return seen, done, figures


def test_a_cold_start_is_told_stage_by_stage_down_to_the_probe():
    seen, _, _ = started([(0.0, 100, 10)], world(min_replicas=0, max_replicas=1), WHOLE)

    assert [(round(at_s), *rest) for at_s, _, *rest in seen] == [
        (0, "procuring", "procurement"),
        (60, "pulling", "image"),
        (72, "loading", "weights"),
        (79, "starting", "compile"),
        (109, "starting", "kv_profiling"),
        (112, "starting", "graph_capture"),
        (114, "starting", "engine_start"),
        (124, "starting", "first_request"),
        (125, "ready", ""),
    ]


def test_a_start_where_one_has_been_finds_files_and_compilation():
    rows = [(0.0, 100, 10), (900.0, 100, 10)]
    scenario = world(
        min_replicas=0,
        max_replicas=1,
        scale_down_delay_s=30.0,
        machines=Machines(nodes=1, gpus_per_node=1),
        gpus=1,
    )
    seen, done, _ = started(rows, scenario, WHOLE)

    second = [(seen_, detail) for _, replica_id, seen_, detail in seen if replica_id == "m-2"]
    assert second[:2] == [("loading", "weights"), ("starting", "compile")]
    assert done.cold_starts_s == (pytest.approx(125.0), pytest.approx(7 + 8 + 3 + 2 + 10 + 1))


def test_times_with_a_spread_differ_from_start_to_start():
    rows = steady(30, 60)
    spread = replace(WHOLE, procurement_s=0.0, sigma=0.3)
    _, done, figures = started(rows, world(min_replicas=0, max_replicas=4, settle_s=60.0), spread)

    assert figures.cold_starts >= 3
    assert len(set(done.cold_starts_s)) == len(done.cold_starts_s)
