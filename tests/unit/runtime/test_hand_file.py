"""The file with the numbers that somebody set: read with the time that has passed since."""

from tidegate.core.events import FleetConfigured, ScaledByHand
from tidegate.core.fleet import FleetController
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import ModelId
from tidegate.runtime.hands import HandFile

M = ModelId("m")


def told(*events, at_s=100.0):
    brain = FleetController()
    brain.on(FleetConfigured({M: FleetModel("vllm", scaling=Scaling(max_replicas=5))}, FleetLimits()), at_s)
    for event in events:
        brain.on(event, at_s)
    return brain


def test_a_number_holds_for_the_rest_of_its_time_after_a_restart(tmp_path):
    now = {"s": 1_000_000.0}
    brain = told(ScaledByHand(M, 3, 600.0, at_least=True))
    HandFile(tmp_path / "state", lambda: now["s"]).keep(brain.hands, 100.0)

    now["s"] += 240.0
    (event,) = HandFile(tmp_path / "state", lambda: now["s"]).read()
    assert event == ScaledByHand(M, 3, 360.0, at_least=True)
    now["s"] += 360.0
    assert HandFile(tmp_path / "state", lambda: now["s"]).read() == []


def test_what_is_released_is_gone_from_the_file(tmp_path):
    file = HandFile(tmp_path)
    brain = told(ScaledByHand(M, 3, 600.0))
    file.keep(brain.hands, 100.0)
    brain.on(ScaledByHand(M, None), 101.0)
    file.keep(brain.hands, 101.0)
    assert HandFile(tmp_path).read() == []


def test_where_nothing_was_ever_set_there_is_no_file(tmp_path):
    HandFile(tmp_path).keep(told().hands, 100.0)
    assert list(tmp_path.iterdir()) == []


def test_it_is_written_when_it_changes_and_not_each_time(tmp_path):
    file, brain = HandFile(tmp_path, lambda: 5_000.0), told(ScaledByHand(M, 3, 600.0))
    file.keep(brain.hands, 100.0)
    written = (tmp_path / "by_hand.json").stat().st_mtime_ns
    for _ in range(3):
        file.keep(brain.hands, 100.0)
    assert (tmp_path / "by_hand.json").stat().st_mtime_ns == written


def test_a_broken_file_is_no_number(tmp_path, caplog):
    (tmp_path / "by_hand.json").write_bytes(b"[")
    assert HandFile(tmp_path).read() == []
    assert "no number is set by hand" in caplog.text
