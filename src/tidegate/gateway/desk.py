"""The front desk: judges a request by its head, answers what needs no engine, and enters the rest.

Nothing here waits. A request that is well-formed, authenticated and within its limits becomes a
``Call`` and one ``RequestArrived``; everything else is answered on the spot.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from zlib import crc32

from tidegate.config.settings import GatewaySettings
from tidegate.core.events import RequestArrived
from tidegate.core.types import ModelId, RequestId
from tidegate.gateway import heartbeat, routes
from tidegate.gateway.auth import ANYBODY, Keys
from tidegate.gateway.body import Asked, read_json
from tidegate.gateway.call import Call
from tidegate.gateway.client import ClientConnection
from tidegate.gateway.errors import Refusal, invalid, refusal_answer, too_large, unauthorised
from tidegate.gateway.gate import LENGTH_FIELD, Head, read_head
from tidegate.gateway.meters import Meters
from tidegate.gateway.multipart import boundary_of, read_form
from tidegate.gateway.names import Named
from tidegate.gateway.pages import Pages
from tidegate.gateway.porter import Porter
from tidegate.gateway.prefix_hash import BLOCK_BYTES, NOTHING, PromptHasher
from tidegate.gateway.resume import transcript_of
from tidegate.gateway.routes import OPEN_PAGES, Form, Relay
from tidegate.gateway.visit import Ticket

BYTES_PER_TOKEN = 4
"""English text in JSON, roughly; the engine's own count replaces the estimate when it comes."""

BLOCK_TOKENS = BLOCK_BYTES // BYTES_PER_TOKEN

TIMEOUT = re.compile(rb"[0-9]{1,6}(?:\.[0-9]{1,6})?")
TRACE_FIELD = re.compile(rb"[ -~]{1,512}")
SESSION_BYTES_MAX = 256
MARK_BYTES = 512
TICKETS_MAX = 512
TICKET_BYTES_MAX = 2048
UNIQUE = frozenset({b"x-request-id", b"x-session-id", b"traceparent", b"tracestate"})
"""What makes a head unlike all others; remembering it would only push others out."""
CONNECTIONS_TOLD = 256
"""Connections above the bound that are still told why; beyond that they are closed unheard."""


