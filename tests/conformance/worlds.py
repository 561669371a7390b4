"""Worlds in which every backend must keep the same promises, and words to tell it in."""

import asyncio
import hashlib
import os
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

from engines import fake_engine
from engines.tiny import tiny_spec
from engines.waiting import wait_until
from tidegate.adapters.base import EngineSpec
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.local import processes
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.model import LocalModel
from tidegate.backends.static import StaticFleet, StaticModel
from tidegate.core.effects import Launch, PublishRoutes, Stop, WakeAt
from tidegate.core.events import AdapterSeen, EngineReported, FleetConfigured, ReplicaSeen, Tick
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen, State
from tidegate.core.nodes import LOCAL, Place
from tidegate.core.settings import FleetLimits
from tidegate.core.types import Address

SILENT_AFTER_S = 2.0


class Observer:
    """A controller that only takes notes."""

    def __init__(self):
        self.events = []

    def __call__(self, event):
        self.events.append(event)

    def seen(self, replica_id, what):
        """The event, or None if it has not been reported."""
        return next(
            (
                event
                for event in self.events
                if isinstance(event, ReplicaSeen) and event.replica_id == replica_id and event.seen is what
            ),
            None,
        )

    def history(self, replica_id):
        """What was seen of a replica, in order."""
        return [
            event.seen
            for event in self.events
            if isinstance(event, ReplicaSeen) and event.replica_id == replica_id
        ]

    def reports(self, replica_id):
        return [
            event
            for event in self.events
            if isinstance(event, EngineReported) and event.replica_id == replica_id
        ]

    async def adapter(self, replica_id, adapter, within_s=15.0):
        """Once an order about an adapter has come to its end: why it failed, or nothing. Each end is told once."""

        def told():
            return next(
                (
                    event
                    for event in self.events
                    if isinstance(event, AdapterSeen)
                    and (event.replica_id, event.adapter) == (replica_id, adapter)
                ),
                None,
            )

        event = await wait_until(told, within_s, lambda: self.events)
        self.events.remove(event)
        return event.failed

    async def until(self, replica_id, what, within_s=15.0):
        return await wait_until(lambda: self.seen(replica_id, what), within_s, lambda: self.events)


class Hand:
    """The real controller with a backend to carry out its orders, and no gateway."""

    def __init__(self, fleet, model):
        self.fleet = fleet
        self.brain = FleetController()
        self.model = model
        self.table = None

    def begin(self):
        self.on(FleetConfigured({"m": self.model}, FleetLimits()))

    def see(self, event):
        self.on(event)

    def on(self, event):
        for effect in self.brain.on(event, time.monotonic()):
            match effect:
                case Launch():
                    self.fleet.launch(effect)
                case Stop():
                    self.fleet.stop(effect)
                case PublishRoutes():
                    self.table = effect.table
                case WakeAt():
                    asyncio.get_running_loop().call_later(effect.at_s - time.monotonic(), self.on, Tick())

    def serving(self):
        return [route for route in self.table.routes if route.state is State.SERVING]

    def ids(self):
        return [route.replica_id for route in self.table.routes]


def fake_spec(*options):
    command = (sys.executable, fake_engine.__file__, "--port", "{port}", *map(str, options))
    return EngineSpec(model_name="fake", weights="none", slots=4, command=command)


def fake_model(*options, model="m", adapter="vllm", **settings):
    return LocalModel(model, ADAPTERS[adapter], fake_spec(*options), **({"stop_grace_s": 2.0} | settings))


def launch(fleet, replica_id, model="m", gpus=()):
    place = Place(LOCAL, gpus) if gpus else None
    fleet.launch(Launch(replica_id, model, "a test asks", place=place))


def stop(fleet, replica_id):
    fleet.stop(Stop(replica_id, "a test asks"))


class LocalWorld:
    """Replicas that the backend starts itself."""

    def __init__(self, tmp_path, model, broken):
        self.state_dir = tmp_path / "state"
        self.models = [model, broken]

    crash_is = Seen.EXITED

    def fleet(self):
        models = [replace(model, silent_after_s=SILENT_AFTER_S) for model in self.models]
        return LocalFleet(models, state_dir=self.state_dir, scrape_every_s=0.2)

    async def crash(self, address):
        self.signal(address, signal.SIGKILL)

    def signal(self, address, number):
        os.kill(next(pids_listening(address.port)), number)

    async def close(self):
        fleet_id = fleet_id_of(self.state_dir)
        assert processes.marked(fleet_id) == {}


class StaticWorld:
    """Engines that the test runs, and the backend only looks at."""

    def __init__(self, model):
        self.ports = free_ports(3)
        self.model = model
        self.engines = {}

    async def start(self):
        adapter = ADAPTERS["llamacpp"]
        for port in self.ports[:2]:
            argv = adapter.command(tiny_spec(self.model), Address("127.0.0.1", port), ())
            self.engines[port] = await asyncio.create_subprocess_exec(
                *argv, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
            )

    crash_is = Seen.UNRESPONSIVE
    """Somebody else's process cannot be seen to exit."""

    def fleet(self):
        adapter, spec = ADAPTERS["llamacpp"], tiny_spec(self.model)
        serving = tuple(Address("127.0.0.1", port) for port in self.ports[:2])
        nobody = (Address("127.0.0.1", self.ports[2]),)
        models = [
            StaticModel("m", adapter, serving, spec, silent_after_s=SILENT_AFTER_S),
            StaticModel("broken", adapter, nobody, spec, start_deadline_s=0.5),
        ]
        return StaticFleet(models, check_every_s=0.2)

    async def crash(self, address):
        self.signal(address, signal.SIGKILL)

    def signal(self, address, number):
        self.engines[address.port].send_signal(number)

    async def close(self):
        for engine in self.engines.values():
            if engine.returncode is None:
                engine.kill()
            await engine.wait()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def pids_listening(port):
    """The processes whose command line names this port."""
    for process in processes.living():
        try:
            words = Path(f"/proc/{process.identity.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(port).encode() in words:
            yield process.identity.pid


def fleet_id_of(state_dir):
    """The mark that processes of the fleet in this folder carry."""
    return hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:16]
