"""From the order to send a request to a connection that carries it: one at rest, or a new one."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from time import monotonic

from tidegate.adapters.base import Manners
from tidegate.core.events import Failure
from tidegate.core.types import Address, Route
from tidegate.gateway.body import named
from tidegate.gateway.call import Attendant, Call
from tidegate.gateway.outgoing import RequestHeads
from tidegate.gateway.outlet import ENGINE, MANNERS, tls_context
from tidegate.gateway.pool import Pool
from tidegate.gateway.routes import Form
from tidegate.gateway.upstream import UpstreamConnection

log = logging.getLogger(__name__)

Rewrite = Callable[[Route, bytes], bytes]
"""Engine name, model and body to the body as this engine must get it."""


class Dialler:
    """Owns the connections to engines."""

    def __init__(
        self,
        attendant: Attendant,
        manners: Callable[[str], Manners],
        rewrite: Rewrite,
        connect_timeout_s: Callable[[], float],
    ) -> None:
        """``attendant`` hears how attempts go; ``connect_timeout_s`` may change with the settings."""
        self.pool = Pool()
        self._attendant = attendant
        self._manners_of = manners
        self._manners: dict[str, Manners] = {ENGINE: MANNERS}
        self._rewrite = rewrite
        self._connect_timeout_s = connect_timeout_s
        self._heads = RequestHeads()
        self._tls: ssl.SSLContext | None = None
        self._loop: asyncio.AbstractEventLoop

    def __repr__(self) -> str:
        return f"<Dialler {self.pool!r}>"

    def start(self) -> None:
        """Begin; called on the event loop."""
        # Kept, since asking for it costs a system call in Python 3.11 (getpid).
        self._loop = asyncio.get_running_loop()

    def attempt(self, call: Call, route: Route) -> None:
        """Pass the call on to whoever this route leads to."""
        call.route = route
        call.redialled = False
        if route.address is None:
            self._attendant.attempt_failed(call, Failure.REFUSED, None)
            return
        connection = self.pool.take(route.replica_id, monotonic())
        while connection is not None and call.outlet is not None and connection.route is not route:
            connection.drop()  # Made under an earlier policy: it may lead to another place.
            connection = self.pool.take(route.replica_id, monotonic())
        if connection is None:
            self._dial(call, route, route.address)
        else:
            self._hand_over(call, connection, route, route.address)

    def redial(self, call: Call) -> None:
        """The same attempt, on a fresh connection."""
        route = call.route
        assert route is not None
        assert route.address is not None
        self._dial(call, route, route.address)

    def detach(self, call: Call) -> None:
        """Stop whatever is under way for this call."""
        if call.connecting is not None:
            call.connecting.cancel()
            call.connecting = None
        if call.upstream is not None:
            call.upstream.drop()

    def manners_for(self, engine: str) -> Manners:
        """How this kind of engine behaves."""
        manners = self._manners.get(engine)
        if manners is None:
            manners = self._manners[engine] = self._manners_of(engine)
        return manners

    def sweep(self) -> None:
        """Forget what is made anew in no time."""
        self._heads.clear()

    def _dial(self, call: Call, route: Route, address: Address) -> None:
        call.connecting = self._loop.create_task(self._connect(call, route, address))

    async def _connect(self, call: Call, route: Route, address: Address) -> None:
        """Open a connection for this call; the only coroutine on a request's way."""
        connection = UpstreamConnection(self._attendant, route, self.manners_for(route.engine))
        try:
            async with asyncio.timeout(self._connect_timeout_s()):
                await self._loop.create_connection(
                    lambda: connection, address.host, address.port, ssl=self._tls_for(call)
                )
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
            elif call.outlet is not None:
                log.warning(
                    "the upstream of %s cannot be reached: %s", route.model, str(error) or "no answer in time"
                )
            self.pool.lost(connection)
            call.connecting = None
            self._attendant.attempt_failed(call, Failure.REFUSED, None)
            return
        call.connecting = None
        self._hand_over(call, connection, route, address)

    def _tls_for(self, call: Call) -> ssl.SSLContext | None:
        if call.outlet is None or not call.outlet.tls:
            return None
        if self._tls is None:
            self._tls = tls_context()  # Reading all certificates takes 20 ms, so not before the first time.
        return self._tls

    def _hand_over(self, call: Call, connection: UpstreamConnection, route: Route, address: Address) -> None:
        if call.outlet is not None:
            body = call.outlet.body(call)
            connection.begin(call, call.outlet.head(call, len(body)), body)
            return
        body = call.body
        if call.transcript is not None:
            body = call.transcript.body(connection.manners)
        if call.relay.form is Form.JSON:
            if route.model != call.model:
                body = named(body, route.model)
            body = self._rewrite(route, body)
        connection.begin(call, self._heads.of(call, route, address, len(body)), body)
