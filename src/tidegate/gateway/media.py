"""The body of a relayed request by its media type: which one is taken, how it is read, how it is passed on."""

from __future__ import annotations

import re

from tidegate.gateway.body import Asked, read_json
from tidegate.gateway.errors import Refusal
from tidegate.gateway.gate import Head
from tidegate.gateway.multipart import boundary_of, read_form
from tidegate.gateway.routes import Form, Relay

CHARSET = re.compile(rb"(?:^|;)[ \t]*charset[ \t]*=[ \t]*\"?([^\";, \t]*)", re.IGNORECASE)
TRACE_FIELD = re.compile(rb"[ -~]{1,512}")


def check(head: Head, relay: Relay) -> None:
    """The body's media type. Asking for exactly ours also keeps web pages out: a browser sends such a
    request to a gateway on the user's own machine only after a permission that we never give."""
    plain = head.fields.get(b"content-type") == b"application/json" and b"content-encoding" not in head.fields
    if plain and relay.form is Form.JSON:
        return
    coding = head.fields.get(b"content-encoding", b"identity")
    media, _, parameters = head.fields.get(b"content-type", b"").partition(b";")
    if (
        coding.lower() != b"identity"
        or media.strip().lower() != relay.form.value.encode()
        or (relay.form is Form.JSON and not _is_utf8(parameters))
    ):
        wanted = f"{relay.form.value}, not compressed" + ", in UTF-8" * (relay.form is Form.JSON)
        raise Refusal(415, f"{relay.path} takes {wanted}", reason="media_type", code="unsupported_media_type")
    if relay.form is Form.MULTIPART and boundary_of(head.fields[b"content-type"]) is None:
        raise Refusal(
            415,
            "the form's boundary is missing or malformed",
            reason="media_type",
            code="unsupported_media_type",
        )


def _is_utf8(parameters: bytes) -> bool:
    """Whether a media type's parameters name no other character set: JSON has one (RFC 8259, 8.1)."""
    charset = CHARSET.search(parameters)
    return charset is None or charset[1].lower() in (b"utf-8", b"utf8", b"us-ascii")


def read(head: Head, relay: Relay, body: bytes) -> Asked:
    if relay.form is Form.JSON:
        return read_json(body)
    boundary = boundary_of(head.fields[b"content-type"])
    assert boundary is not None
    return read_form(body, boundary)


def forward(head: Head, relay: Relay) -> bytes:
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
