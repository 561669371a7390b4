"""Carries requests to engines and answers back, as the dispatcher orders.

It owns the table of open calls and the connections to engines. Every fact goes to the dispatcher's
owner as an event; what follows comes back as ``send``, ``reject`` or ``cancel``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from tidegate.adapters.base import Manners
from tidegate.config.settings import GatewaySettings
from tidegate.core.effects import CancelUpstream, Hedge, Reject, Resume, Send, Spill
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    RequestArrived,
    TokensSent,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.types import ReplicaId, RequestId, Route
from tidegate.gateway.call import Call
from tidegate.gateway.dialling import Dialler, Rewrite
from tidegate.gateway.heartbeat import Heartbeats
from tidegate.gateway.meters import Meters
from tidegate.gateway.outlet import Outlets
from tidegate.gateway.parting import part
from tidegate.gateway.upstream import UpstreamConnection
from tidegate.gateway.usage import Usage
from tidegate.runtime.dispatching import DispatchOwner

log = logging.getLogger(__name__)

TOLD_EVERY_TOKENS = 512
SPILT_TOLD_EVERY_TOKENS = 32
"""Each of them is paid for, also when nobody waits for the next."""


class Porter:
    """The dispatcher's ``Carrier``, and the ``Attendant`` of every connection to an engine."""

    def __init__(
        self,
        owner: DispatchOwner,
        settings: GatewaySettings,
        manners: Callable[[str], Manners],
        rewrite: Rewrite,
        meters: Meters,
    ) -> None:
        self.settings = settings
        self.outlets: Outlets = {}
        """Where spilt requests go."""
        self._owner = owner
        self.gap: Callable[[float], None] = meters.gap.observe
        self._dialler = Dialler(self, manners, rewrite, lambda: self.settings.connect_timeout_s)
        self.pool = self._dialler.pool
        self._calls: dict[RequestId, Call] = {}
        self._heartbeats = Heartbeats()

    def __repr__(self) -> str:
        return f"<Porter calls={len(self._calls)} {self.pool!r}>"

    @property
    def open_calls(self) -> int:
        """Requests that have arrived and not ended."""
        return len(self._calls)

    def start(self) -> None:
        """Begin; called on the event loop."""
        self._dialler.start()

    # ---- from the client's side ----

    def foresees_refusal(self, arrived: RequestArrived) -> bool:
        """Whether the request would be turned away now. Changes nothing."""
        return self._owner.foresees_refusal(arrived)

    def submit(self, call: Call, arrived: RequestArrived) -> None:
        """Tell the dispatcher about a request."""
        self._calls[call.request_id] = call
        if call.heartbeat_s is not None:
            self._heartbeats.begin(call, monotonic())
        self._owner.handle(arrived)

    def gone(self, call: Call) -> None:
        """Its client has left, in whatever phase."""
        upstream = call.upstream
        if upstream is not None and upstream.has_said_all():
            # OpenAI's client closes on the end mark, without waiting for the end of the framing.
            usage = upstream.usage()
            upstream.drop()
            self._end(call, 200, usage)
            return
        if upstream is not None:
            self._tell_paid(call, upstream.tokens_passed_on)
        self._owner.handle(ClientGone(call.request_id))
        self._detach_all(call)
        self._calls.pop(call.request_id, None)

    # ---- orders ----

    def send(self, order: Send, route: Route) -> None:
        """Pass the request on to this replica."""
        call = self._calls.get(order.request_id)
        if call is None:
            return
        self._dialler.attempt(call, route)

    def hedge(self, order: Hedge, route: Route) -> None:
        """Pass the request on to this replica too."""
        call = self._calls.get(order.request_id)
        if call is not None:
            call.other = call.twin()
            call.other.other = call
            self._dialler.attempt(call.other, route)

    def resume(self, order: Resume, route: Route) -> None:
        """Let this replica take the answer up where it broke off."""
        call = self._calls.get(order.request_id)
        if call is None:
            return
        assert call.transcript is not None
        call.transcript.take_up()
        call.is_taken_up = True
        self._dialler.attempt(call, route)

    def spill(self, order: Spill) -> None:
        """Pass the request on to its model's pay-per-token upstream."""
        call = self._calls.get(order.request_id)
        if call is None:
            return
        outlet = self.outlets.get(order.replica_id)
        if outlet is None:
            self._owner.handle(UpstreamFailed(order.request_id, Failure.REFUSED, replica_id=order.replica_id))
            return
        call.outlet, call.transcript = outlet, None
        self._dialler.attempt(call, outlet.route)

    def reject(self, order: Reject) -> None:
        """End the request with an error."""
        call = self._calls.pop(order.request_id, None)
        if call is None:
            return
        self._detach_all(call)
        part(call, order)

    def cancel(self, order: CancelUpstream) -> None:
        """Close the connection to the replica that works on this request."""
        call = self._calls.get(order.request_id)
        for attempt in (call, call and call.other):
            if attempt is None or attempt.route is None or attempt.route.replica_id != order.replica_id:
                continue
            self._dialler.detach(attempt)
            if call is not None and attempt is call.other:
                call.other = attempt.other = None

    # ---- from the engine's side ----

    def first_byte(self, call: Call) -> None:
        if call.other is not None:
            self._prefer(call)
        self._owner.handle(FirstByte(call.request_id, _replica(call)))

    def answered(self, call: Call, status: int, usage: Usage) -> None:
        self._end(call, status, usage)
        call.client.finished(keep_alive=call.keep_alive)

    def attempt_failed(self, call: Call, failure: Failure, status: int | None, tokens: int = 0) -> None:
        other = call.other
        if other is not None:
            self._prefer(other)
            call.other = other.other = None
        if call.outlet is not None:
            said = failure.value if status is None else f"HTTP status {status}"
            log.warning("the upstream of %s failed a spilt request: %s", call.outlet.route.model, said)
        self._tell_paid(call, tokens)
        resumable = None
        if call.transcript is not None and call.began and call.route is not None:
            resumable = call.transcript.resumable_tokens(self._dialler.manners_for(call.route.engine))
        failed = UpstreamFailed(
            call.request_id, failure, status, replica_id=_replica(call), resumable_tokens=resumable
        )
        self._owner.handle(failed)

    def redial(self, call: Call) -> None:
        self._dialler.redial(call)

    def at_rest(self, connection: UpstreamConnection) -> None:
        self.pool.rest(connection)

    def connected(self, connection: UpstreamConnection) -> None:
        self.pool.open.add(connection)

    def lost(self, connection: UpstreamConnection) -> None:
        self.pool.lost(connection)

    # ---- time ----

    def sweep(self, now_s: float) -> None:
        """Fail attempts on engines that have gone silent; close connections that nobody needs."""
        for connection in list(self.pool.open):
            call = connection.call
            if call is None:
                continue
            self._count(call, connection)
            limit_s = self._silence_limit_s(call, connection.manners)
            if limit_s is not None and connection.silent_for_s(now_s) > limit_s:
                connection.fail(Failure.SILENT)
        self._heartbeats.sweep(self._calls, now_s)
        self.pool.sweep(now_s, self._owner.routes.keys() | self.outlets.keys())
        self._dialler.sweep()

    def _count(self, call: Call, connection: UpstreamConnection) -> None:
        """A long stream is told of before it ends, each time that it has grown by a good deal."""
        tokens = connection.tokens_passed_on
        every = TOLD_EVERY_TOKENS if call.outlet is None else SPILT_TOLD_EVERY_TOKENS
        if tokens >= call.told_tokens + every:
            call.told_tokens = tokens
            self._owner.handle(TokensSent(call.request_id, tokens))

    def close(self) -> None:
        """Close every connection to an engine."""
        for call in list(self._calls.values()):
            self._detach_all(call)
        self._calls.clear()
        self.pool.close()

    def _silence_limit_s(self, call: Call, manners: Manners) -> float | None:
        """How long this answer may make no progress; None when only its deadline limits it."""
        if call.began:
            dead_s = manners.silence_means_dead_s
            idle_s = self.settings.stream_idle_timeout_s
            return idle_s if dead_s is None else min(idle_s, dead_s)
        # An answer that is not streamed has its first byte when it is complete: silence says nothing.
        return self.settings.first_byte_timeout_s if call.streams else None

    # ---- the pieces ----

    def _end(self, call: Call, status: int, usage: Usage) -> None:
        self._calls.pop(call.request_id, None)
        self._heartbeats.end(call)
        if call.other is not None:
            self._dialler.detach(call.other)
            call.other = None
        self._owner.handle(
            UpstreamEnded(
                call.request_id,
                status,
                usage.prompt_tokens,
                usage.cached_tokens,
                usage.output_tokens,
                replica_id=_replica(call),
            )
        )

    def _tell_paid(self, call: Call, tokens: int) -> None:
        """A spilt answer breaks off: what has come of it is paid for, to the last token."""
        if call.outlet is not None and tokens:
            self._owner.handle(TokensSent(call.request_id, tokens))

    def _prefer(self, call: Call) -> None:
        """Of the two attempts at one request this one is heard."""
        self._calls[call.request_id] = call
        call.client.call = call

    def _detach_all(self, call: Call) -> None:
        self._heartbeats.end(call)
        self._dialler.detach(call)
        if call.other is not None:
            self._dialler.detach(call.other)
            call.other = None


def _replica(call: Call) -> ReplicaId | None:
    return None if call.route is None else call.route.replica_id
