"""When a replica is expected to serve, learned from the starts before it."""

import pytest

from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.nodes import Gpu, Node
from tidegate.core.types import ModelId

M = ModelId("m")


def expected_s(world, at):
    """From this moment, until each one that comes up is to serve."""
    return {
        route.replica_id: route.expected_ready_s - at
        for route in world.table.routes
        if route.expected_ready_s is not None
    }


def learned(*took_s):
    cold = ColdStarts()
    for one in took_s:
        cold.learn(M, one)
    return cold.expected_s(M, 60.0)


def grown(world, at, settings, replicas, took_s):
    """So many are needed from ``at`` on, and those that were not there are ready after ``took_s``."""
    world.configure(at, {M: settings(min_replicas=replicas)})
    coming = [name for name, state in world.states().items() if state == "requested"]
    for name in coming:
        world.ready(at + took_s, name, 9000 + int(name.rpartition("-")[2]))
    return coming


# ---- the last few ----


def test_one_that_was_out_of_the_way_moves_nothing_and_three_tell_that_times_have_changed():
    settled = [20.0] * 12
    assert learned(*settled, 90.0) == 20.0
    assert learned(*settled, 30.0, 31.0) == 20.0
    assert learned(*settled, 30.0, 31.0, 32.0) == 30.0


def test_before_the_first_one_the_settings_speak():
    assert learned() == 60.0
    assert learned(20.0) == 20.0


# ---- side by side ----


def test_starts_side_by_side_are_learned_by_themselves(world, settings):
    """Engines without GPUs share this machine: alone one takes 10 s, two at once 30 s each."""
    grown(world, 0, settings, 1, 10)
    assert grown(world, 100, settings, 3, 30) == ["m-2", "m-3"]

    world.configure(200, {M: settings(min_replicas=4)})
    assert expected_s(world, 200) == {"m-4": 10.0}
    world.ready(210, "m-4", 9004)
    world.configure(300, {M: settings(min_replicas=6)})
    assert expected_s(world, 300) == {"m-5": 30.0, "m-6": 30.0}


def test_until_two_have_been_seen_side_by_side_one_alone_speaks_for_them_and_the_other_way_round(
    world, settings
):
    grown(world, 0, settings, 2, 30)
    world.configure(100, {M: settings(min_replicas=3)})
    assert expected_s(world, 100) == {"m-3": 30.0}


def test_who_begins_when_another_is_half_way_up_is_as_good_as_alone(world, settings):
    grown(world, 0, settings, 1, 10)
    grown(world, 100, settings, 3, 30)
    world.configure(200, {M: settings(min_replicas=4)})
    world.configure(206, {M: settings(min_replicas=5)})
    assert expected_s(world, 206) == {"m-4": 4.0, "m-5": 10.0}


@pytest.mark.parametrize("nodes,beside", [({"n1": 8}, True), ({"n1": 4, "n2": 4}, False), ({}, False)])
def test_only_starts_on_one_node_are_side_by_side_and_where_no_node_is_known_none_is(
    world, settings, nodes, beside
):
    where = [Node(name, tuple(Gpu(index) for index in range(count))) for name, count in nodes.items()]
    world.configure(0, {M: settings(gpus=4, min_replicas=2)}, where)
    for name in ("m-1", "m-2"):
        world.ready(30, name)
    (known,) = world.brain.remember(30.0).starts
    assert (known.took_s, known.beside) == ((30.0, 30.0), beside)


def test_both_sorts_outlive_the_process():
    cold, restored = ColdStarts(), ColdStarts()
    cold.learn(M, 10.0, stages={"starting": 9.0})
    cold.learn(M, 30.0, stages={"starting": 29.0}, beside=True)
    restored.restore(cold.remember())
    assert restored.expected_s(M, None) == 10.0
    assert restored.expected_s(M, None, beside=True) == 30.0
    assert restored.view(M, None) == cold.view(M, None)
