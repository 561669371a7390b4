"""What a full disk or a tidy hand does to the folder of a running fleet."""

import shutil

import pytest

from conformance.worlds import LocalWorld, fake_model, fleet_id_of, launch, stop
from engines.waiting import wait_until
from tidegate.backends.local import processes
from tidegate.backends.local.state import StateFolder
from tidegate.core.lifecycle import Seen


@pytest.fixture
async def local(tmp_path, observer):
    world = LocalWorld(tmp_path, fake_model(), fake_model(model="broken"))
    fleet = world.fleet()
    await fleet.open(observer)
    yield world, fleet
    await fleet.close()
    await world.close()


async def test_a_disk_that_fills_up_as_an_engine_starts_leaves_no_engine_behind(local, observer, monkeypatch):
    _, fleet = local
    write, written = StateFolder.write, []

    def second_time_full(self, record):
        written.append(record)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        write(self, record)

    monkeypatch.setattr(StateFolder, "write", second_time_full)
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)  # it serves: its mark is enough to find it by

    stop(fleet, "r1")
    await observer.until("r1", Seen.EXITED)
    await wait_until(lambda: not processes.marked(fleet_id_of(fleet._state_dir)), within_s=10.0)


async def test_a_folder_that_was_cleaned_up_is_made_again(local, observer):
    _, fleet = local
    shutil.rmtree(fleet._state_dir / "replicas")
    shutil.rmtree(fleet._state_dir / "logs")

    launch(fleet, "r1")

    await observer.until("r1", Seen.READY)
