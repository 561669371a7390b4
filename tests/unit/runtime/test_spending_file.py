"""The file with the books: written once a minute, read with the time that has passed since."""

from tidegate.core.events import FleetConfigured, ReplicaAdopted, SpendingRestored, SpillsRestored, Tick
from tidegate.core.fleet import FleetController
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import Address, ModelId, ReplicaId
from tidegate.runtime.spending import SpendingFile

M = ModelId("m")


def spent(until_s):
    """A controller whose one replica has cost 6 an hour since 0."""
    brain = FleetController()
    brain.on(ReplicaAdopted(ReplicaId("m-1"), M, Address("h", 1)), 0.0)
    spec = FleetModel("vllm", price_per_h=6.0, scaling=Scaling(min_replicas=1))
    brain.on(FleetConfigured({M: spec}, FleetLimits()), 0.0)
    for second in range(60, int(until_s) + 1, 60):
        brain.on(Tick(), float(second))
    return brain


def test_what_is_read_is_as_old_as_the_calendar_says(tmp_path):
    now = {"s": 1_000_000.0}
    brain = spent(600)
    SpendingFile(tmp_path / "state", lambda: now["s"]).write(brain.state(600.0), {})

    now["s"] += 3600
    restored, _ = SpendingFile(tmp_path / "state", lambda: now["s"]).read()
    assert isinstance(restored, SpendingRestored)
    assert abs(sum(money for _, money in restored.minutes) - 1.0) < 1e-9
    assert min(age_s for age_s, _ in restored.minutes) >= 3600


def test_it_is_written_once_a_minute(tmp_path):
    file, looks = SpendingFile(tmp_path), []
    brain = spent(60)

    def look():
        looks.append(1)
        return brain.state(60.0)

    for second in range(125):
        file.keep(look, dict, float(second))
    assert len(looks) == 3


def test_no_file_and_a_broken_one_are_nothing_known(tmp_path, caplog):
    file = SpendingFile(tmp_path)
    assert file.read() == (None, None)
    assert not caplog.records
    (tmp_path / "spending.json").write_bytes(b"{")
    assert file.read() == (None, None)
    (warning,) = caplog.records
    assert "not known" in warning.message


def test_what_was_spilt_is_as_old_as_the_calendar_says(tmp_path):
    now = {"s": 1_000_000.0}
    SpendingFile(tmp_path, lambda: now["s"]).write(spent(60).state(60.0), {M: ((30.0, 0.5), (0.0, 0.25))})

    now["s"] += 600
    file = SpendingFile(tmp_path, lambda: now["s"])
    assert file.read()[1] == SpillsRestored({M: ((630.0, 0.5), (600.0, 0.25))})


def test_a_file_from_before_there_was_spilling_is_read(tmp_path):
    (tmp_path / "spending.json").write_bytes(b'{"at": 5.0, "minutes": [], "starts": []}')
    file = SpendingFile(tmp_path, lambda: 10.0)
    assert file.read() == (SpendingRestored((), ()), None)
