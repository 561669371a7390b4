"""The exact list of methods and paths. What is not in it is 404, so a new route of an engine never
becomes reachable by accident."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from tidegate.gateway.errors import Refusal


class Form(Enum):
    """How a relayed request's body is written."""

    JSON = "application/json"
    MULTIPART = "multipart/form-data"


class Page(Enum):
    """What the gateway answers by itself."""

    MODELS = "/v1/models"
    HEALTH = "/health"
    READY = "/ready"
    METRICS = "/metrics"


@dataclass(frozen=True, slots=True)
class Relay:
    """A route whose requests go to an engine."""

    path: str
    form: Form = Form.JSON
    final: re.Pattern[bytes] | None = None
    """What a stream holds near its end when it is complete. A connection that ends in good order is
    not enough: an engine that is told to stop may end it so. None: the route has no streams."""
    idle_events: int = 1
    """Events of a stream that carry no token: the role, the finish, the end mark."""
    reuses: bool = False
    """Engines keep the beginnings of its prompts and find them again."""
    spills: bool = False
    """Pay-per-token upstreams have it too, and charge for its tokens."""


# Searched in raw chunks: a line break stands before "data:" in any case, the chunk's own at least,
# and inside JSON a line break and a quotation mark would be escaped.
DONE = re.compile(rb"[\r\n]data: ?\[DONE\]")
TRANSCRIPT_DONE = re.compile(rb'"type": ?"transcript\.text\.done"|[\r\n]data: ?\[DONE\]')
SPEECH_DONE = re.compile(rb'"type": ?"speech\.audio\.done"|[\r\n]data: ?\[DONE\]')
RESPONSE_DONE = re.compile(rb'"type": ?"response\.(?:completed|incomplete|failed)"|[\r\n]data: ?\[DONE\]')

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"

RELAYS = {
    relay.path: relay
    for relay in (
        Relay(CHAT, final=DONE, idle_events=3, reuses=True, spills=True),
        Relay(COMPLETIONS, final=DONE, reuses=True, spills=True),
        Relay("/v1/embeddings", spills=True),
        Relay("/v1/responses", final=RESPONSE_DONE, idle_events=8, reuses=True, spills=True),
        Relay("/v1/audio/transcriptions", form=Form.MULTIPART, final=TRANSCRIPT_DONE),
        Relay("/v1/audio/translations", form=Form.MULTIPART, final=TRANSCRIPT_DONE),
        Relay("/v1/audio/speech", final=SPEECH_DONE),
        Relay("/v1/rerank"),
    )
}
PAGES = {page.value: page for page in Page}

OPEN_PAGES = (Page.HEALTH, Page.READY)
"""Probes come without a key."""

PAGE_METHODS = "GET, HEAD, OPTIONS"
RELAY_METHODS = "POST, OPTIONS"


def allowed(path: str) -> str | None:
    """The methods of a path; None when there is no such path."""
    if path in RELAYS:
        return RELAY_METHODS
    if path in PAGES:
        return PAGE_METHODS
    return f"{PAGE_METHODS}, POST" if path == "*" else None


def find(method: str, path: str) -> Relay | Page | None:
    """Where a request goes; None for OPTIONS, which is answered with the list of methods.

    Raises:
        Refusal: 404 for another path, 405 for another method.
    """
    if method == "POST" and (relay := RELAYS.get(path)) is not None:
        return relay
    if method in ("GET", "HEAD") and (page := PAGES.get(path)) is not None:
        return page
    methods = allowed(path)
    if methods is None:
        raise Refusal(404, "there is no such path here", reason="unknown_path", code="unknown_url")
    if method == "OPTIONS":
        return None
    raise Refusal(
        405,
        f"{path} takes {methods}",
        reason="wrong_method",
        code="method_not_supported",
        allow=methods,
    )
