"""The front desk: judges a request by its head, answers what needs no engine, and enters the rest.

Nothing here waits. A request that is well-formed, authenticated and within its limits becomes a
``Call`` and one ``RequestArrived``; everything else is answered on the spot.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Mapping
from hashlib import sha256
from zlib import crc32

from tidegate.config.hosts import Hosts
from tidegate.config.settings import GatewaySettings
from tidegate.core.events import RequestArrived
from tidegate.core.types import ModelId, RequestId
from tidegate.gateway import heartbeat, media, routes
from tidegate.gateway.auth import ANYBODY, Keys
from tidegate.gateway.call import Call
from tidegate.gateway.client import ClientConnection
from tidegate.gateway.errors import Refusal, invalid, misdirected, refusal_answer, too_large, unauthorised
from tidegate.gateway.gate import BODILESS, Head, read_head
from tidegate.gateway.heads import LENGTH_DIGITS_MAX, Key, apart
from tidegate.gateway.intake import Budget
from tidegate.gateway.meters import Meters
from tidegate.gateway.names import Named
from tidegate.gateway.pages import Pages
from tidegate.gateway.porter import Porter
from tidegate.gateway.prefix_hash import BLOCK_BYTES, IMAGE_MARK, NOTHING, Hashed, PromptHasher
from tidegate.gateway.resume import transcript_of
from tidegate.gateway.routes import OPEN_PAGES, Relay
from tidegate.gateway.visit import Verdict

BYTES_PER_TOKEN = 4
"""English text in JSON, roughly; the engine's own count replaces the estimate when it comes."""

BLOCK_TOKENS = BLOCK_BYTES // BYTES_PER_TOKEN

