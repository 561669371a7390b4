"""The strict gate: which bytes are a request head, and what it says about its body.

One regular expression holds the whole grammar of a head; what it does not match is answered with 400
and the connection is closed, since nobody can say any more where the next request begins. Only then
httptools, the parser that most engines use themselves, takes the head apart, so a head that the two
would read differently is refused as well. Upstream requests are built from the parsed fields alone.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import httptools

from tidegate.gateway.errors import Refusal, malformed
from tidegate.gateway.heads import LENGTH_DIGITS_MAX

# Possessive quantifiers (*+, ++) keep this linear on hostile input. Names without underscores: some
# servers read them as hyphens, which lets "content_length" pass for another header.
HEAD = re.compile(
    rb"([A-Z]{1,20}+) ([!-~]++) HTTP/1\.([01])\r\n"
    rb"((?:[!#$%&'*+\-.^`|~0-9A-Za-z]++:[\t -~]*+\r\n)*+)\r\n"
)
REQUEST_LINE = re.compile(rb"[!-~]+ [^\r\n]* HTTP/(\d+)\.(\d+)\r\n")
BARE_LINE_END = re.compile(rb"(?<!\r)\n|\r(?!\n)")
BARE_LINE_END_SO_FAR = re.compile(rb"(?<!\r)\n|\r(?=[^\n])")
HOST = re.compile(rb"(?:[A-Za-z0-9](?:[A-Za-z0-9.\-]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
REQUEST_ID = re.compile(rb"[!-~]{1,128}")

_good_hosts: set[bytes] = set()
"""Hosts that were found well-formed; a gateway is called by a few names, over and over."""
GOOD_HOSTS_MAX = 1024

SINGLE = frozenset(
    {
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"content-type",
        b"content-encoding",
        b"authorization",
        b"expect",
    }
)
"""Sent twice, these leave open which one counts."""

KEPT = SINGLE | {
    b"accept",
    b"connection",
    b"traceparent",
    b"tracestate",
    b"x-queue-heartbeat",
    b"x-request-id",
    b"x-request-timeout-s",
    b"x-session-id",
    b"x-tidegate-spill",
}
"""What anybody here reads; the rest of a head is dropped unread."""

BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"})


class Head:
    """A request head that passed the gate."""

    __slots__ = ("expects", "fields", "http10", "keep_alive", "length", "method", "path", "request_id")

    def __init__(self, method: str, path: str, fields: dict[bytes, bytes], *, http10: bool) -> None:
        self.method = method
        self.path = path
        """Without the query; nothing we relay has one."""
        self.fields = fields
        self.http10 = http10
        self.length: int | None = 0
        """Of the body; None when it comes in chunks."""
        connection = fields.get(b"connection")
        self.keep_alive = not http10 and (connection is None or not _has_token(connection, b"close"))
        self.expects = fields.get(b"expect")
        theirs = fields.get(b"x-request-id")
        self.request_id = theirs if theirs is not None and REQUEST_ID.fullmatch(theirs) else None
        """The client's own, when it can be echoed safely."""


class _Fields:
    """What httptools calls back."""

    __slots__ = ("fields", "target", "twice")

    def __init__(self) -> None:
        self.target = b""
        self.fields: dict[bytes, bytes] = {}
        self.twice: bytes | None = None

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name not in KEPT:
            return
        if name in self.fields and name in SINGLE:
            self.twice = name
        self.fields[name] = value.strip(b" \t")


def check_partial(raw: bytes, max_bytes: int) -> None:
    """Raise when these bytes cannot become an acceptable head any more."""
    if len(raw) > max_bytes:
        raise _too_large(f"the request head is larger than {max_bytes} bytes")
    if BARE_LINE_END_SO_FAR.search(raw) is not None or not 0x41 <= raw[0] <= 0x5A:
        raise malformed("the request head is not well-formed HTTP/1.1")


