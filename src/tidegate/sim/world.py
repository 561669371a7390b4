"""One run: gateway, engines, backend and metrics around the two brains, in virtual time.

Theory of operation. The trace's rows arrive one after the other at the gateway. Once a second, while
anything is going on, it reports, and the ``FleetController`` decides; its orders go to the simulated
backend. While nothing is queued or in flight the reports come as rarely as the controller bears, so an hour
of silence costs little. Both brains get their ticks when they asked for one.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.effects import (
    Decision,
    Demote,
    Launch,
    Pooled,
    Promote,
    PublishRoutes,
    Shadowed,
    Sleep,
    Stop,
    Wake,
)
from tidegate.core.events import DemandReported, FleetConfigured, ModelsConfigured, RouteTableChanged
from tidegate.core.fleet import FleetController
from tidegate.core.types import DemandReport
from tidegate.sim.engines import Outlet
from tidegate.sim.faults import FaultKind
from tidegate.sim.fleet import SimFleet
from tidegate.sim.gateway import REPORT_DUE, SimGateway
from tidegate.sim.kernel import Kernel, SeededDice
from tidegate.sim.provision import Phase
from tidegate.sim.run import Run
from tidegate.sim.scenario import Scenario
from tidegate.sim.scraping import Scraper
from tidegate.sim.series import Series
from tidegate.sim.troubles import Troubles
from tidegate.sim.turns import TICK, Journal, Turns
from tidegate.workload.traces import Trace

QUIET_REPORT_S = 8.0
"""Between two reports of an idle gateway: just within what the controller takes for heard."""
CONTROLLER_TICK_S = 30.0
"""Only to let it forget what is long gone; when it wants to be woken it says so."""
PROGRESS_REPORTS = 64
"""Progress is told after so many reports."""


def simulate(
    trace: Trace,
    scenario: Scenario,
    seed: int = 1,
    journal: Journal | None = None,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Run the whole trace. ``progress`` is told the share of its rows that have arrived, now and then.

    Raises:
        ValueError: a row has no lengths, or its model is not in the scenario.
    """
    if not trace.is_complete:
        raise ValueError("the trace has rows without lengths; give them some before they are simulated")
    return World(trace, scenario, seed, journal, progress).run()


def _routed(order: object) -> None:
    """The next table says it all, or it is only told."""


