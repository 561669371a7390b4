"""One run of the fluid world: the ``FleetController`` around queues and engines that flow.

Theory of operation. In each slot: starts that are over are reported ready; pages of metrics that are due arrive; the
gateway reports, and the controller decides and is obeyed; then the slot's arrivals flow in and answers flow out. A
moment that the controller asks to be woken at falls on the next slot, where its report takes a turn in any case.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.effects import (
    Decision,
    Demote,
    Launch,
    Pooled,
    Prefetch,
    Promote,
    PublishRoutes,
    Shadowed,
    Sleep,
    Stop,
    Wake,
    WakeAt,
)
from tidegate.core.events import DemandReported, FleetConfigured
from tidegate.core.fleet import FleetController
from tidegate.core.types import ModelId
from tidegate.sim.fluid.amounts import Flowed, Parcel
from tidegate.sim.fluid.fleet import FluidFleet
from tidegate.sim.fluid.floor import Floor
from tidegate.sim.fluid.load import Load
from tidegate.sim.fluid.reporting import Reporter
from tidegate.sim.kernel import SeededDice
from tidegate.sim.provision import Phase, Provision
from tidegate.sim.scenario import Scenario
from tidegate.sim.turns import TICK, Journal

LONGEST_SLOT_S = 8.0
"""The controller takes a gateway for silent after 10 s without a report."""

TICK_EVERY_S = 30.0
DRAINED_WITHIN_S = 1_800.0
"""After the last arrival, the longest wait for what is still open."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The course of a run, a place for each slot; all models together."""

    at_s: array[float] = field(default_factory=lambda: array("d"))
    requests: array[float] = field(default_factory=lambda: array("d"))
    kept: array[float] = field(default_factory=lambda: array("d"))
    ended: array[float] = field(default_factory=lambda: array("d"))
    waiting: array[float] = field(default_factory=lambda: array("d"))
    running: array[float] = field(default_factory=lambda: array("d"))
    serving: array[int] = field(default_factory=lambda: array("i"))
    provisioned: array[int] = field(default_factory=lambda: array("i"))


@dataclass(frozen=True, slots=True)
class FluidRun:
    """What a run leaves behind."""

    scenario: Scenario
    seed: int
    flowed: Mapping[ModelId, Flowed]
    provision: Provision
    decisions: tuple[tuple[float, Decision], ...]
    launches: int
    cold_starts_s: tuple[float, ...]
    simulated_s: float
    turns: int
    steps: Steps


def flow(
    loads: Mapping[ModelId, Load],
    scenario: Scenario,
    seed: int = 1,
    journal: Journal | None = None,
    progress: Callable[[float], None] | None = None,
) -> FluidRun:
    """Run all loads to their end. ``progress`` is told the share that is over, now and then.

    Raises:
        ValueError: a load's model is not in the scenario, or slots differ or are too long.
    """
    slots_s = {load.slot_s for load in loads.values()}
    if set(loads) != set(scenario.models):
        raise ValueError("the loads are not those of the scenario's models")
    if len(slots_s) != 1 or not 0 < max(slots_s) <= LONGEST_SLOT_S:
        message = f"all slots must have one length of at most {LONGEST_SLOT_S:g} s; these have {slots_s}"
        raise ValueError(message)
    return _FluidWorld(loads, scenario, seed, journal, progress).run()


def _nothing(order: object) -> None:
    """The next table says it, the next slot comes anyway, or it is only told."""


