"""``kill -9`` of the controller at any moment leaves no orphan and makes no double."""

import asyncio
import os
import random
import sys
import time
from pathlib import Path

import pytest

from conformance import run_fleet
from conformance.worlds import Observer, fleet_id_of, launch, pids_listening
from engines.tiny import tiny_spec
from engines.waiting import wait_until
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.base import FleetInUse
from tidegate.backends.local import processes
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.model import LocalModel
from tidegate.core.events import ReplicaAdopted
from tidegate.core.lifecycle import Seen

REPLICAS = 3


class Controller:
    """The backend in a process of its own."""

    def __init__(self, state_dir, model):
        self.state_dir = state_dir
        self.arguments = [run_fleet.__file__, str(state_dir), str(model), str(REPLICAS)]
        self.lines = []

    async def start(self):
        path = os.pathsep.join(str(folder) for folder in sys.path if folder)
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self.arguments,
            env=os.environ | {"PYTHONPATH": path},
            stdout=asyncio.subprocess.PIPE,
        )
        self.reading = asyncio.create_task(self.read())
        await wait_until(lambda: "open" in self.lines, within_s=20.0, describe=lambda: self.lines)

    async def read(self):
        async for line in self.process.stdout:
            self.lines.append(line.decode().strip())

    async def kill(self):
        self.process.kill()
        await self.process.wait()
        await self.reading


@pytest.fixture
def state_dir(tmp_path):
    return tmp_path / "state"


@pytest.fixture
async def controller(state_dir, tiny_model):
    controller = Controller(state_dir, tiny_model)
    await controller.start()
    yield controller
    if controller.process.returncode is None:
        await controller.kill()
    for left in processes.marked(fleet_id_of(state_dir)).values():
        processes.send(left, 9)


def successor(state_dir, tiny_model, **changes):
    spec = tiny_spec(tiny_model, **changes)
    return LocalFleet([LocalModel("m", ADAPTERS["llamacpp"], spec)], state_dir=state_dir)


async def opened(fleet):
    """What it adopted, and how long that took."""
    observer = Observer()
    began_s = time.monotonic()
    await fleet.open(observer)
    adopted = {event.replica_id for event in observer.events if isinstance(event, ReplicaAdopted)}
    return observer, adopted, time.monotonic() - began_s


def alive(state_dir):
    """Replica to number of processes, of everything that carries this fleet's mark."""
    return {replica: len(found) for replica, found in processes.marked(fleet_id_of(state_dir)).items()}


async def test_what_serves_is_adopted_and_can_be_stopped(controller, state_dir, tiny_model):
    await wait_until(
        lambda: sum("Seen.READY" in line for line in controller.lines) == REPLICAS, within_s=20.0
    )
    await controller.kill()

    fleet = successor(state_dir, tiny_model)
    observer, adopted, took_s = await opened(fleet)

    assert adopted == {"r0", "r1", "r2"}
    assert alive(state_dir) == {"r0": 1, "r1": 1, "r2": 1}
    assert took_s < 3.0
    launch(fleet, "r1")
    launch(fleet, "r9")
    ready = await observer.until("r9", Seen.READY)
    ports = {event.address.port for event in observer.events if isinstance(event, ReplicaAdopted)}
    assert ready.address.port not in ports
    await fleet.close()
    assert alive(state_dir) == {}
    assert observer.history("r1") == [Seen.EXITED]


async def test_an_adopted_replica_that_crashes_is_seen(controller, state_dir, tiny_model):
    await wait_until(
        lambda: sum("Seen.READY" in line for line in controller.lines) == REPLICAS, within_s=20.0
    )
    await controller.kill()
    fleet = successor(state_dir, tiny_model)
    observer, _, _ = await opened(fleet)
    address = next(event.address for event in observer.events if event.replica_id == "r1")

    os.kill(next(pids_listening(address.port)), 9)

    await observer.until("r1", Seen.EXITED, within_s=1.0)
    await fleet.close()


async def test_what_was_started_otherwise_is_ended(controller, state_dir, tiny_model):
    await wait_until(
        lambda: sum("Seen.READY" in line for line in controller.lines) == REPLICAS, within_s=20.0
    )
    await controller.kill()

    fleet = successor(state_dir, tiny_model, slots=2)
    _, adopted, took_s = await opened(fleet)

    assert adopted == set()
    assert alive(state_dir) == {}
    assert took_s < 3.0
    await fleet.close()


async def test_what_has_lost_its_record_is_found_by_its_mark(controller, state_dir, tiny_model):
    await wait_until(
        lambda: sum("Seen.READY" in line for line in controller.lines) == REPLICAS, within_s=20.0
    )
    await controller.kill()
    for path in (state_dir / "replicas").glob("*.json"):
        path.unlink()

    fleet = successor(state_dir, tiny_model)
    _, adopted, _ = await opened(fleet)

    assert adopted == set()
    assert alive(state_dir) == {}
    await fleet.close()


async def test_what_is_hung_is_ended_within_three_seconds(controller, state_dir, tiny_model):
    await wait_until(
        lambda: sum("Seen.READY" in line for line in controller.lines) == REPLICAS, within_s=20.0
    )
    await controller.kill()
    for found in processes.marked(fleet_id_of(state_dir)).values():
        os.kill(found[0].identity.pid, 19)

    fleet = successor(state_dir, tiny_model)
    _, adopted, took_s = await opened(fleet)

    assert adopted == set()
    assert alive(state_dir) == {}
    assert took_s < 3.0
    await fleet.close()


async def test_a_second_controller_is_turned_away(controller, state_dir, tiny_model):
    fleet = successor(state_dir, tiny_model)

    with pytest.raises(FleetInUse, match="another Tidegate"):
        await fleet.open(Observer())

    await controller.kill()
    await fleet.open(Observer())
    await fleet.close()


async def test_replicas_left_on_purpose_are_adopted(state_dir, tiny_model):
    first = successor(state_dir, tiny_model)
    observer, _, _ = await opened(first)
    launch(first, "r1")
    await observer.until("r1", Seen.READY)
    await first.close(leave_running=True)

    second = successor(state_dir, tiny_model)
    _, adopted, _ = await opened(second)

    assert adopted == {"r1"}
    assert observer.seen("r1", Seen.EXITED) is None
    await second.close()
    assert alive(state_dir) == {}


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
async def test_killed_at_any_moment(times, state_dir, tiny_model):
    for turn in range(times):
        controller = Controller(state_dir, tiny_model)
        await controller.start()
        # Engines are ready after 0.2 s: some kills fall between starts, some while loading, some later.
        await asyncio.sleep(random.uniform(0.0, 0.3))
        await controller.kill()

        fleet = successor(state_dir, tiny_model)
        _, adopted, took_s = await opened(fleet)

        assert alive(state_dir) == dict.fromkeys(adopted, 1), f"turn {turn}"
        assert took_s < 3.0
        records = {path.stem for path in Path(state_dir / "replicas").iterdir()}
        assert records == adopted
        await fleet.close()
        assert alive(state_dir) == {}
