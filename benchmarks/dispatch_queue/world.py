"""A dispatcher between simulated engines and clients that behave as clients do, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from random import Random

from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import CancelUpstream, Hedge, Record, Reject, Report, Resume, RolledBack, Send
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    ModelsConfigured,
    RequestArrived,
    RouteTableChanged,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.lifecycle import State
from tidegate.core.outcomes import MEANING, Outcome
from tidegate.core.settings import HANDOVER_S, DispatchConfig
from tidegate.core.types import Address, FlowId, ModelId, ModelRoute, ReplicaId, RequestId, Route, RouteTable
from tidegate.engine.batch import Engine
from tidegate.engine.catalogue import profile
from tidegate.engine.sequence import Sequence
from tidegate.sim.engines import Outlet, SimEngine
from tidegate.sim.kernel import Kernel
from tidegate.sim.pace import Pace
from tidegate.sim.turns import TICK, Turns

MODEL = ModelId("m")
PROFILE = "llama-3.1-8b-h100x1"
TICK_S = 0.25
BLOCK_TOKENS = 16
CHAIN_TOKENS = 256
STEP_TOKENS = 2_048
"""As engines are set where the pace of running answers matters; with 8,192 one long prompt stops them all for
0.13 s."""


@dataclass(slots=True)
class Ask:
    """One client's wish, over all its attempts."""

    number: int
    prompt: int
    output: int
    flow: str = "default"
    priority: int = 0
    timeout_s: float = 600.0
    begins: int = 0
    """Which of the beginnings that prompts share is its own; 0: none."""
    shared: int = 0
    """Tokens of that."""
    cached: int = 0
    """Tokens of its prompt that its engine had."""
    told: bool = False
    """The last refusal named a moment, and this attempt is made at exactly that."""
    tries: int = 0
    sent_as: RequestId = RequestId("")
    first_s: float = 0.0
    sent_s: float = 0.0
    outcome: Outcome | None = None
    ttft_s: float = inf
    e2e_s: float = inf
    on: set[ReplicaId] = field(default_factory=set)

    def blocks(self) -> tuple[int, ...]:
        """Names of its blocks: what was computed of a prompt that is taken back, or that begins like another, is found
        again, as in vLLM."""
        common, whole = self.shared // BLOCK_TOKENS, self.prompt // BLOCK_TOKENS
        first, own = -self.begins << 20, self.number << 20
        return (*range(first, first + common), *range(own, own + whole - common))

    def chain(self) -> tuple[int, ...]:
        """What the router is told of its beginning; nothing where none is shared."""
        if not self.begins:
            return ()
        first, own = self.begins << 40, self.number << 20
        common, whole = self.shared // CHAIN_TOKENS, self.prompt // CHAIN_TOKENS
        return (*range(first, first + common), *range(own, own + whole - common))


def nothing(*_: object) -> None:
    """Nobody wants to know."""