class _FluidWorld:
    """Everything around the controller. Owns the clock."""

    def __init__(
        self,
        loads: Mapping[ModelId, Load],
        scenario: Scenario,
        seed: int,
        journal: Journal | None,
        progress: Callable[[float], None] | None,
    ) -> None:
        self._loads = loads
        self._scenario = scenario
        self._seed = seed
        self._journal = journal
        self._progress = progress
        self._slot_s = next(iter(loads.values())).slot_s
        self._slots = max(map(len, loads.values()))
        dice = SeededDice(seed)
        self._floors = {
            model: Floor(setup, scenario.slo, scenario.request_timeout_s, dice)
            for model, setup in scenario.models.items()
        }
        self._controller = FleetController()
        self._fleet = FluidFleet(scenario, self._floors, dice, self._handle)
        self._reporter = Reporter(scenario, self._floors, self._fleet, dice)
        self._now_s = 0.0
        self._turns = 0
        self._later: deque[object] = deque()
        self._in_turn = False
        self._route_version = 0
        self._decisions: list[tuple[float, Decision]] = []
        self._steps = Steps()
        self._carry: dict[type, Callable[[Any], None]] = {
            Launch: self._fleet.launch,
            Stop: self._fleet.stop,
            Sleep: self._fleet.sleep,
            Wake: self._fleet.wake,
            Promote: _nothing,
            Demote: _nothing,
            Prefetch: _nothing,
            Pooled: _nothing,
            Shadowed: _nothing,
            PublishRoutes: self._publish,
            Decision: lambda decision: self._decisions.append((self._now_s, decision)),
            WakeAt: _nothing,
        }

    def run(self) -> FluidRun:
        """From the first slot until nothing is open."""
        self._begin()
        slot = 0
        last = self._slots + int(DRAINED_WITHIN_S / self._slot_s)
        while slot < self._slots or (slot < last and not self._is_empty):
            self._slot(slot)
            slot += 1
        end_s = slot * self._slot_s
        self._fleet.provision.close(end_s)
        return FluidRun(
            scenario=self._scenario,
            seed=self._seed,
            flowed={model: floor.flowed for model, floor in self._floors.items()},
            provision=self._fleet.provision,
            decisions=tuple(self._decisions),
            launches=self._fleet.launches,
            cold_starts_s=tuple(self._fleet.cold_starts_s),
            simulated_s=end_s,
            turns=self._turns,
            steps=self._steps,
        )

    @property
    def _is_empty(self) -> bool:
        return all(floor.is_empty for floor in self._floors.values())

    def _begin(self) -> None:
        """What runs already first, then the policy, as ``simulate`` does."""
        setups = self._scenario.models
        for model in setups:
            self._fleet.adopt(model)
        specs = {model: setup.fleet for model, setup in setups.items()}
        self._handle(FleetConfigured(specs, self._scenario.fleet, self._scenario.nodes))

    def _slot(self, slot: int) -> None:
        now_s = self._now_s = slot * self._slot_s
        self._fleet.begin_slot(now_s)
        for page in self._reporter.pages(now_s):
            self._handle(page)
        self._handle(DemandReported(self._reporter.report(now_s, self._route_version)))
        if slot % max(1, round(TICK_EVERY_S / self._slot_s)) == 0:
            self._handle(TICK)
        for model, floor in self._floors.items():
            self._flow(model, floor, slot)
        self._fleet.end_slot(self._slot_s)
        self._note(now_s)
        if self._progress is not None and slot % 256 == 0:
            self._progress(slot / self._slots)

    def _flow(self, model: ModelId, floor: Floor, slot: int) -> None:
        load = self._loads[model]
        parcel = None
        if slot < len(load) and load.requests[slot] > 0:
            parcel = Parcel(
                self._now_s + 0.5 * self._slot_s,
                load.requests[slot],
                load.prompt_tokens[slot],
                load.output_tokens[slot],
            )
        floor.step(self._now_s, self._slot_s, parcel, self._fleet.hands(model))

    def _note(self, now_s: float) -> None:
        steps, floors = self._steps, self._floors.values()
        steps.at_s.append(now_s)
        steps.requests.append(sum([floor.flowed.requests for floor in floors]))
        steps.kept.append(sum([floor.flowed.kept for floor in floors]))
        steps.ended.append(sum([floor.flowed.over for floor in floors]))
        steps.waiting.append(sum([floor.line.requests for floor in floors]))
        steps.running.append(sum([floor.running for floor in floors]))
        steps.serving.append(self._fleet.provision.count(Phase.SERVING))
        steps.provisioned.append(len(self._fleet.provision))

    # ---- turns of the controller ----

    def _handle(self, event: object) -> None:
        """One turn, and those that follow from it."""
        self._later.append(event)
        if self._in_turn:
            return
        self._in_turn = True
        while self._later:
            event = self._later.popleft()
            self._turns += 1
            effects = self._controller.on(event, self._now_s)  # type: ignore[arg-type]
            if self._journal is not None:
                self._journal.turn("fleet", self._now_s, event, effects)
            for effect in effects:
                self._carry[type(effect)](effect)
        self._in_turn = False

    def _publish(self, effect: PublishRoutes) -> None:
        self._route_version = effect.table.version
        self._fleet.publish(effect.table)
