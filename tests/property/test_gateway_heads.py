"""The law of remembered heads: what a memory says of a head is what reading it would say."""

from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.config.settings import GatewaySettings
from tidegate.gateway import answer
from tidegate.gateway.errors import Refusal
from tidegate.gateway.framing import Malformed
from tidegate.gateway.judge import Judge

SETTINGS = GatewaySettings(max_header_bytes=400, max_body_bytes=10_000)

# A length is marked where it stands, so that a mutation can be aimed at it.
REQUESTS = [
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: @\r\n\r\n",
    b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\ncontent-length:@\r\nContent-Type: application/json\r\n\r\n",
    b"POST /v1/completions HTTP/1.0\r\nContent-Length: @\r\nContent-Type: application/json\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: @\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"OPTIONS /ready HTTP/1.1\r\nHost: localhost\r\nContent-Length: @\r\nConnection: close\r\n\r\n",
    b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nUser-Agent: "
    + b"x" * 260
    + b"\r\nContent-Length: @\r\n\r\n",
]
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: @\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: @\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: @\r\nServer: e\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Type: audio/wav\r\n\r\n",
    b"HTTP/1.1 500 Oh\r\ncontent-length:@\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n",
]

LENGTHS = [
    *(b"", b" ", b"\t", b"0", b"5", b"05", b"7", b"9" * 15, b"9" * 16, b"10001"),
    *(b"\x00", b"@", b"+5", b"-5", b"5 ", b"5,5", b"5\r\nContent-Length: 6", b"\r\n", b"None"),
]
FIELDS = [
    *(b"Content-Length: 5\r\n", b"Content-Length: \r\n", b"content-length:5\r\n", b"Host: localhost\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"X: y\r\n", b"Content-Type: application/json\r\n"),
]


@st.composite
def mutations(draw, heads):
    """A good head with another length, a field more or less, or a few bytes gone wrong."""
    raw = draw(st.sampled_from(heads)).replace(b"@", draw(st.sampled_from(LENGTHS)))
    kind = draw(st.sampled_from(["length", "field", "bytes", "line"]))
    lines = raw[:-2].splitlines(keepends=True)
    if kind == "field":
        lines.insert(draw(st.integers(1, len(lines))), draw(st.sampled_from(FIELDS)))
    elif kind == "line" and len(lines) > 1:
        lines.pop(draw(st.integers(1, len(lines) - 1)))
    raw = b"".join(lines) + b"\r\n"
    if kind == "bytes":
        at = draw(st.integers(0, len(raw)))
        raw = raw[:at] + draw(st.binary(max_size=2)) + raw[at + draw(st.integers(0, 2)) :]
    return raw


def judged(judge, raw):
    """Everything that is done with a judgement."""
    try:
        found, length = judge.judge(raw)
    except Refusal as refusal:
        return refusal.status, refusal.message
    head = found.head
    fields = {name: value for name, value in head.fields.items() if name != b"content-length"}
    refusal = None if found.refusal is None else (found.refusal.status, found.refusal.message)
    about = (head.method, head.path, head.http10, head.keep_alive, head.expects, head.request_id)
    return length, refusal, found.found, found.owner, found.forward, found.timeout_s, about, fields


@given(heads=st.lists(mutations(REQUESTS), min_size=1, max_size=4))
@example(heads=[REQUESTS[0].replace(b"@", b"")])
@example(heads=[REQUESTS[4].replace(b"@", b"5")])
@example(heads=[REQUESTS[7].replace(b"@", b"000000000000005")])
def test_a_request_is_judged_alike_by_one_that_has_seen_many_and_by_one_that_has_seen_none(heads):
    seasoned = Judge(SETTINGS)
    for good in REQUESTS:
        for length in (b"0", b"5"):
            judged(seasoned, good.replace(b"@", length))
    for raw in heads * 2:
        assert judged(seasoned, raw) == judged(Judge(SETTINGS), raw)


def read(raw):
    try:
        head, length = answer.read_head(raw)
    except Malformed as error:
        return str(error)
    for_client = head.for_client(b"id", length, http10=False, keep_alive=True)
    return length, head.status, head.is_json, head.is_stream, head.keep_alive, for_client


@given(heads=st.lists(mutations(ANSWERS), min_size=1, max_size=4))
@example(heads=[ANSWERS[0].replace(b"@", b"")])
@example(heads=[ANSWERS[3].replace(b"@", b"5")])
@example(heads=[ANSWERS[0].replace(b"@", b"5 ")] * 2)
def test_an_answers_head_is_read_alike_the_first_time_and_later(heads):
    for raw in heads:
        answer._known.clear()
        fresh = read(raw)
        assert read(raw) == fresh
        for good in ANSWERS:
            for length in (b"0", b"5"):
                read(good.replace(b"@", length))
        assert read(raw) == fresh
