"""The starts of a journal, read from its lines."""

import msgspec
import pytest

from tidegate.core.effects import Launch, Stop, Wake
from tidegate.core.events import FleetConfigured, ReplicaSeen, Tick, WeightsSeen
from tidegate.core.lifecycle import Part, Seen
from tidegate.core.nodes import Gpu, Node, Place
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import ModelId, ReplicaId
from tidegate.runtime.journal import line
from tidegate.runtime.replay import JournalError
from tidegate.runtime.started import start_files, starts_of

M, GB = ModelId("m"), 10**9


class Journal:
    """Turns of the fleet's controller, written as they are in production."""

    def __init__(self, folder, run="20261130T000000-1"):
        self.path = folder / f"{run}-000001.jsonl"
        self.lines = []

    def turn(self, now_s, event, *effects):
        self.lines.append(msgspec.json.encode(line("fleet", now_s, event, effects)))
        return self

    def seen(self, now_s, replica_id, seen, **more):
        return self.turn(now_s, ReplicaSeen(ReplicaId(replica_id), seen, **more))

    def launch(self, now_s, replica_id, variant=""):
        return self.turn(now_s, Tick(), Launch(ReplicaId(replica_id), M, "wanted", variant))

    def written(self):
        self.path.write_bytes(b"\n".join([b'{"journal":1,"tidegate":"0","run":"r"}', *self.lines, b""]))
        return self.path


def one_start(journal, at_s=0.0, replica_id="m-1", **ready):
    journal.launch(at_s, replica_id)
    journal.seen(at_s + 1.0, replica_id, Seen.PULLING, detail="half")
    journal.seen(at_s + 20.0, replica_id, Seen.PULLING, detail="nearly all")
    journal.turn(at_s + 40.0, WeightsSeen(M, "n", "hub", 20 * GB, 0, 20 * GB, 39.0))
    journal.seen(at_s + 41.0, replica_id, Seen.STARTING)
    return journal.seen(at_s + 101.0, replica_id, Seen.READY, **ready)


def reports(path, sleeps=lambda _engine: False):
    return starts_of(start_files(path)).reports(sleeps)


def test_a_start_is_cut_into_the_stages_it_was_seen_in(tmp_path):
    path = one_start(Journal(tmp_path), parts=((Part.COMPILE, 30.0),), compiled=False).written()

    (found,) = reports(path)

    assert (found.model, found.starts, found.p50_s) == (M, 1, 101.0)
    assert [(span.name, span.p50_s) for span in found.spans] == [
        ("requested", 1.0),
        ("pulling", 40.0),
        ("starting", 60.0),
        ("starting: compile", 30.0),
    ]


def test_starts_on_two_kinds_of_nodes_are_told_apart(tmp_path):
    nodes = (Node("a", (Gpu(0, kind="h100"),)), Node("b", (Gpu(0, kind="l4"),)))
    journal = Journal(tmp_path)
    journal.turn(0.0, FleetConfigured({M: FleetModel(engine="vllm", gpus=1)}, FleetLimits(), nodes))
    for number, (node, took_s) in enumerate((("a", 20.0), ("b", 90.0), ("a", 22.0)), start=1):
        name = ReplicaId(f"m-{number}")
        journal.turn(1.0, Tick(), Launch(name, M, "wanted", place=Place(node, (0,))))
        journal.seen(1.0 + took_s, name, Seen.READY)

    found = reports(journal.written())

    assert [(one.kind, one.starts, one.p50_s) for one in found] == [("h100", 2, 21.0), ("l4", 1, 90.0)]


def test_all_runs_of_a_folder_count_and_one_without_its_beginning_too(tmp_path):
    one_start(Journal(tmp_path)).written()
    one_start(Journal(tmp_path, "20261201T000000-2"), 1000.0, "m-2").written()
    late = Journal(tmp_path, "20261202T000000-3")
    late.seen(2000.0, "m-3", Seen.READY)  # its launch is in a segment that is gone
    one_start(late, 2100.0, "m-4").written()

    (found,) = reports(tmp_path)

    assert found.starts == 3


def test_a_start_that_was_called_off_is_no_failure_and_a_crash_is_one(tmp_path):
    journal = Journal(tmp_path)
    journal.launch(0.0, "m-1").turn(5.0, Tick(), Stop(ReplicaId("m-1"), "not wanted")).seen(
        6.0, "m-1", Seen.EXITED
    )
    journal.launch(10.0, "m-2").seen(12.0, "m-2", Seen.EXITED)
    one_start(journal, 20.0, "m-3")

    (found,) = reports(journal.written())

    assert (found.starts, found.failed) == (1, 1)


def test_a_crash_is_one_though_a_former_run_ended_another_replica_of_that_name(tmp_path):
    first = one_start(Journal(tmp_path))
    first.turn(200.0, Tick(), Stop(ReplicaId("m-1"), "not wanted")).seen(201.0, "m-1", Seen.EXITED)
    first.written()
    Journal(tmp_path, "20261201T000000-2").launch(1000.0, "m-1").seen(1002.0, "m-1", Seen.EXITED).written()

    (found,) = reports(tmp_path)

    assert (found.starts, found.failed) == (1, 1)


def test_wake_ups_are_measured_from_their_order_and_those_that_came_to_nothing_left_out(tmp_path):
    journal = one_start(Journal(tmp_path))
    journal.turn(200.0, Tick(), Wake(ReplicaId("m-1"), "wanted")).seen(204.0, "m-1", Seen.WOKEN)
    journal.turn(300.0, Tick(), Wake(ReplicaId("m-1"), "wanted")).seen(301.0, "m-1", Seen.SLEPT)

    (found,) = reports(journal.written())

    assert (found.wakes, found.wake_p50_s) == (1, 4.0)
    assert found.levers[0].name == "sleep instead of stop"


def test_a_source_that_another_model_came_from_faster_is_nearer(tmp_path):
    journal = one_start(Journal(tmp_path))
    journal.turn(200.0, WeightsSeen(ModelId("other"), "n", "nearby", GB, 0, GB, 0.5))
    (found,) = reports(journal.written())

    nearer = next(lever for lever in found.levers if lever.name == "nearer source")
    assert nearer.gain_s == pytest.approx(30.0)


def test_variants_are_told_apart_and_engines_are_asked_whether_they_sleep(tmp_path):
    journal = Journal(tmp_path)
    journal.turn(0.0, FleetConfigured({M: FleetModel("vllm")}, FleetLimits()))
    journal.launch(1.0, "m-1", "small").seen(51.0, "m-1", Seen.READY)
    journal.launch(1.0, "m-2").seen(91.0, "m-2", Seen.READY)

    found = reports(journal.written(), sleeps=lambda engine: engine == "vllm")

    assert [(one.kind, one.p50_s) for one in found] == [("", 90.0), ("small", 50.0)]
    assert [one.levers[0].gain_s for one in found] == [84.0, 44.0]


def test_no_journal_is_said(tmp_path):
    with pytest.raises(JournalError, match="no journal at"):
        start_files(tmp_path)
