"""Carries requests to engines and answers back, as the dispatcher orders.

It owns the table of open calls and the connections to engines. Every fact goes to the dispatcher's
owner as an event; what follows comes back as ``send``, ``reject`` or ``cancel``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from tidegate.adapters.base import Manners
from tidegate.config.settings import GatewaySettings
from tidegate.core.effects import CancelUpstream, Hedge, Reject, Resume, Send
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    RequestArrived,
    TokensSent,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.types import Address, ReplicaId, RequestId, Route
from tidegate.gateway.body import named
from tidegate.gateway.call import Call
from tidegate.gateway.errors import outcome_answer, outcome_event, unknown_model
from tidegate.gateway.framing import LAST_CHUNK, chunk
from tidegate.gateway.heartbeat import Heartbeats
from tidegate.gateway.meters import Meters
from tidegate.gateway.outgoing import RequestHeads
from tidegate.gateway.pool import Pool
from tidegate.gateway.routes import Form
from tidegate.gateway.upstream import UpstreamConnection
from tidegate.gateway.usage import Usage
from tidegate.runtime.dispatching import DispatchOwner

log = logging.getLogger(__name__)

TOLD_EVERY_TOKENS = 512

Rewrite = Callable[[Route, bytes], bytes]
"""Engine name, model and body to the body as this engine must get it."""


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
        self.pool = Pool()
        self._owner = owner
        self._manners_of = manners
        self._rewrite = rewrite
        self.gap: Callable[[float], None] = meters.gap.observe
        self._manners: dict[str, Manners] = {}
        self._heads = RequestHeads()
        self._calls: dict[RequestId, Call] = {}
        self._heartbeats = Heartbeats()
        self._loop: asyncio.AbstractEventLoop

    def __repr__(self) -> str:
        return f"<Porter calls={len(self._calls)} {self.pool!r}>"

    @property
    def open_calls(self) -> int:
        """Requests that have arrived and not ended."""
        return len(self._calls)

    def start(self) -> None:
        """Begin; called on the event loop."""
        # Kept, since asking for it costs a system call in Python 3.11 (getpid).
        self._loop = asyncio.get_running_loop()

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
        self._owner.handle(ClientGone(call.request_id))
        self._detach_all(call)
        self._calls.pop(call.request_id, None)

    # ---- orders ----

    def send(self, order: Send, route: Route) -> None:
        """Pass the request on to this replica."""
        call = self._calls.get(order.request_id)
        if call is None:
            return
        self._attempt(call, route)

    def hedge(self, order: Hedge, route: Route) -> None:
        """Pass the request on to this replica too."""
        call = self._calls.get(order.request_id)
        if call is not None:
            call.other = call.twin()
            call.other.other = call
            self._attempt(call.other, route)

    def resume(self, order: Resume, route: Route) -> None:
        """Let this replica take the answer up where it broke off."""
        call = self._calls.get(order.request_id)
        if call is None:
            return
        assert call.transcript is not None
        call.transcript.take_up()
        call.is_taken_up = True
        self._attempt(call, route)

    def reject(self, order: Reject) -> None:
        """End the request with an error."""
        call = self._calls.pop(order.request_id, None)
        if call is None:
            return
        self._detach_all(call)
        client = call.client
        if not call.began and not call.is_open:
            keep_alive = call.keep_alive and client.may_keep_alive
            because = order.because if call.unknown is None else unknown_model(call.unknown)
            data = outcome_answer(
                order.outcome,
                because,
                request_id=call.echo,
                retry_after_s=order.retry_after_s,
                keep_alive=keep_alive,
            )
            client.answer(data, keep_alive=keep_alive)
        elif call.events_began or call.is_open:
            event = outcome_event(order.outcome, order.because)
            client.write(event if call.http10 else chunk(event) + LAST_CHUNK)
            client.finished(keep_alive=False)
        elif call.ends_open:
            client.abort()
            client.call = None
        else:
            # No error can be written into the middle of a document; an end without its last chunk, or
            # short of its length, is one that every client notices.
            client.finished(keep_alive=False)

    def cancel(self, order: CancelUpstream) -> None:
        """Close the connection to the replica that works on this request."""
        call = self._calls.get(order.request_id)
        for attempt in (call, call and call.other):
            if attempt is None or attempt.route is None or attempt.route.replica_id != order.replica_id:
                continue
            self._detach(attempt)
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

    def attempt_failed(self, call: Call, failure: Failure, status: int | None) -> None:
        other = call.other
        if other is not None:
            self._prefer(other)
            call.other = other.other = None
        tokens = None
        if call.transcript is not None and call.began and call.route is not None:
            tokens = call.transcript.resumable_tokens(self._manners_for(call.route.engine))
        failed = UpstreamFailed(
            call.request_id, failure, status, replica_id=_replica(call), resumable_tokens=tokens
        )
        self._owner.handle(failed)

    def redial(self, call: Call) -> None:
        route = call.route
        assert route is not None
        assert route.address is not None
        self._dial(call, route, route.address)

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
        self.pool.sweep(now_s, self._owner.routes)
        self._heads.clear()

    def _count(self, call: Call, connection: UpstreamConnection) -> None:
        """A long stream is told of before it ends, each time that it has grown by a good deal."""
        tokens = connection.tokens_passed_on
        if tokens >= call.told_tokens + TOLD_EVERY_TOKENS:
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
            self._detach(call.other)
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

    def _attempt(self, call: Call, route: Route) -> None:
        call.route = route
        call.redialled = False
        if route.address is None:
            self.attempt_failed(call, Failure.REFUSED, None)
            return
        connection = self.pool.take(route.replica_id, monotonic())
        if connection is None:
            self._dial(call, route, route.address)
        else:
            self._hand_over(call, connection, route, route.address)

    def _prefer(self, call: Call) -> None:
        """Of the two attempts at one request this one is heard."""
        self._calls[call.request_id] = call
        call.client.call = call

    def _detach_all(self, call: Call) -> None:
        self._heartbeats.end(call)
        self._detach(call)
        if call.other is not None:
            self._detach(call.other)
            call.other = None

    def _detach(self, call: Call) -> None:
        """Stop whatever is under way for this call."""
        if call.connecting is not None:
            call.connecting.cancel()
            call.connecting = None
        if call.upstream is not None:
            call.upstream.drop()

    def _dial(self, call: Call, route: Route, address: Address) -> None:
        call.connecting = self._loop.create_task(self._connect(call, route, address))

    async def _connect(self, call: Call, route: Route, address: Address) -> None:
        """Open a connection for this call; the only coroutine on a request's way."""
        connection = UpstreamConnection(self, route, self._manners_for(route.engine))
        try:
            async with asyncio.timeout(self.settings.connect_timeout_s):
                await self._loop.create_connection(lambda: connection, address.host, address.port)
        except asyncio.CancelledError:
            # Cancelled between the connection's making and our waking, uvloop closes it and says so to
            # nobody, and asyncio leaves it open.
            if connection in self.pool.open:
                connection.drop()
                self.pool.lost(connection)
            raise
        except Exception as error:
            if not isinstance(error, OSError):  # TimeoutError is one.
                log.exception("connecting to replica %s failed", route.replica_id)
            self.pool.lost(connection)
            call.connecting = None
            self.attempt_failed(call, Failure.REFUSED, None)
            return
        call.connecting = None
        self._hand_over(call, connection, route, address)

    def _hand_over(self, call: Call, connection: UpstreamConnection, route: Route, address: Address) -> None:
        body = call.body
        if call.transcript is not None:
            body = call.transcript.body(connection.manners)
        if call.relay.form is Form.JSON:
            if route.model != call.model:
                body = named(body, route.model)
            body = self._rewrite(route, body)
        connection.begin(call, self._heads.of(call, route, address, len(body)), body)

    def _manners_for(self, engine: str) -> Manners:
        manners = self._manners.get(engine)
        if manners is None:
            manners = self._manners[engine] = self._manners_of(engine)
        return manners


def _replica(call: Call) -> ReplicaId | None:
    return None if call.route is None else call.route.replica_id