class World:
    """Everything around the brains. Owns the clock."""

    def __init__(
        self,
        trace: Trace,
        scenario: Scenario,
        seed: int,
        journal: Journal | None,
        progress: Callable[[float], None] | None,
    ) -> None:
        self._trace = trace
        self._scenario = scenario
        self._seed = seed
        self._progress = progress
        self._series = Series()
        self._decisions: list[tuple[float, Decision]] = []
        self._is_quiet = False
        self._version = 0
        """Of the table published last."""
        self._reports = 0
        """Moments at which a report was due so far."""
        self._idle_at: int | None = None
        """Rows that had come at the last of them if nothing was open then."""
        self._last_end_s: float | None = None
        self._deaf = tuple(fault for fault in scenario.faults if fault.kind is FaultKind.NO_REPORTS)
        kernel = self._kernel = Kernel()
        dice = SeededDice(seed)
        self._gateway = SimGateway(trace, scenario, kernel, dice, journal, self._report)
        self._controller = FleetController()
        self._control = Turns(
            "fleet",
            self._controller,
            kernel,
            journal,
            {
                Launch: lambda order: self._fleet.launch(order),
                Stop: lambda order: self._fleet.stop(order),
                Sleep: lambda order: self._fleet.sleep(order),
                Wake: lambda order: self._fleet.wake(order),
                Promote: _routed,
                Demote: _routed,
                Pooled: _routed,
                Shadowed: _routed,
                PublishRoutes: self._publish,
                Decision: lambda decision: self._decisions.append((kernel.now_s, decision)),
            },
        )
        outlet = Outlet(self._gateway.first_byte, self._gateway.ended, self._gateway.cut)
        self._fleet = SimFleet(scenario, kernel, dice, self._control.handle, outlet)
        self._gateway.engines = self._fleet.engines
        self._scraper = Scraper(
            scenario, kernel, dice, self._fleet.engines, self._gateway.windows, self._control.handle
        )
        self._second = kernel.alarm(self._each_second)
        Troubles(scenario, kernel, self._fleet, self._gateway.silent, self._control.handle)

    def __repr__(self) -> str:
        return f"<World {self._kernel!r} {self._gateway!r}>"

    def run(self) -> Run:
        """From the first moment of the trace to its last request's end."""
        self._begin()
        self._kernel.run(self._trace.arrived_s, self._arrive)
        now_s = self._kernel.now_s
        self._fleet.provision.close(now_s)
        self._fleet.usage.close(now_s)
        return Run(
            trace=self._trace,
            scenario=self._scenario,
            seed=self._seed,
            tally=self._gateway.tally,
            provision=self._fleet.provision,
            gpu_seconds=self._fleet.usage.gpu_seconds,
            pace=self._fleet.pace,
            series=self._series,
            decisions=tuple(self._decisions),
            shadows=tuple(m.shadow for m in self._controller.state(now_s).models if m.shadow is not None),
            launches=self._fleet.launches,
            cold_starts_s=tuple(self._fleet.cold_starts_s),
            simulated_s=now_s,
            turns=self._gateway.turns.count + self._control.count,
        )

    def _begin(self) -> None:
        """As ``tidegate serve`` does: models first, then what runs already, then the policy."""
        setups = self._scenario.models
        self._gateway.handle(ModelsConfigured({model: setup.dispatch for model, setup in setups.items()}))
        for model in setups:
            self._fleet.adopt(model)
        policies = {model: setup.fleet for model, setup in setups.items()}
        self._control.handle(FleetConfigured(policies, self._scenario.fleet, self._scenario.nodes))
        self._gateway.handle(REPORT_DUE)
        self._report_in(1)
        self._kernel.every(self._scenario.scraping.every_s, self._scraper.scrape)
        self._kernel.every(CONTROLLER_TICK_S, lambda: self._control.handle(TICK))

    def _arrive(self, row: int) -> None:
        self._gateway.arrive(row)
        self._end_quiet()

    # ---- between the brains ----

    def _report(self, report: DemandReport) -> None:
        now_s = self._kernel.now_s
        self._series.note(now_s, report)
        if self._deaf and any(fault.is_on(now_s) for fault in self._deaf):
            return
        self._control.handle(DemandReported(report))

    def _publish(self, effect: PublishRoutes) -> None:
        self._fleet.publish(effect.table)
        self._gateway.handle(RouteTableChanged(effect.table))
        # What a table is the first to say, a report must have read: a drain or a pool waits for that.
        is_new, self._version = effect.table.version != self._version, effect.table.version
        provision = self._fleet.provision
        if provision.count(Phase.DRAINING) or (is_new and provision.count(Phase.WARM)):
            self._end_quiet()

    # ---- the course of time ----

    def _each_second(self) -> None:
        """Report, as the gateway does, and end the run when there is nothing left to wait for."""
        if self._is_over():
            self._kernel.stop()
            return
        self._gateway.each_second()
        # A drain is over only when a report says so, and so is a peak since the report before.
        is_idle = not (self._gateway.open_requests or self._fleet.provision.count(Phase.DRAINING))
        self._is_quiet = is_idle and self._idle_at == self._gateway.arrived
        self._idle_at = self._gateway.arrived if is_idle else None
        self._report_in(int(QUIET_REPORT_S / self._scenario.report_every_s) or 1 if self._is_quiet else 1)
        if self._progress is not None and len(self._series.at_s) % PROGRESS_REPORTS == 0:
            self._progress(self._gateway.arrived / max(1, len(self._trace)))

    def _report_in(self, reports: int) -> None:
        """Pass over all but the last of so many reports."""
        self._reports += reports
        self._second.set(self._reports * self._scenario.report_every_s)

    def _end_quiet(self) -> None:
        """Go on with the next of the reports that a gateway makes, which knows no quiet."""
        if self._is_quiet:
            self._is_quiet = False
            self._reports = int(self._kernel.now_s / self._scenario.report_every_s)
            self._report_in(1)

    def _is_over(self) -> bool:
        """Every request has ended, and the fleet is back at its minimum or has had its time for that."""
        if self._gateway.arrived < len(self._trace) or self._gateway.open_requests:
            return False
        now_s = self._kernel.now_s
        if self._last_end_s is None:
            self._last_end_s = now_s
        least = sum(setup.fleet.scaling.min_replicas for setup in self._scenario.models.values())
        is_settled = len(self._fleet.provision) <= least
        return is_settled or now_s >= self._last_end_s + self._scenario.settle_s