class FrontDesk:
    """Where every request is first seen."""

    def __init__(
        self,
        settings: GatewaySettings,
        porter: Porter,
        meters: Meters,
        models: Callable[[], Sequence[str]],
        metrics_page: Callable[[], bytes],
        now_s: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.stopping = False
        self.resumes: Callable[[ModelId], bool] = lambda _model: False
        """Whether streams of this model are to be taken up by another replica when they break off."""
        self.names: Mapping[str, Named] = {}
        """What stands behind the names that clients may ask for."""
        self.clients: set[ClientConnection] = set()
        self._keys = Keys(settings.keys)
        self._tickets: dict[bytes, Ticket] = {}
        """Good heads, without the digits of their length: a client repeats its head with every request,
        and the same bytes get the same judgement, at a fifth of the cost."""
        self._hasher = PromptHasher()
        self._porter = porter
        self._meters = meters
        self._pages = Pages(models, metrics_page, started_s=int(now_s()))
        self._now_s = now_s
        # A start's own prefix keeps ids of two starts, and of two gateways, apart in their journals.
        self._id_prefix = f"req-{secrets.token_hex(4)}-"
        self._numbers = itertools.count(1)

    def __repr__(self) -> str:
        return f"<FrontDesk clients={len(self.clients)} stopping={self.stopping}>"

    def configure(self, settings: GatewaySettings) -> None:
        """New limits and keys, for what is judged from here on."""
        self.settings = settings
        self._keys = Keys(settings.keys)
        self._tickets.clear()

    # ---- what connections ask of the desk ----

    def arrived(self, client: ClientConnection) -> bool:
        self.clients.add(client)
        if len(self.clients) > self.settings.max_connections + CONNECTIONS_TOLD:
            client.abort()
        return len(self.clients) <= self.settings.max_connections

    def left(self, client: ClientConnection) -> None:
        self.clients.discard(client)

    def gone(self, call: Call) -> None:
        self._porter.gone(call)

    def refused(self, refusal: Refusal) -> None:
        self._meters.refused(refusal.outcome, refusal.reason)

    def judge(self, raw: bytes) -> tuple[Ticket, int | None]:
        """Judge a head, or remember how it was judged."""
        digits = LENGTH_FIELD.search(raw)
        key = raw if digits is None else raw[: digits.start(1)] + raw[digits.end(1) :]
        ticket = self._tickets.get(key)
        if ticket is None:
            ticket = self._judge_anew(raw, key)
            length = ticket.head.length
        else:
            length = ticket.head.length if digits is None else int(digits[1])
        limit = self.settings.max_body_bytes
        if length is not None and length > limit and ticket.refusal is None:
            refused = Ticket(ticket.head)
            refused.refusal = too_large(limit)
            return refused, length
        return ticket, length

    def _judge_anew(self, raw: bytes, key: bytes) -> Ticket:
        settings = self.settings
        head = read_head(raw, max_bytes=settings.max_header_bytes, max_fields=settings.max_header_fields)
        ticket = Ticket(head)
        try:
            self._check(ticket, head)
        except Refusal as refusal:
            ticket.refusal = refusal
            return ticket
        if len(key) <= TICKET_BYTES_MAX and head.fields.keys().isdisjoint(UNIQUE):
            if len(self._tickets) >= TICKETS_MAX:
                self._tickets.clear()
            self._tickets[key] = ticket
        return ticket

    def _check(self, ticket: Ticket, head: Head) -> None:
        """What the head alone rules out: path, method, key, media type, time limit."""
        found = ticket.found = routes.find(head.method, head.path)
        owner = self._keys.client(head.fields.get(b"authorization"))
        if owner is None:
            if found is not None and found not in OPEN_PAGES:
                raise unauthorised()
            owner = ANYBODY
        ticket.owner = owner
        if isinstance(found, Relay):
            _check_media(head, found)
            ticket.timeout_s = self._timeout_s(head)
            ticket.heartbeat_s = heartbeat.seconds(head.fields.get(b"x-queue-heartbeat"))
            session = head.fields.get(b"x-session-id")
            ticket.session = None if session is None else session[:SESSION_BYTES_MAX].decode("latin-1")
            ticket.forward = _forward(head, found)

    def take(self, client: ClientConnection, ticket: Ticket, body: bytes) -> None:
        """Answer a whole request, or enter it."""
        head, found = ticket.head, ticket.found
        if isinstance(found, Relay):
            try:
                self._enter(client, ticket, found, body)
            except Refusal as refusal:
                self.refused(refusal)
                keep_alive = head.keep_alive and client.may_keep_alive
                answer = refusal_answer(refusal, request_id=head.request_id or b"", keep_alive=keep_alive)
                client.answer(answer, keep_alive=keep_alive)
        else:
            keep_alive = head.keep_alive and client.may_keep_alive
            answer = self._pages.answer(head, found, stopping=self.stopping, keep_alive=keep_alive)
            client.answer(answer, keep_alive=keep_alive)

    # ---- requests for engines ----

    def _enter(self, client: ClientConnection, ticket: Ticket, relay: Relay, body: bytes) -> None:
        head, owner = ticket.head, ticket.owner
        asked = _read(head, relay, body)
        request_id, echo = self._ids(head)
        named = self.names.get(asked.model)
        hashed = NOTHING
        if named is None:
            model, adapter = ModelId(asked.model), None
        else:
            model, adapter = named.model, named.adapter
            if named.uses_prefixes and relay.reuses:
                hashed = self._hasher.hashed(asked, owner.flow, model, adapter)
        call = Call(
            client,
            request_id,
            echo,
            relay,
            model,
            body,
            ticket.forward,
            streams=bool(asked.stream),
            http10=head.http10,
            keep_alive=head.keep_alive,
        )
        client.call = call
        call.heartbeat_s = ticket.heartbeat_s
        if call.streams and self.resumes(model):
            call.transcript = transcript_of(relay, body)
        self._porter.submit(
            call,
            RequestArrived(
                request_id,
                model,
                (len(body) - hashed.image_bytes) // BYTES_PER_TOKEN + 1,
                asked.output_tokens_limit,
                len(body),
                self._now_s() + ticket.timeout_s,
                owner.flow,
                owner.priority,
                adapter,
                call.streams,
                hashed.chain,
                BLOCK_TOKENS,
                weight=owner.weight,
                session=asked.prompt_cache_key if ticket.session is None else ticket.session,
                again=_mark(body),
            ),
        )

    def _ids(self, head: Head) -> tuple[RequestId, bytes]:
        """Ours, unique for the journal, and the one that the client is shown. A client's own id is
        echoed as it came, and made unique by a number of ours: clients reuse theirs when they retry."""
        number = next(self._numbers)
        if head.request_id is None:
            request_id = self._id_prefix + str(number)
            return RequestId(request_id), request_id.encode()
        return RequestId(f"{head.request_id.decode()}/{self._id_prefix[4:]}{number}"), head.request_id

    def _timeout_s(self, head: Head) -> float:
        limit_s = self.settings.request_timeout_s
        asked = head.fields.get(b"x-request-timeout-s")
        if asked is None:
            return limit_s
        if not TIMEOUT.fullmatch(asked) or float(asked) <= 0:
            raise invalid("x-request-timeout-s is not a number of seconds above 0", "x-request-timeout-s")
        return min(limit_s, float(asked))


def _mark(body: bytes) -> int:
    """What a request has in common with itself when it is sent again: it begins and ends alike."""
    return crc32(body[-MARK_BYTES:], crc32(body[:MARK_BYTES]))


def _check_media(head: Head, relay: Relay) -> None:
    """The body's media type. Asking for exactly ours also keeps web pages out: a browser sends such a
    request to a gateway on the user's own machine only after a permission that we never give."""
    plain = head.fields.get(b"content-type") == b"application/json" and b"content-encoding" not in head.fields
    if plain and relay.form is Form.JSON:
        return
    coding = head.fields.get(b"content-encoding", b"identity")
    media = head.fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if coding.lower() != b"identity" or media != relay.form.value.encode():
        wanted = f"{relay.form.value}, not compressed"
        raise Refusal(415, f"{relay.path} takes {wanted}", reason="media_type", code="unsupported_media_type")
    if relay.form is Form.MULTIPART and boundary_of(head.fields[b"content-type"]) is None:
        raise Refusal(
            415,
            "the form's boundary is missing or malformed",
            reason="media_type",
            code="unsupported_media_type",
        )


def _read(head: Head, relay: Relay, body: bytes) -> Asked:
    if relay.form is Form.JSON:
        return read_json(body)
    boundary = boundary_of(head.fields[b"content-type"])
    assert boundary is not None
    return read_form(body, boundary)


def _forward(head: Head, relay: Relay) -> bytes:
    """The few headers that an engine gets to see, as lines. The key is not among them."""
    fields = head.fields
    if relay.form is Form.JSON:
        lines = b"content-type: application/json\r\n"
    else:
        lines = b"content-type: %b\r\n" % fields[b"content-type"]
    for name in (b"accept", b"traceparent", b"tracestate"):
        value = fields.get(name)
        if value is not None and TRACE_FIELD.fullmatch(value):
            lines += b"%b: %b\r\n" % (name, value)
    return lines
