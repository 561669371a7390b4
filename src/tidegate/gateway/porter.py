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
from tidegate.core.effects import CancelUpstream, Reject, Send
from tidegate.core.events import ClientGone, Failure, FirstByte, RequestArrived, UpstreamEnded, UpstreamFailed
from tidegate.core.types import Address, RequestId, Route
from tidegate.gateway.call import Call
from tidegate.gateway.errors import outcome_answer, outcome_event
from tidegate.gateway.framing import LAST_CHUNK, chunk
from tidegate.gateway.meters import Meters
from tidegate.gateway.outgoing import RequestHeads
from tidegate.gateway.pool import Pool
from tidegate.gateway.routes import Form
from tidegate.gateway.upstream import UpstreamConnection
from tidegate.gateway.usage import Usage
from tidegate.runtime.dispatching import DispatchOwner

log = logging.getLogger(__name__)

Rewrite = Callable[[str, str, bytes], bytes]
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

    def submit(self, call: Call, arrived: RequestArrived) -> None:
        """Tell the dispatcher about a request."""
        self._calls[call.request_id] = call
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
        self._detach(call)
        self._calls.pop(call.request_id, None)

    # ---- orders ----

    def send(self, order: Send, route: Route) -> None:
        """Pass the request on to this replica."""
        call = self._calls.get(order.request_id)
        if call is None:
            return
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

    def reject(self, order: Reject) -> None:
        """End the request with an error."""
        call = self._calls.pop(order.request_id, None)
        if call is None:
            return
        self._detach(call)
        client = call.client
        if not call.began:
            keep_alive = call.keep_alive and client.may_keep_alive
            data = outcome_answer(
                order.outcome,
                order.because,
                request_id=call.echo,
                retry_after_s=order.retry_after_s,
                keep_alive=keep_alive,
            )
            client.answer(data, keep_alive=keep_alive)
        elif call.events_began:
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
        if call is not None:
            self._detach(call)

    # ---- from the engine's side ----

    def first_byte(self, call: Call) -> None:
        self._owner.handle(FirstByte(call.request_id))

    def answered(self, call: Call, status: int, usage: Usage) -> None:
        self._end(call, status, usage)
        call.client.finished(keep_alive=call.keep_alive)

    def attempt_failed(self, call: Call, failure: Failure, status: int | None) -> None:
        self._owner.handle(UpstreamFailed(call.request_id, failure, status))

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
            limit_s = self._silence_limit_s(call, connection.manners)
            if limit_s is not None and connection.silent_for_s(now_s) > limit_s:
                connection.fail(Failure.SILENT)
        self.pool.sweep(now_s, self._owner.routes)
        self._heads.clear()

    def close(self) -> None:
        """Close every connection to an engine."""
        for call in list(self._calls.values()):
            self._detach(call)
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
        self._owner.handle(
            UpstreamEnded(
                call.request_id, status, usage.prompt_tokens, usage.cached_tokens, usage.output_tokens
            )
        )

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
        if call.relay.form is Form.JSON:
            body = self._rewrite(route.engine, call.model, body)
        connection.begin(call, self._heads.of(call, route, address, len(body)), body)

    def _manners_for(self, engine: str) -> Manners:
        manners = self._manners.get(engine)
        if manners is None:
            manners = self._manners[engine] = self._manners_of(engine)
        return manners
