"""Judges a request by its head, and remembers how it judged heads that come again and again.

What the head alone rules out is refused here: host, path, method, key, media type, time limit.
"""

from __future__ import annotations

import re
from hashlib import sha256

from tidegate.config.hosts import Hosts
from tidegate.config.settings import GatewaySettings
from tidegate.gateway import heartbeat, media, routes
from tidegate.gateway.auth import ANYBODY, Keys
from tidegate.gateway.errors import Refusal, invalid, misdirected, too_large, unauthorised
from tidegate.gateway.gate import BODILESS, Head, read_head
from tidegate.gateway.heads import LENGTH_DIGITS_MAX, Key, apart
from tidegate.gateway.routes import OPEN_PAGES, Relay
from tidegate.gateway.visit import Verdict

TIMEOUT = re.compile(rb"[0-9]{1,6}(?:\.[0-9]{1,6})?")
SESSION_DIGITS = 16
SPILL_FIELD = b"x-tidegate-spill"
"""``never``: the request is not to leave the house."""
VERDICTS_MAX = 512
VERDICT_BYTES_MAX = 2048
UNIQUE = frozenset({b"x-request-id", b"x-session-id", b"traceparent", b"tracestate"})
"""What makes a head unlike all others; remembering it would only push others out."""


class Judge:
    """Whose a request is and where it goes, or why it goes nowhere."""

    __slots__ = ("_hosts", "_keys", "_settings", "_verdicts")

    def __init__(self, settings: GatewaySettings) -> None:
        self._hosts = Hosts(settings.host)
        self._verdicts: dict[Key, Verdict] = {}
        """Good heads, without the digits of their length: a client repeats its head with every request,
        and the same bytes get the same judgement, at a fifth of the cost."""
        self.configure(settings)

    def __repr__(self) -> str:
        return f"<Judge verdicts={len(self._verdicts)}>"

    def configure(self, settings: GatewaySettings) -> None:
        """New limits and keys; what was judged by others is forgotten."""
        self._settings = settings
        self._keys = Keys(settings.keys)
        self._verdicts.clear()

    def judge(self, raw: bytes) -> tuple[Verdict, int | None]:
        """Judge a head, or remember how it was judged."""
        key, length = apart(raw)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._judge_anew(raw, key)
            length = verdict.head.length
        elif length is None:
            length = verdict.head.length
        limit = self._settings.max_body_bytes
        if length is not None and length > limit and verdict.refusal is None:
            refused = Verdict(verdict.head)
            refused.refusal = too_large(limit)
            return refused, length
        return verdict, length

    def _judge_anew(self, raw: bytes, key: Key) -> Verdict:
        settings = self._settings
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
        longest = min(VERDICT_BYTES_MAX, self._settings.max_header_bytes - LENGTH_DIGITS_MAX)
        return len(raw) <= longest and head.fields.keys().isdisjoint(UNIQUE)

    def _check(self, verdict: Verdict, head: Head) -> None:
        """What the head alone rules out: host, path, method, key, media type, time limit."""
        host = head.fields.get(b"host")
        if host is not None and not self._settings.keys and not self._hosts.allow(host.decode()):
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
            verdict.session = None if session is None else session_name(session)
            stays = head.fields.get(SPILL_FIELD, b"").lower() == b"never"
            verdict.may_spill = found.spills and owner.may_spill and not stays
            verdict.forward = media.forward(head, found)

    def _timeout_s(self, head: Head) -> float:
        limit_s = self._settings.request_timeout_s
        asked = head.fields.get(b"x-request-timeout-s")
        if asked is None:
            return limit_s
        if not TIMEOUT.fullmatch(asked) or float(asked) <= 0:
            raise invalid("x-request-timeout-s is not a number of seconds above 0", "x-request-timeout-s")
        return min(limit_s, float(asked))


def session_name(name: bytes) -> str:
    """A conversation's name as the dispatcher and the journal get it: clients name users in it, and a megabyte of it
    would be looked at byte by byte for each version."""
    return sha256(name).hexdigest()[:SESSION_DIGITS]
