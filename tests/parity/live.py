"""The live owners on a virtual event loop: what ``tidegate serve`` runs, with nothing but the sockets left out.

Both brains are owned by ``runtime``'s owners, engines are the emulator's own ``Service`` with its pacing task, and
time is the loop's. A fleet in this process starts and ends them; a carrier in this process hands requests over.
"""

import asyncio
import itertools

from looptime import LoopTimeEventLoop

from sim.worlds import Notes
from tidegate.core.dispatch import Dispatcher
from tidegate.core.events import (
    Failure,
    FirstByte,
    FleetConfigured,
    ModelsConfigured,
    ReplicaAdopted,
    ReplicaSeen,
    ReportDue,
    RequestArrived,
    Tick,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.fleet import FleetController
from tidegate.core.fleet.replicas import slug
from tidegate.core.lifecycle import Seen
from tidegate.core.types import Address, RequestId
from tidegate.emulator.asking import Wanted
from tidegate.emulator.meters import Meters
from tidegate.emulator.service import Service
from tidegate.engine.batch import Engine
from tidegate.runtime.controlling import ControlOwner
from tidegate.runtime.dispatching import DispatchOwner
from tidegate.sim.kernel import SeededDice

SOMEWHERE = Address("here", 1)
TICK_S = 1.0
"""As in ``tidegate serve``."""
CYCLES_BEFORE_TIME_PASSES = 2
"""Of the loop without anything to do."""


class VirtualLoop(LoopTimeEventLoop, asyncio.SelectorEventLoop):
    """An event loop whose time is virtual."""


class LiveFleet:
    """A backend whose replicas are emulated engines in this very loop. Their starts last as the seed says."""

    def __init__(self, world, seed):
        self._world = world
        self._dice = SeededDice(seed)
        self._starting = {}
        self.engines = {}

    def adopt(self, model, count):
        for number in range(1, count + 1):
            replica_id = f"{slug(model)}-{number}"
            self._open(replica_id, model)
            self._world.control.seen(ReplicaAdopted(replica_id, model, SOMEWHERE))

    def note_routes(self, table):
        """Nobody takes over from here."""

    def launch(self, order):
        self._starting[order.replica_id] = self._world.spawn(self._start(order))

    def stop(self, order):
        self._world.spawn(self._end(order.replica_id))

    async def _start(self, order):
        seen = self._world.control.seen
        for stage in self._world.setup(order.model).cold_start.stages():
            seen(ReplicaSeen(order.replica_id, stage.kind.seen))
            await asyncio.sleep(stage.draw_s(self._dice))
        del self._starting[order.replica_id]
        self._open(order.replica_id, order.model)
        seen(ReplicaSeen(order.replica_id, Seen.READY, SOMEWHERE))

    async def _end(self, replica_id):
        start, engine = self._starting.pop(replica_id, None), self.engines.pop(replica_id, None)
        if start is not None:
            start.cancel()
        elif engine is None:
            return
        else:
            await engine.close()
        self._world.control.seen(ReplicaSeen(replica_id, Seen.EXITED, None, "stopped"))

    def _open(self, replica_id, model):
        setup = self._world.setup(model)
        meters = Meters(model, 1.0, setup.limits)
        # Tokens are handed out later when that takes long; on this clock it takes no time, however busy the machine is.
        self.engines[replica_id] = Service(
            Engine(setup.limits, setup.law), meters, 1.0, max_queued=None, cpu_s=lambda: 0.0
        )


class LiveCarrier:
    """Hands requests to engines and reports what comes back."""

    def __init__(self, world):
        self._world = world

    def send(self, order, route):
        self._world.spawn(self._relay(order.request_id, self._world.fleet.engines.get(order.replica_id)))

    def reject(self, order):
        pass

    def cancel(self, order):
        raise NotImplementedError

    def spill(self, order):
        raise NotImplementedError

    async def _relay(self, request_id, engine):
        handle = self._world.dispatch.handle
        if engine is None:
            handle(UpstreamFailed(request_id, Failure.REFUSED))
            return
        generation = engine.submit(self._world.wanted(int(request_id)))
        await generation.more_than(0)
        handle(FirstByte(request_id))
        await generation.ended()
        sequence = generation.sequence
        handle(UpstreamEnded(request_id, 200, sequence.prompt_tokens, 0, sequence.output_tokens))


class LiveWorld:
    """Everything in one process and one loop."""

    def __init__(self, trace, scenario, seed):
        self.journal = Notes()
        self._trace = trace
        self._scenario = scenario
        self._loop = asyncio.get_running_loop()
        self._tasks = set()
        self.fleet = LiveFleet(self, seed)
        self.dispatch = DispatchOwner(
            Dispatcher(),
            self,
            self.journal,
            on_report=lambda report: self.control.demand(report),
            on_record=lambda record: None,
        )
        self.dispatch.attach(LiveCarrier(self))
        self.control = ControlOwner(
            FleetController(),
            self,
            self.journal,
            fleets=dict.fromkeys(scenario.models, self.fleet),
            publish=lambda table: self.dispatch.publish(table),
        )

    def now_s(self):
        return self._loop.time()

    def setup(self, model):
        return self._scenario.models[model]

    def wanted(self, row):
        """The request of this row, with a prompt that is like no other's."""
        tokens, output = self._trace.prompt_tokens[row], self._trace.output_tokens[row]
        prompt = f"{row:08}".encode().ljust(4 * tokens, b".")[: 4 * tokens]
        return Wanted("m", prompt, output, True, False, True, 0)

    def spawn(self, work):
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task):
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()

    async def run(self, until_s):
        """Start as ``tidegate serve`` does, play the trace, go on until ``until_s``."""
        setups = self._scenario.models
        self.dispatch.handle(ModelsConfigured({model: setup.dispatch for model, setup in setups.items()}))
        for model, setup in setups.items():
            self.fleet.adopt(
                model, setup.fleet.scaling.min_replicas if setup.running is None else setup.running
            )
        self.control.handle(
            FleetConfigured({model: setup.fleet for model, setup in setups.items()}, self._scenario.fleet)
        )
        self.dispatch.handle(ReportDue())
        ticking = self.spawn(self._tick())
        for row, at_s in enumerate(self._trace.arrived_s):
            await self._sleep_until(at_s)
            self._arrive(row)
        await self._sleep_until(until_s)
        assert not self.dispatch.open_requests
        ticking.cancel()
        self.control.cease()
        self.dispatch.cease()
        for engine in self.fleet.engines.values():
            await engine.close()

    def _arrive(self, row):
        (model,) = self._scenario.models
        deadline_s = self._trace.arrived_s[row] + self._scenario.request_timeout_s
        tokens = self._trace.prompt_tokens[row]
        self.dispatch.handle(RequestArrived(RequestId(str(row)), model, tokens, None, 0, deadline_s))

    async def _tick(self):
        for number in itertools.count(1):
            await self._sleep_until(number * TICK_S)
            self.dispatch.handle(Tick())
            self.dispatch.handle(ReportDue())
            self.control.handle(Tick())

    async def _sleep_until(self, at_s):
        await asyncio.sleep(at_s - self._loop.time())


def live(trace, scenario, seed, until_s):
    """All turns of both brains."""

    async def play():
        world = LiveWorld(trace, scenario, seed)
        await world.run(until_s)
        return world.journal.turns

    def loop():
        return VirtualLoop(start=0.0, resolution=1e-9, noop_cycles=CYCLES_BEFORE_TIME_PASSES)

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(play())
