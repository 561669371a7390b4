"""One run: clients, gateway, engines and backend around the two brains, in virtual time.

Theory of operation. The trace's rows arrive one after the other; each becomes a ``RequestArrived``. What the
``Dispatcher`` orders is done at once: a request is put into an engine, or ended. An engine is looked at when
it has something to show, and that becomes ``FirstByte`` and ``UpstreamEnded``. Once a second, while anything
is going on, the gateway reports and the ``FleetController`` decides; its orders go to the simulated backend.
While nothing is queued or in flight the reports come as rarely as the controller bears, so an hour of
silence costs little. Both brains get their ticks when they asked for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import cast

from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import (
    CancelUpstream,
    Decision,
    Launch,
    PublishRoutes,
    Record,
    Reject,
    Report,
    Send,
    Stop,
)
from tidegate.core.events import (
    ClientGone,
    DemandReported,
    Failure,
    FirstByte,
    FleetConfigured,
    ModelsConfigured,
    ReportDue,
    RequestArrived,
    RouteTableChanged,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.fleet import FleetController
from tidegate.core.types import DEFAULT_FLOW, ModelId, RequestId
from tidegate.engine.sequence import Sequence
from tidegate.sim.engines import Outlet, SimEngine
from tidegate.sim.faults import FaultKind
from tidegate.sim.fleet import SimFleet
from tidegate.sim.kernel import Kernel, SeededDice
from tidegate.sim.pace import Pace
from tidegate.sim.provision import Phase, Provision
from tidegate.sim.scenario import Scenario
from tidegate.sim.scraping import Scraper
from tidegate.sim.series import Series
from tidegate.sim.tally import Tally
from tidegate.sim.troubles import Troubles
from tidegate.sim.turns import TICK, Journal, Turns
from tidegate.workload.traces import Trace

QUIET_REPORT_S = 8.0
"""Between two reports of an idle gateway: just within what the controller takes for heard."""
CONTROLLER_TICK_S = 30.0
"""Only to let it forget what is long gone; when it wants to be woken it says so."""

REPORT_DUE = ReportDue()


@dataclass(frozen=True, slots=True)
class Run:
    """What a run left behind; ``tidegate.sim.summary`` makes figures of it."""

    trace: Trace
    scenario: Scenario
    seed: int
    tally: Tally
    provision: Provision
    pace: Pace
    series: Series
    decisions: tuple[tuple[float, Decision], ...]
    """Every decision and when it was made."""
    launches: int
    cold_starts_s: tuple[float, ...]
    simulated_s: float
    turns: int


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
        self._models = _models_of(trace, scenario)
        self._only_model = self._models[0] if len(scenario.models) == 1 else None
        self._kernel = Kernel()
        self._dice = SeededDice(seed)
        self._tally = Tally(len(trace))
        self._series = Series()
        self._decisions: list[tuple[float, Decision]] = []
        self._arrived = 0
        self._is_quiet = False
        self._last_end_s: float | None = None
        self._patience = tuple(fault for fault in scenario.faults if fault.kind is FaultKind.LEAVE)
        self._deaf = tuple(fault for fault in scenario.faults if fault.kind is FaultKind.NO_REPORTS)

        self._dispatcher = Dispatcher()
        self._dispatch = Turns(
            "dispatch",
            self._dispatcher,
            self._kernel,
            journal,
            {
                Send: self._send,
                Reject: _nothing,
                CancelUpstream: self._cancel,
                Report: self._report,
                Record: self._tally.record,
            },
        )
        self._control = Turns(
            "fleet",
            FleetController(),
            self._kernel,
            journal,
            {
                Launch: lambda order: self._fleet.launch(order),
                Stop: lambda order: self._fleet.stop(order),
                PublishRoutes: self._publish,
                Decision: self._decided,
            },
        )
        outlet = Outlet(self._first_byte, self._ended, self._cut)
        self._fleet = SimFleet(scenario, self._kernel, self._dice, self._control.handle, outlet)
        self._scraper = Scraper(scenario, self._kernel, self._dice, self._fleet.engines, self._control.handle)
        self._engines = self._fleet.engines
        self._windows = self._scraper.windows
        self._second = self._kernel.alarm(self._each_second)
        Troubles(scenario.faults, self._kernel, self._fleet, self._silent)

    def __repr__(self) -> str:
        return f"<World {self._kernel!r} arrived={self._arrived} {self._tally!r}>"

    def run(self) -> Run:
        """From the first moment of the trace to its last request's end."""
        self._begin()
        self._kernel.run(self._trace.arrived_s, self._arrive)
        now_s = self._kernel.now_s
        self._fleet.provision.close(now_s)
        return Run(
            trace=self._trace,
            scenario=self._scenario,
            seed=self._seed,
            tally=self._tally,
            provision=self._fleet.provision,
            pace=self._fleet.pace,
            series=self._series,
            decisions=tuple(self._decisions),
            launches=self._fleet.launches,
            cold_starts_s=tuple(self._fleet.cold_starts_s),
            simulated_s=now_s,
            turns=self._dispatch.count + self._control.count,
        )

    def _begin(self) -> None:
        """As ``tidegate serve`` does: models first, then what runs already, then the policy."""
        setups = self._scenario.models
        self._dispatch.handle(ModelsConfigured({model: setup.dispatch for model, setup in setups.items()}))
        for model, setup in setups.items():
            least = setup.fleet.scaling.min_replicas
            self._fleet.adopt(model, least if setup.running is None else setup.running)
        policies = {model: setup.fleet for model, setup in setups.items()}
        self._control.handle(FleetConfigured(policies, self._scenario.fleet))
        self._dispatch.handle(REPORT_DUE)
        self._second.set(self._scenario.report_every_s)
        self._kernel.every(self._scenario.scraping.every_s, self._scraper.scrape)
        self._kernel.every(CONTROLLER_TICK_S, lambda: self._control.handle(TICK))

    # ---- clients ----

    def _arrive(self, row: int) -> None:
        trace = self._trace
        now_s = self._kernel.now_s
        deadline_s = now_s + self._scenario.request_timeout_s
        if trace.deadlines_s is not None and trace.deadlines_s[row] < inf:  # NaN: not recorded
            deadline_s = now_s + trace.deadlines_s[row]
        self._arrived = row + 1
        request_id = RequestId(str(row))
        self._dispatch.handle(
            RequestArrived(
                request_id,
                self._only_model or self._models[row],
                trace.prompt_tokens[row],
                self._scenario.max_output_tokens,
                0,
                deadline_s,
                DEFAULT_FLOW if trace.tenants is None else trace.tenants[row] or DEFAULT_FLOW,
                0 if trace.priorities is None else trace.priorities[row],
            )
        )
        if self._is_quiet:
            self._is_quiet = False
            self._second.set(now_s + self._scenario.report_every_s)
        if self._patience:
            self._may_leave(request_id)

    def _may_leave(self, request_id: RequestId) -> None:
        for fault in self._patience:
            if fault.is_on(self._kernel.now_s) and self._dice.uniform() < fault.share:
                leaves_s = self._kernel.now_s + fault.patience_s
                self._kernel.at(leaves_s, lambda: self._dispatch.handle(ClientGone(request_id)))
                return

    # ---- between the gateway and the engines ----

    def _send(self, order: Send) -> None:
        row = int(order.request_id)
        trace = self._trace
        sequence = Sequence(
            order.request_id,
            trace.prompt_tokens[row] or 1,
            trace.output_tokens[row] or 1,
            () if trace.prefixes is None else trace.prefixes[row],
        )
        engine = self._engines.get(order.replica_id)
        if engine is None:
            # The table was a moment older than the replica's end.
            self._dispatch.handle(UpstreamFailed(order.request_id, Failure.REFUSED))
            return
        try:
            engine.send(sequence)
        except ValueError:
            self._tally.refused.add(row)
            self._dispatch.handle(UpstreamEnded(order.request_id, 400))

    def _cancel(self, order: CancelUpstream) -> None:
        engine = self._engines.get(order.replica_id)
        if engine is not None:
            engine.cancel(order.request_id)

    def _first_byte(self, sequence: Sequence) -> None:
        request_id = cast(RequestId, sequence.key)
        row = int(request_id)
        now_s = self._kernel.now_s
        window = self._windows[self._only_model or self._models[row]]
        window.ttft_s.add(now_s, now_s - self._trace.arrived_s[row])
        self._dispatch.handle(FirstByte(request_id))

    def _ended(self, sequence: Sequence) -> None:
        request_id = cast(RequestId, sequence.key)
        row = int(request_id)
        now_s = self._kernel.now_s
        tokens = sequence.output_tokens
        self._tally.prompt_tokens += sequence.prompt_tokens
        self._tally.cached_tokens += sequence.cached_tokens
        began_s = sequence.first_token_s
        assert began_s is not None
        window = self._windows[self._only_model or self._models[row]]
        window.e2e_s.add(now_s, now_s - self._trace.arrived_s[row])
        if tokens > 1:
            window.tpot_s.add(now_s, (now_s - began_s) / (tokens - 1))
        self._dispatch.handle(
            UpstreamEnded(request_id, 200, sequence.prompt_tokens, sequence.cached_tokens, tokens)
        )

    def _cut(self, request_id: RequestId) -> None:
        self._dispatch.handle(UpstreamFailed(request_id, Failure.CUT))

    def _silent(self, victim: SimEngine) -> None:
        for request_id in list(victim.sequences):
            victim.cancel(request_id)
            self._dispatch.handle(UpstreamFailed(request_id, Failure.SILENT))

    # ---- between the brains ----

    def _report(self, effect: Report) -> None:
        now_s = self._kernel.now_s
        self._series.note(now_s, effect.report)
        if not any(fault.is_on(now_s) for fault in self._deaf):
            self._control.handle(DemandReported(effect.report))

    def _publish(self, effect: PublishRoutes) -> None:
        self._fleet.publish(effect.table)
        self._dispatch.handle(RouteTableChanged(effect.table))

    def _decided(self, decision: Decision) -> None:
        self._decisions.append((self._kernel.now_s, decision))

    # ---- the course of time ----

    def _each_second(self) -> None:
        """Report, as the gateway does, and end the run when there is nothing left to wait for."""
        if self._is_over():
            self._kernel.stop()
            return
        now_s = self._kernel.now_s
        if self._dispatcher.open_requests:
            self._dispatch.handle(TICK)
        self._dispatch.handle(REPORT_DUE)
        # A drain is over only when a report says so; and the first report without requests is news too.
        draining = self._fleet.provision.count(Phase.DRAINING)
        self._is_quiet = not self._dispatcher.open_requests and not draining
        wait_s = QUIET_REPORT_S if self._is_quiet else self._scenario.report_every_s
        self._second.set(now_s + wait_s)
        if self._progress is not None and int(now_s) % 16 == 0:
            self._progress(self._arrived / max(1, len(self._trace)))

    def _is_over(self) -> bool:
        if self._arrived < len(self._trace) or self._dispatcher.open_requests:
            return False
        now_s = self._kernel.now_s
        self._last_end_s = self._last_end_s or now_s
        least = sum(setup.fleet.scaling.min_replicas for setup in self._scenario.models.values())
        is_settled = len(self._fleet.provision) <= least
        return is_settled or now_s >= self._last_end_s + self._scenario.settle_s


def _nothing(order: object) -> None:
    """The client has its answer; the record says the rest."""


def _models_of(trace: Trace, scenario: Scenario) -> list[ModelId]:
    """The model of each row. A scenario of one model takes every row, whatever the trace calls it."""
    known = list(scenario.models)
    if len(known) == 1:
        return known
    if trace.models is None:
        message = f"the trace names no models, but there are {len(known)}: {', '.join(known)}"
        raise ValueError(message)
    found = [model or known[0] for model in trace.models]
    strange = sorted(set(found).difference(known))
    if strange:
        message = f"the trace asks for {', '.join(strange[:5])}; known are {', '.join(known[:5])}"
        raise ValueError(message)
    return found