class World:
    """Owns the clock, the engines and the clients."""

    def __init__(
        self,
        slots: int,
        seed: int,
        config: DispatchConfig | None = None,
        step_tokens: int = STEP_TOKENS,
    ) -> None:
        self.kernel = Kernel()
        self._step_tokens = step_tokens
        self.dice = Random(seed)
        self.slots = slots
        self.dispatcher = Dispatcher()
        self.engines: dict[ReplicaId, SimEngine] = {}
        self.asks: dict[RequestId, Ask] = {}
        self.records: list[tuple[float, Record]] = []
        self.sent: list[tuple[float, ReplicaId, RequestId]] = []
        self.refused: Callable[[Ask, Reject], None] = nothing
        self.done: Callable[[Ask], None] = nothing
        self.hedges = 0
        self.resumed_from: dict[RequestId, int] = {}
        self._version = 0
        self._names = 0
        self._turns = Turns(
            "dispatch",
            self.dispatcher,
            self.kernel,
            None,
            {
                Send: self._send,
                Hedge: self._hedge,
                Resume: self._resume,
                Reject: self._reject,
                CancelUpstream: self._cancel,
                Report: nothing,
                RolledBack: nothing,
                Record: self._record,
            },
        )
        self.tell = self._turns.handle
        self.tell(ModelsConfigured({MODEL: config or DispatchConfig()}))
        self.kernel.every(TICK_S, lambda: self.tell(TICK))

    # ---- replicas ----

    def engine(self, name: str, factor: float = 1.0) -> None:
        """A replica's engine is there; ``publish`` makes it serve."""
        facts = profile(PROFILE)
        limits = replace(facts.limits, max_sequences=self.slots, max_step_tokens=self._step_tokens)
        replica_id = ReplicaId(name)
        outlet = Outlet(self._first_byte, self._ended, nothing)
        made = SimEngine(replica_id, MODEL, Engine(limits, facts.law), self.kernel, outlet, Pace())
        self.engines[replica_id] = made
        if factor != 1.0:
            made.slow_down(factor)

    def publish(self, draining: tuple[str, ...] = (), leaving: tuple[str, ...] = ()) -> None:
        """A new table with the engines that are there. Those leaving are to drain within ``HANDOVER_S``."""
        leaves_at_s = self.kernel.now_s + HANDOVER_S
        self._version += 1
        routes = tuple(
            Route(
                replica_id,
                MODEL,
                State.DRAINING if replica_id in draining else State.SERVING,
                Address("sim", 1),
                0 if replica_id in draining else self.slots,
                "openai",
                leaves_at_s=leaves_at_s if replica_id in leaving else None,
            )
            for replica_id in sorted(self.engines)
        )
        self.tell(RouteTableChanged(RouteTable(self._version, (ModelRoute(MODEL, can_serve=True),), routes)))

    def kill(self, name: str) -> None:
        """The replica's process dies; the table says so a moment later."""
        engine = self.engines.pop(ReplicaId(name))
        for request_id in engine.kill():
            self._fail(request_id, engine.replica_id, Failure.CUT)

    def cut(self, request_id: RequestId) -> None:
        """One connection breaks off."""
        ask = self.asks.get(request_id)
        if ask is None:
            return
        for replica_id in sorted(ask.on)[:1]:
            engine = self.engines.get(replica_id)
            if engine is None:
                continue
            sequence = engine.sequences.get(request_id)
            out = engine.engine.tokens_out(sequence, self.kernel.now_s) if sequence is not None else 0
            engine.cancel(request_id)
            tokens = self.resumed_from.get(request_id, 0) + out
            self._fail(request_id, replica_id, Failure.CUT, tokens if 0 < tokens < ask.output else None)

    # ---- clients ----

    def ask(self, ask: Ask) -> RequestId:
        """The client sends its request, for the first time or again."""
        self._names += 1
        request_id = RequestId(f"{ask.number}.{self._names}")
        now_s = self.kernel.now_s
        ask.tries += 1
        ask.sent_s = now_s
        ask.first_s = ask.first_s if ask.tries > 1 else now_s
        ask.outcome = None
        self.asks[request_id] = ask
        self.tell(
            RequestArrived(
                request_id,
                MODEL,
                ask.prompt,
                None,
                4 * ask.prompt,
                now_s + ask.timeout_s,
                FlowId(ask.flow),
                ask.priority,
                prefix=ask.chain(),
                block_tokens=CHAIN_TOKENS,
                again=ask.number,
            )
        )
        return request_id

    def leave(self, request_id: RequestId) -> None:
        """The client goes away."""
        self.tell(ClientGone(request_id))

    # ---- orders ----

    def _send(self, order: Send) -> None:
        self._start(order.request_id, order.replica_id, 0)

    def _hedge(self, order: Hedge) -> None:
        self.hedges += 1
        self._start(order.request_id, order.replica_id, 0)

    def _resume(self, order: Resume) -> None:
        self.resumed_from[order.request_id] = order.tokens
        self._start(order.request_id, order.replica_id, order.tokens)

    def _start(self, request_id: RequestId, replica_id: ReplicaId, done: int) -> None:
        ask = self.asks[request_id]
        self.sent.append((self.kernel.now_s, replica_id, request_id))
        engine = self.engines.get(replica_id)
        if engine is None:
            self.tell(UpstreamFailed(request_id, Failure.REFUSED, replica_id=replica_id))
            return
        ask.on.add(replica_id)
        engine.send(Sequence(request_id, ask.prompt + done, max(1, ask.output - done), ask.blocks()))

    def _cancel(self, order: CancelUpstream) -> None:
        ask = self.asks.get(order.request_id)
        if ask is not None:
            ask.on.discard(order.replica_id)
        if order.replica_id in self.engines:
            self.engines[order.replica_id].cancel(order.request_id)

    def _reject(self, order: Reject) -> None:
        ask = self.asks[order.request_id]
        ask.outcome = order.outcome
        if MEANING[order.outcome].retry_helps and order.retry_after_s is not None:
            self.refused(ask, order)

    def _record(self, record: Record) -> None:
        now_s = self.kernel.now_s
        self.records.append((now_s, record))
        ask = self.asks.pop(record.request_id)
        self.resumed_from.pop(record.request_id, None)
        ask.on.clear()
        ask.outcome = record.outcome
        if record.outcome is Outcome.COMPLETED:
            ask.e2e_s = now_s - ask.sent_s
            if record.ttft_s is not None:
                ask.ttft_s = record.ttft_s
        self.done(ask)

    # ---- engines ----

    def _first_byte(self, sequence: Sequence, replica_id: ReplicaId) -> None:
        self.tell(FirstByte(RequestId(str(sequence.key)), replica_id))

    def _ended(self, sequence: Sequence, replica_id: ReplicaId) -> None:
        request_id = RequestId(str(sequence.key))
        tokens = sequence.output_tokens + self.resumed_from.pop(request_id, 0)
        if request_id in self.asks:
            self.asks[request_id].cached = sequence.cached_tokens
        self.tell(
            UpstreamEnded(
                request_id, 200, sequence.prompt_tokens, sequence.cached_tokens, tokens, replica_id=replica_id
            )
        )

    def _fail(
        self, request_id: RequestId, replica_id: ReplicaId, failure: Failure, tokens: int | None = None
    ) -> None:
        ask = self.asks.get(request_id)
        if ask is not None:
            ask.on.discard(replica_id)
        failed = UpstreamFailed(request_id, failure, replica_id=replica_id, resumable_tokens=tokens)
        self.tell(failed)

    def run(self, until_s: float) -> None:
        """Let time pass."""
        self.kernel.at(until_s, self.kernel.stop)
        self.kernel.run((), nothing)