def read_head(raw: bytes, *, max_bytes: int, max_fields: int) -> Head:
    """Judge and parse one head, from its first byte to its blank line.

    Raises:
        Refusal: in every case where two readers could come to two opinions.
    """
    if len(raw) > max_bytes:
        raise _too_large(f"the request head is larger than {max_bytes} bytes")
    match = HEAD.fullmatch(raw)
    if match is None:
        raise _why(raw)
    if match[4].count(b"\n") > max_fields:
        raise _too_large(f"the request has more than {max_fields} header fields")
    seen = _Fields()
    parser = httptools.HttpRequestParser(seen)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # An offer to speak another protocol, which may be left unanswered.
    except httptools.HttpParserError as error:
        raise malformed("the request head is not well-formed HTTP/1.1") from error
    if seen.twice is not None:
        raise malformed(f"the header {seen.twice.decode()} appears more than once")
    http10 = match[3] == b"0"
    fields = seen.fields
    if seen.target != match[2]:
        raise malformed("the request target is malformed")
    method = match[1].decode()
    head = Head(method, _path(method, match[2], fields, http10=http10), fields, http10=http10)
    _judge_body(head)
    return head


def _judge_body(head: Head) -> None:
    """Which body follows: of a length, in chunks, or none."""
    fields = head.fields
    length = fields.get(b"content-length")
    coding = fields.get(b"transfer-encoding")
    if coding is not None:
        if length is not None:
            raise malformed("both content-length and transfer-encoding are given")
        if coding != b"chunked" or head.http10:
            raise malformed("the only transfer-encoding is 'chunked', in HTTP/1.1")
        head.length = None
    elif length is not None:
        if not length.isdigit() or len(length) > LENGTH_DIGITS_MAX:
            raise malformed("content-length is not a plain number")
        head.length = int(length)
    if head.length != 0 and head.method in BODILESS:
        raise malformed(f"a {head.method} request has no body here")
    if head.expects is not None and head.expects.lower() != b"100-continue":
        raise Refusal(417, "the only expectation met here is 100-continue", reason="malformed_http")


def _path(method: str, target: bytes, fields: dict[bytes, bytes], *, http10: bool) -> str:
    """The path that the target names, after Host and target have been found to agree."""
    host = fields.get(b"host")
    if host is None:
        if not http10:
            raise malformed("the Host header is missing")
    elif host not in _good_hosts:
        if not HOST.fullmatch(host):
            raise malformed("the Host header is malformed")
        if len(_good_hosts) < GOOD_HOSTS_MAX:
            _good_hosts.add(host)
    if target[0] != 0x2F:
        if target == b"*" and method == "OPTIONS":
            return "*"
        target = _origin_form(target, host)
    if b"#" in target:
        raise malformed("the request target is malformed")
    return target.partition(b"?")[0].decode("ascii")


def _origin_form(target: bytes, host: bytes | None) -> bytes:
    """An absolute target as a path; it must name the host that the Host header names."""
    scheme, _, rest = target.partition(b"://")
    if scheme.lower() not in (b"http", b"https"):
        raise malformed("the request target is malformed")
    try:
        authority = urlsplit(target).netloc
    except ValueError as error:
        raise malformed("the request target is malformed") from error
    if host is None or authority.lower() != host.lower():
        raise malformed("the request target names another host than the Host header")
    path = rest[len(authority) :]
    if path[:1] not in (b"/", b"?", b""):
        raise malformed("the request target is malformed")
    return path if path[:1] == b"/" else b"/" + path


def _why(raw: bytes) -> Refusal:
    """Which refusal fits a head that the grammar does not allow."""
    line = REQUEST_LINE.match(raw)
    if line is not None and (line[1] != b"1" or line[2] not in (b"0", b"1")):
        return Refusal(505, "only HTTP/1.1 is spoken here", reason="malformed_http", code="malformed_request")
    if BARE_LINE_END.search(raw) is not None:
        return malformed("a line of the request head does not end with CR LF")
    return malformed("the request head is not well-formed HTTP/1.1")


def _too_large(message: str) -> Refusal:
    return Refusal(431, message, reason="head_too_large", code="request_header_too_large")


def _has_token(value: bytes, token: bytes) -> bool:
    return token in (part.strip() for part in value.lower().split(b","))
