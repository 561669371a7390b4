"""What a client is told when it gets no answer from an engine: OpenAI's error shape, always.

A message says what to do and never repeats what the client sent beyond a model's or a field's name:
prompts, keys and fragments of JSON that could not be read stay out of it.
"""

from __future__ import annotations

import math

import msgspec

from tidegate.core.outcomes import MEANING, Outcome
from tidegate.gateway.heads import STATUS_LINES

NAME_SHOWN = 64
"""Characters of a model's name that is not known here."""

CRLF = b"\r\n"


class Refusal(Exception):
    """A request that is turned away at the door, before the dispatcher hears of it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        reason: str,
        code: str = "invalid_request",
        kind: str = "invalid_request_error",
        param: str | None = None,
        outcome: Outcome = Outcome.REJECTED_INVALID,
        allow: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.reason = reason
        """The metric label: a word from a fixed set."""
        self.code = code
        self.kind = kind
        self.param = param
        self.outcome = outcome
        self.allow = allow


def malformed(message: str) -> Refusal:
    """Not HTTP as we read it. The connection is closed: where the next request begins is unknown."""
    return Refusal(400, message, reason="malformed_http", code="malformed_request")


def invalid(message: str, param: str | None = None) -> Refusal:
    """Good HTTP with a body or field that is not what the API describes."""
    return Refusal(400, message, reason="invalid_body", param=param)


def too_large(limit_bytes: int) -> Refusal:
    """More body than is accepted."""
    meaning = MEANING[Outcome.REJECTED_TOO_LARGE]
    return Refusal(
        meaning.status,
        f"the request body is larger than {limit_bytes} bytes",
        reason="body_too_large",
        code=meaning.code,
        outcome=Outcome.REJECTED_TOO_LARGE,
    )


def too_many_connections() -> Refusal:
    """More than are accepted; said before anything was asked."""
    return _no_room("there are too many connections to this gateway", reason="too_many_connections")


def too_many_bodies() -> Refusal:
    """More bytes of bodies are on their way than are kept in memory."""
    return _no_room("too many request bodies are being received at once", reason="too_many_bodies")


def _no_room(message: str, *, reason: str) -> Refusal:
    return Refusal(
        503,
        message,
        reason=reason,
        code=reason,
        kind="service_unavailable_error",
        outcome=Outcome.REJECTED_FULL,
    )


def misdirected() -> Refusal:
    """Asked for by a name that is not ours while nobody has to show a key."""
    return Refusal(
        421,
        "this address is not known here by that name; without gateway.keys only loopback names are",
        reason="unknown_host",
        code="misdirected_request",
    )


def unauthorised() -> Refusal:
    """No key, or none that we know."""
    meaning = MEANING[Outcome.REJECTED_UNAUTHORISED]
    return Refusal(
        meaning.status,
        "the API key is missing or not known here; send it as 'Authorization: Bearer KEY'",
        reason="unauthorised",
        code=meaning.code,
        kind=meaning.error_type,
        outcome=Outcome.REJECTED_UNAUTHORISED,
    )


def error_body(message: str, kind: str, code: str, param: str | None = None) -> bytes:
    """OpenAI's error object."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return msgspec.json.encode({"error": error})


def error_event(message: str, kind: str, code: str) -> bytes:
    """The same as one server-sent event."""
    return b"data: " + error_body(message, kind, code) + b"\n\n"


def error_answer(
    status: int,
    body: bytes,
    *,
    request_id: bytes,
    retry_helps: bool,
    retry_after_s: float | None = None,
    keep_alive: bool = True,
    allow: str | None = None,
) -> bytes:
    """A whole response. 429 and 503 always say when to come back: without it OpenAI's client returns
    after half a second, three times in all, and triples the overload."""
    if retry_after_s is None and status in (429, 503):
        retry_after_s = 1.0
    lines = [
        STATUS_LINES[status],
        b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body),
        b"x-request-id: %b\r\n" % request_id if request_id else b"",
    ]
    if retry_after_s is not None:
        lines.append(b"retry-after: %d\r\n" % max(1, math.ceil(retry_after_s)))
        lines.append(b"retry-after-ms: %d\r\n" % max(1, math.ceil(retry_after_s * 1000)))
    if not retry_helps:
        lines.append(b"x-should-retry: false\r\n")
    if status == 401:
        lines.append(b"www-authenticate: Bearer\r\n")
    if allow is not None:
        lines.append(b"allow: %b\r\n" % allow.encode())
    if not keep_alive:
        lines.append(b"connection: close\r\n")
    return b"".join((*lines, CRLF, body))


def refusal_answer(refusal: Refusal, *, request_id: bytes, keep_alive: bool) -> bytes:
    """A refusal as a whole response."""
    return error_answer(
        refusal.status,
        error_body(refusal.message, refusal.kind, refusal.code, refusal.param),
        request_id=request_id,
        # Too slow or too many connections may go better the next time; the rest is wrong for good.
        retry_helps=refusal.status in (408, 503),
        keep_alive=keep_alive,
        allow=refusal.allow,
    )


def unknown_model(name: str) -> str:
    """Why a model's name is refused, for whoever asked for it."""
    shown = name if len(name) <= NAME_SHOWN else name[:NAME_SHOWN] + "..."
    return f"the model {shown!r} is not configured here"


def outcome_answer(
    outcome: Outcome, because: str, *, request_id: bytes, retry_after_s: float | None, keep_alive: bool
) -> bytes:
    """The dispatcher's rejection as a whole response."""
    meaning = MEANING[outcome]
    param = "model" if outcome is Outcome.REJECTED_UNKNOWN_MODEL else None
    return error_answer(
        meaning.status,
        error_body(because, meaning.error_type, meaning.code, param),
        request_id=request_id,
        retry_helps=meaning.retry_helps,
        retry_after_s=retry_after_s,
        keep_alive=keep_alive,
    )


def outcome_event(outcome: Outcome, because: str) -> bytes:
    """The dispatcher's rejection as the last event of a stream that has begun."""
    meaning = MEANING[outcome]
    return error_event(because, meaning.error_type, meaning.code)
