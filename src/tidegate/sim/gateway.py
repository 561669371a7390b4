"""The simulated gateway: it owns a Dispatcher, tells it what happens and does what it says.

Each row of the trace becomes a ``RequestArrived``. A request that is sent enters an engine at once; what the
engine gives back becomes ``FirstByte`` and ``UpstreamEnded``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import cast

from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import (
    CancelUpstream,
    Hedge,
    Record,
    Reject,
    Report,
    Resume,
    RolledBack,
    Send,
    Spill,
)
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    ReportDue,
    RequestArrived,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.scaling_settings import ScalingPolicy
from tidegate.core.types import DEFAULT_FLOW, DemandReport, Dice, ModelId, ReplicaId, RequestId
from tidegate.engine.sequence import Sequence
from tidegate.sim.engines import SimEngine
from tidegate.sim.faults import FaultKind
from tidegate.sim.kernel import Kernel
from tidegate.sim.scenario import Scenario
from tidegate.sim.scraping import LatencyWindow
from tidegate.sim.tally import REFUSING, Tally
from tidegate.sim.telling import LongAnswers
from tidegate.sim.turns import TICK, Journal, Turns
from tidegate.workload.traces import Trace

REPORT_DUE = ReportDue()
READS_LATENCIES = (
    ScalingPolicy.TIDAL,
    ScalingPolicy.THRESHOLDS,
    ScalingPolicy.SLO,
    ScalingPolicy.SLO_KEDA,
    ScalingPolicy.DYNAMO_SLA,
)

SALT_SHIFT = 44
"""Traces number their blocks; the bits above are free to tell models apart."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a client has of a stream that broke off."""

    tokens: int
    began_s: float | None