TIMEOUT = re.compile(rb"[0-9]{1,6}(?:\.[0-9]{1,6})?")
SESSION_DIGITS = 16
SPILL_FIELD = b"x-tidegate-spill"
"""``never``: the request is not to leave the house."""
MARK_BYTES = 512
VERDICTS_MAX = 512
VERDICT_BYTES_MAX = 2048
NOBODY = Named(ModelId("?"))
"""Whatever name a client asked for that is none of ours."""
LONG_BODY = 8 * 1024
"""Bytes up to which hashing a prompt costs less than a look whether it is worth it."""
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
        names: Callable[[], Mapping[str, Named]],
        metrics_page: Callable[[], bytes],
        now_s: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.stopping = False
        self.resumes: Callable[[ModelId], bool] = lambda _model: False
        """Whether streams of this model are to be taken up by another replica when they break off."""
        self.clients: set[ClientConnection] = set()
        self.bodies = Budget(_body_room(settings))
        self._hosts = Hosts(settings.host)
        self._keys = Keys(settings.keys)
        self._verdicts: dict[Key, Verdict] = {}
        """Good heads, without the digits of their length: a client repeats its head with every request,
        and the same bytes get the same judgement, at a fifth of the cost."""
        self._names = names
        self._hasher = PromptHasher()
        self._porter = porter
        self._meters = meters
        self._pages = Pages(names, metrics_page, started_s=int(now_s()))
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
        self._verdicts.clear()
        self.bodies.limit = _body_room(settings)

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

    def cut_off(self, *, reason: str) -> None:
        self._meters.cut_off(reason=reason)

    def judge(self, raw: bytes) -> tuple[Verdict, int | None]:
        """Judge a head, or remember how it was judged."""
        key, length = apart(raw)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._judge_anew(raw, key)
            length = verdict.head.length
        elif length is None:
            length = verdict.head.length
        limit = self.settings.max_body_bytes
        if length is not None and length > limit and verdict.refusal is None:
            refused = Verdict(verdict.head)
            refused.refusal = too_large(limit)
            return refused, length
        return verdict, length

    def _judge_anew(self, raw: bytes, key: Key) -> Verdict:
        settings = self.settings
        head = read_head(raw, max_bytes=settings.max_header_bytes, max_fields=settings.max_header_fields)
        verdict = Verdict(head)
        try:
            self._check(verdict, head)
        except Refusal as refusal:
            verdict.refusal = refusal
            return verdict
        if self._is_memorable(raw, key, head):
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            self._verdicts[key] = verdict
        return verdict

    def _is_memorable(self, raw: bytes, key: Key, head: Head) -> bool:
        """Whether every head with this key would be judged alike, and more of them may come."""
        if not isinstance(key, bytes) and head.method in BODILESS:
            return False  # There a length of 0 is the only good one.
        # Digits count as bytes of the head: one with more of them could be too large.
        longest = min(VERDICT_BYTES_MAX, self.settings.max_header_bytes - LENGTH_DIGITS_MAX)
        return len(raw) <= longest and head.fields.keys().isdisjoint(UNIQUE)

    def _check(self, verdict: Verdict, head: Head) -> None:
        """What the head alone rules out: host, path, method, key, media type, time limit."""
        host = head.fields.get(b"host")
        if host is not None and not self.settings.keys and not self._hosts.allow(host.decode()):
            raise misdirected()
        found = verdict.found = routes.find(head.method, head.path)
        owner = self._keys.client(head.fields.get(b"authorization"))
        if owner is None:
            if found is not None and found not in OPEN_PAGES:
                raise unauthorised()
            owner = ANYBODY
        verdict.owner = owner
        if isinstance(found, Relay):
            media.check(head, found)
            verdict.timeout_s = self._timeout_s(head)
            verdict.heartbeat_s = heartbeat.seconds(head.fields.get(b"x-queue-heartbeat"))
            session = head.fields.get(b"x-session-id")
            verdict.session = None if session is None else _session(session)
            stays = head.fields.get(SPILL_FIELD, b"").lower() == b"never"
            verdict.may_spill = found.spills and owner.may_spill and not stays
            verdict.forward = media.forward(head, found)

    def take(self, client: ClientConnection, verdict: Verdict, body: bytes) -> None:
        """Answer a whole request, or enter it."""
        head, found = verdict.head, verdict.found
        if isinstance(found, Relay):
            try:
                self._enter(client, verdict, found, body)
            except Refusal as refusal:
                self.refused(refusal)
                keep_alive = head.keep_alive and client.may_keep_alive
                answer = refusal_answer(refusal, request_id=self.name(head), keep_alive=keep_alive)
                client.answer(answer, keep_alive=keep_alive)
        else:
            keep_alive = head.keep_alive and client.may_keep_alive
            answer = self._pages.answer(head, found, stopping=self.stopping, keep_alive=keep_alive)
            client.answer(answer, keep_alive=keep_alive)

    # ---- requests for engines ----

    def _enter(self, client: ClientConnection, verdict: Verdict, relay: Relay, body: bytes) -> None:
        head, owner = verdict.head, verdict.owner
        asked = media.read(head, relay, body)
        request_id, echo = self._ids(head)
        session = verdict.session
        if session is None and asked.prompt_cache_key is not None:
            session = _session(asked.prompt_cache_key.encode())
        named = self._names().get(asked.model)
        if named is None:
            # A name that nobody knows is for the dispatcher to refuse, which counts it. It may be anything, a key
            # pasted into the wrong field too, so it does not go into the journal.
            named = NOBODY

        def arrived(hashed: Hashed) -> RequestArrived:
            return RequestArrived(
                request_id,
                named.model,
                (len(body) - hashed.image_bytes) // BYTES_PER_TOKEN + 1,
                asked.output_tokens_limit,
                len(body),
                self._now_s() + verdict.timeout_s,
                owner.flow,
                owner.priority,
                named.adapter,
                bool(asked.stream),
                hashed.chain,
                BLOCK_TOKENS,
                weight=owner.weight,
                session=session,
                again=_mark(body),
                may_spill=verdict.may_spill,
            )

        hashed = NOTHING
        if named.uses_prefixes and relay.reuses:
            # It takes up to 10 ms for a prompt of 100,000 tokens: not for one that is turned away. Pictures count for
            # less than their bytes, so where there are some only this tells the prompt's size.
            is_long = len(body) > LONG_BODY and IMAGE_MARK not in body
            if not (is_long and self._porter.foresees_refusal(arrived(NOTHING))):
                hashed = self._hasher.hashed(asked, owner.flow, named.model, named.adapter)
        call = Call(
            client,
            request_id,
            echo,
            relay,
            named.model,
            body,
            verdict.forward,
            streams=bool(asked.stream),
            http10=head.http10,
            keep_alive=head.keep_alive,
        )
        client.call = call
        if named is NOBODY:
            call.unknown = asked.model
        call.heartbeat_s = verdict.heartbeat_s
        if call.streams and self.resumes(named.model):
            call.transcript = transcript_of(relay, body)
        self._porter.submit(call, arrived(hashed))

    def name(self, head: Head | None) -> bytes:
        """What a request is called that gets no further than this: by its client, or else by a number of ours."""
        if head is not None and head.request_id is not None:
            return head.request_id
        return f"{self._id_prefix}{next(self._numbers)}".encode()

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


def _session(name: bytes) -> str:
    """A conversation's name as the dispatcher and the journal get it: clients name users in it, and a megabyte of it
    would be looked at byte by byte for each version."""
    return sha256(name).hexdigest()[:SESSION_DIGITS]


def _body_room(settings: GatewaySettings) -> int:
    """A body of the largest size must have a chance when it is alone."""
    return max(settings.max_bodies_bytes, settings.max_body_bytes)
