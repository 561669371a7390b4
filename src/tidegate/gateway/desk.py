"""The front desk: has a request judged by its head, answers what needs no engine, and enters the rest.

Nothing here waits. A request that is well-formed, authenticated and within its limits becomes a
``Call`` and one ``RequestArrived``; everything else is answered on the spot.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping
from zlib import crc32

from tidegate.config.settings import GatewaySettings
from tidegate.core.events import RequestArrived
from tidegate.core.types import ModelId, RequestId
from tidegate.gateway import media
from tidegate.gateway.call import Call
from tidegate.gateway.client import ClientConnection
from tidegate.gateway.errors import Refusal, refusal_answer
from tidegate.gateway.gate import Head
from tidegate.gateway.intake import Budget
from tidegate.gateway.judge import Judge, session_name
from tidegate.gateway.meters import Meters
from tidegate.gateway.names import Named
from tidegate.gateway.pages import Pages
from tidegate.gateway.porter import Porter
from tidegate.gateway.prefix_hash import BLOCK_BYTES, IMAGE_MARK, NOTHING, Hashed, PromptHasher
from tidegate.gateway.resume import transcript_of
from tidegate.gateway.routes import Relay
from tidegate.gateway.visit import Verdict

BYTES_PER_TOKEN = 4
"""English text in JSON, roughly; the engine's own count replaces the estimate when it comes."""

BLOCK_TOKENS = BLOCK_BYTES // BYTES_PER_TOKEN

MARK_BYTES = 512
NOBODY = Named(ModelId("?"))
"""Whatever name a client asked for that is none of ours."""
LONG_BODY = 8 * 1024
"""Bytes up to which hashing a prompt costs less than a look whether it is worth it."""
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
        self._judge = Judge(settings)
        self.judge: Callable[[bytes], tuple[Verdict, int | None]] = self._judge.judge
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
        self._judge.configure(settings)
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
            session = session_name(asked.prompt_cache_key.encode())
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


def _mark(body: bytes) -> int:
    """What a request has in common with itself when it is sent again: it begins and ends alike."""
    return crc32(body[-MARK_BYTES:], crc32(body[:MARK_BYTES]))


def _body_room(settings: GatewaySettings) -> int:
    """A body of the largest size must have a chance when it is alone."""
    return max(settings.max_bodies_bytes, settings.max_body_bytes)