class SimGateway:
    """Clients on one side, engines on the other."""

    def __init__(
        self,
        trace: Trace,
        scenario: Scenario,
        kernel: Kernel,
        dice: Dice,
        journal: Journal | None,
        report: Callable[[DemandReport], None],
    ) -> None:
        """``report`` takes what is to be told to the controller."""
        self._trace = trace
        self._scenario = scenario
        self._kernel = kernel
        self._dice = dice
        self._models = _models_of(trace, scenario)
        self._only_model = self._models[0] if len(scenario.models) == 1 else None
        self._salts = {model: number << SALT_SHIFT for number, model in enumerate(scenario.models)}
        self._leaving = tuple(fault for fault in scenario.faults if fault.kind is FaultKind.LEAVE)
        self._dispatcher = Dispatcher(dice=dice)
        self.tally = Tally(len(trace))
        self.windows = {
            model: LatencyWindow(scenario.scraping.window_s)
            for model, setup in scenario.models.items()
            if any(policy in READS_LATENCIES for policy in setup.fleet.scaling.policies)
        }
        """Of the models whose law looks at latencies; nobody else has a use for them."""
        self.engines: Mapping[ReplicaId, SimEngine] = {}
        """Those that can be reached; set once, before the first request."""
        self._resuming = {model for model, setup in scenario.models.items() if setup.dispatch.resume}
        self._given: dict[RequestId, Given] = {}
        """Of streams that have broken off and may be taken up."""
        self._spilt: set[RequestId] = set()
        """Those at a pay-per-token upstream."""
        self._last_row = -1
        self._last_blocks: tuple[int, ...] = ()
        self.arrived = 0
        """Rows of the trace that have come."""
        self.turns = Turns(
            "dispatch",
            self._dispatcher,
            kernel,
            journal,
            {
                Send: self._send,
                Hedge: self._send,
                Resume: self._resume,
                Spill: self._spill,
                RolledBack: _nothing,
                Reject: _nothing,
                CancelUpstream: self._cancel,
                Report: lambda effect: report(effect.report),
                Record: self.tally.record,
            },
        )
        self.handle = self.turns.handle
        """Report a fact to the dispatcher."""
        self._long = LongAnswers(self.handle)

    def __repr__(self) -> str:
        return f"<SimGateway arrived={self.arrived} {self.tally!r}>"

    @property
    def open_requests(self) -> int:
        """Accepted and not ended."""
        return self._dispatcher.open_requests

    def each_second(self) -> None:
        """What the gateway does at a steady rate."""
        self._long.look()
        if self._dispatcher.open_requests:
            self.handle(TICK)
        self.handle(REPORT_DUE)

    # ---- clients ----

    def arrive(self, row: int) -> None:
        """The client of this row sends its request."""
        trace = self._trace
        now_s = self._kernel.now_s
        deadline_s = now_s + self._scenario.request_timeout_s
        if trace.deadlines_s is not None and trace.deadlines_s[row] < inf:  # NaN: not recorded
            deadline_s = now_s + trace.deadlines_s[row]
        self.arrived = row + 1
        request_id = RequestId(str(row))
        self.handle(
            RequestArrived(
                request_id,
                self._only_model or self._models[row],
                trace.prompt_tokens[row],
                self._scenario.max_output_tokens,
                0,
                deadline_s,
                DEFAULT_FLOW if trace.tenants is None else trace.tenants[row] or DEFAULT_FLOW,
                0 if trace.priorities is None else trace.priorities[row],
                None if trace.adapters is None else trace.adapters[row],
                prefix=self._prefix(row),
                block_tokens=trace.block_tokens,
                session=None if trace.sessions is None else trace.sessions[row],
                again=row,
            )
        )
        if self._leaving:
            self._may_leave(request_id)

    def _prefix(self, row: int) -> tuple[int, ...]:
        """As the gateway would hash it: the prompt's full blocks, salted by the model."""
        blocks = self._blocks(row)[: self._trace.prompt_tokens[row] // self._trace.block_tokens]
        if self._only_model is not None:
            return blocks
        salt = self._salts[self._models[row]]
        return tuple(block ^ salt for block in blocks)

    def _blocks(self, row: int) -> tuple[int, ...]:
        """The row's own, for brain and engine. Most are sent as soon as they have come: they are made once."""
        if self._last_row != row and self._trace.prefixes is not None:
            self._last_row, self._last_blocks = row, self._trace.prefixes[row]
        return self._last_blocks

    def _may_leave(self, request_id: RequestId) -> None:
        for fault in self._leaving:
            if fault.is_on(self._kernel.now_s) and self._dice.uniform() < fault.share:
                leaves_s = self._kernel.now_s + fault.patience_s
                self._kernel.at(leaves_s, lambda: self.handle(ClientGone(request_id)))
                return

    # ---- to the engines ----

    def _send(self, order: Send | Hedge) -> None:
        prompt, output = self._tokens(int(order.request_id))
        self._pass_on(order.request_id, order.replica_id, prompt, output)

    def _resume(self, order: Resume) -> None:
        """Another engine reads the prompt and what there is of the answer, and writes the rest."""
        prompt, output = self._tokens(int(order.request_id))
        self._pass_on(order.request_id, order.replica_id, prompt + order.tokens, output - order.tokens)

    def _pass_on(self, request_id: RequestId, replica_id: ReplicaId, prompt: int, output: int) -> None:
        engine = self.engines.get(replica_id)
        if engine is None:
            # The table was a moment older than the replica's end.
            self.handle(UpstreamFailed(request_id, Failure.REFUSED, replica_id=replica_id))
            return
        row, adapters = int(request_id), self._trace.adapters
        sequence = Sequence(
            request_id, prompt, output, self._blocks(row), None if adapters is None else adapters[row]
        )
        try:
            engine.send(sequence)
            given = self._given.get(request_id)
            self._long.sent(request_id, engine, sequence, 0 if given is None else given.tokens)
        except ValueError:
            self.handle(UpstreamEnded(request_id, REFUSING, replica_id=replica_id))

    def _spill(self, order: Spill) -> None:
        """The upstream is somebody else's and has room for everybody: it takes what the policy says it does."""
        request_id, row = order.request_id, int(order.request_id)
        bounds = self._scenario.models[self._only_model or self._models[row]].dispatch.spill
        assert bounds is not None
        prompt, output = self._tokens(row)
        self._spilt.add(request_id)

        def began() -> None:
            if request_id in self._spilt:
                self.handle(FirstByte(request_id, order.replica_id))

        def ended() -> None:
            if request_id in self._spilt:
                self._spilt.discard(request_id)
                self.handle(UpstreamEnded(request_id, 200, prompt, None, output, order.replica_id))

        began_s = self._kernel.now_s + bounds.ttft_s
        self._kernel.at(began_s, began)
        self._kernel.at(began_s + (output - 1) * bounds.tpot_s, ended)

    def _tokens(self, row: int) -> tuple[int, int]:
        """Of its prompt and of its answer; an engine takes one at least."""
        return self._trace.prompt_tokens[row] or 1, self._trace.output_tokens[row] or 1

    def _cancel(self, order: CancelUpstream) -> None:
        engine = self.engines.get(order.replica_id)
        if engine is not None:
            engine.cancel(order.request_id)
        self._spilt.discard(order.request_id)

    # ---- from the engines ----

    def first_byte(self, sequence: Sequence, replica_id: ReplicaId) -> None:
        """Its first token is out."""
        request_id = cast(RequestId, sequence.key)
        if self.windows and request_id not in self._given:
            row, now_s = int(request_id), self._kernel.now_s
            window = self.windows.get(self._only_model or self._models[row])
            if window is not None:
                window.ttft_s.add(now_s, now_s - self._trace.arrived_s[row])
        self.handle(FirstByte(request_id, replica_id))

    def ended(self, sequence: Sequence, replica_id: ReplicaId) -> None:
        """All its tokens are out."""
        request_id = cast(RequestId, sequence.key)
        prompt, cached, tokens = sequence.prompt_tokens, sequence.cached_tokens, sequence.output_tokens
        began_s = sequence.first_token_s
        if request_id in self._given:  # what was passed on before is no prompt of the client's
            given = self._given.pop(request_id)
            prompt, tokens, began_s = prompt - given.tokens, tokens + given.tokens, given.began_s
            cached = min(cached, prompt)
        self.tally.prompt_tokens += prompt
        self.tally.cached_tokens += cached
        if self.windows and began_s is not None:
            self._keep_latency(int(request_id), began_s, tokens)
        self.handle(UpstreamEnded(request_id, 200, prompt, cached, tokens, replica_id))

    def _keep_latency(self, row: int, began_s: float, tokens: int) -> None:
        window = self.windows.get(self._only_model or self._models[row])
        if window is None:
            return
        now_s = self._kernel.now_s
        window.e2e_s.add(now_s, now_s - self._trace.arrived_s[row])
        if tokens > 1:
            window.tpot_s.add(now_s, (now_s - began_s) / (tokens - 1))

    def cut(self, sequence: Sequence, replica_id: ReplicaId, tokens: int) -> None:
        """Its connection to the engine broke off after so many tokens."""
        self._failed(sequence, replica_id, tokens, Failure.CUT)

    def silent(self, engine: SimEngine) -> None:
        """An engine has not sent a byte for too long: give up everything that it works on."""
        for request_id, sequence in list(engine.sequences.items()):
            tokens = engine.tokens_out(sequence)
            engine.cancel(request_id)
            self._failed(sequence, engine.replica_id, tokens, Failure.SILENT)

    def _failed(self, sequence: Sequence, replica_id: ReplicaId, tokens: int, failure: Failure) -> None:
        request_id = cast(RequestId, sequence.key)
        if (self._only_model or self._models[int(request_id)]) in self._resuming and tokens:
            before = self._given.get(request_id)
            began_s = sequence.first_token_s if before is None else before.began_s
            tokens += 0 if before is None else before.tokens
            self._given[request_id] = Given(tokens, began_s)
        given = self._given.get(request_id)
        passed_on = None if given is None else given.tokens
        self.handle(UpstreamFailed(request_id, failure, replica_id=replica_id, resumable_tokens=passed_on))


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
