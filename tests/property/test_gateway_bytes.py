"""Laws of the gateway's readers: no bytes break them, and how bytes are split over reads changes nothing."""

import itertools
import re

from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.adapters.base import Manners
from tidegate.config.settings import GatewaySettings
from tidegate.core.lifecycle import State
from tidegate.core.types import Address, ModelId, ReplicaId, RequestId, Route
from tidegate.gateway import gate
from tidegate.gateway.body import read_json
from tidegate.gateway.call import Call
from tidegate.gateway.client import ClientConnection
from tidegate.gateway.errors import Refusal
from tidegate.gateway.flows import RechunkFlow
from tidegate.gateway.framing import ChunkFlow, Malformed, chunk, dechunk
from tidegate.gateway.intake import Budget
from tidegate.gateway.multipart import boundary_of, read_form
from tidegate.gateway.routes import RELAYS
from tidegate.gateway.upstream import UpstreamConnection
from tidegate.gateway.visit import Verdict

CHAT = RELAYS["/v1/chat/completions"]


class Transport:
    """Keeps what is written."""

    def __init__(self):
        self.sent = b""
        self.closed = False

    def write(self, data):
        self.sent += data

    def write_eof(self):
        self.closed = True

    abort = close = write_eof

    def is_closing(self):
        return self.closed

    def get_write_buffer_size(self):
        return 0

    def set_write_buffer_limits(self, high):
        pass


class Desk:
    """Takes every request and answers each with one byte."""

    stopping = False
    settings = GatewaySettings(max_body_bytes=10_000)

    def __init__(self):
        self.taken = []
        self.bodies = Budget(10_000)
        self.refusals = []

    def arrived(self, client):
        return True

    def left(self, client):
        pass

    def judge(self, raw):
        head = gate.read_head(raw, max_bytes=16 * 1024, max_fields=100)
        return Verdict(head), head.length

    def take(self, client, verdict, body):
        self.taken.append((verdict.head.method, verdict.head.path, body))
        client.answer(b".", keep_alive=verdict.head.keep_alive)

    def name(self, head):
        return (head and head.request_id) or b"ours"

    def refused(self, refusal):
        self.refusals.append(refusal.status)


def serve(pieces):
    """What comes of these reads: requests taken, refusals, bytes sent, closed or not."""
    desk, transport = Desk(), Transport()
    client = ClientConnection(desk)
    client.connection_made(transport)
    for piece in pieces:
        if piece:
            client.data_received(piece)
    return desk.taken, desk.refusals, transport.sent, transport.closed


def or_refusal(read, *arguments):
    try:
        return read(*arguments)
    except Refusal as refusal:
        return refusal


def cut_up(data, cuts):
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


names = st.sampled_from(
    [
        b"Host: g",
        b"Content-Length: 3",
        b"content-length: 0",
        b"Transfer-Encoding: chunked",
        b"X: y",
        b"Host: h",
        b"X_Y: 1",
        b"Connection: close",
        b"Expect: 100-continue",
    ]
)
lines = st.sampled_from(
    [
        b"POST /a HTTP/1.1",
        b"GET /a?b HTTP/1.1",
        b"POST http://g/ HTTP/1.1",
        b"GET /a HTTP/1.0",
        b"POST /a HTTP/2",
    ]
)
ends = st.sampled_from([b"\r\n"] * 30 + [b"\n", b"\r", b"\r\r\n"])
tails = st.sampled_from(
    [b"", b"abc", b"3\r\nabc\r\n0\r\n\r\n", b"0\r\n\r\n", b"3;x\r\nabc\r\n0\r\n\r\n", b"0\r\nT: x\r\n\r\n"]
)


@st.composite
def requests(draw):
    """Something like a request, often a good one, sometimes a good one with a byte or two gone wrong."""
    data = draw(lines) + draw(ends)
    for name in [b"Host: g", *draw(st.lists(names, max_size=4))]:
        data += name + draw(ends)
    data += draw(ends) + draw(tails)
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=2)) + data[at + draw(st.integers(0, 2)) :]
    return data


cuts = st.lists(st.integers(0, 10_000), max_size=12)


@given(data=st.one_of(st.binary(max_size=300), st.lists(requests(), max_size=4).map(b"".join)), at=cuts)
@example(
    data=b"POST /a HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\nHost: g\r\n\r\n",
    at=[],
)
def test_how_requests_are_split_over_reads_changes_nothing(data, at):
    taken, refusals, sent, closed = serve([data])
    other_taken, other_refusals, other_sent, other_closed = serve(cut_up(data, at))

    # A bad head may be known for bad before it is whole, and then for another of its faults.
    assert (taken, len(refusals), closed) == (other_taken, len(other_refusals), other_closed)
    assert sent.partition(b"HTTP/1.1 4")[0].replace(
        b"HTTP/1.1 100 Continue\r\n\r\n", b""
    ) == other_sent.partition(b"HTTP/1.1 4")[0].replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    assert len(refusals) <= 1
    assert closed or not refusals


@given(raw=st.one_of(st.binary(max_size=200), requests()))
def test_a_head_is_read_or_refused_and_what_is_read_is_plain(raw):
    head = raw[: raw.find(b"\r\n\r\n") + 4]
    try:
        read = gate.read_head(head, max_bytes=1000, max_fields=20)
    except Refusal:
        return
    # The slow and obvious reading of the same head.
    line, *fields = head[:-4].split(b"\r\n")
    method, target, version = line.split(b" ")
    assert (read.method.encode(), version) == (method, b"HTTP/1.0" if read.http10 else b"HTTP/1.1")
    pairs = [field.split(b":", 1) for field in fields]
    lengths = [value.strip() for name, value in pairs if name.lower() == b"content-length"]
    codings = [value.strip() for name, value in pairs if name.lower() == b"transfer-encoding"]
    assert len(lengths) + len(codings) <= 1
    assert read.length == (None if codings else int(lengths[0]) if lengths else 0)
    assert read.path.startswith("/")
    assert target.endswith(read.path.encode()) or b"?" in target or target.startswith(b"http")


@given(
    data=st.one_of(
        st.binary(max_size=200),
        st.from_regex(rb'\{"model":"[a-z]*",("n":-?[0-9]{0,30},?)?"[a-z]*":[^}]{0,20}\}'),
    )
)
def test_a_body_is_read_or_refused(data):
    asked = or_refusal(read_json, data)
    assert asked.status == 400 if isinstance(asked, Refusal) else asked.model


@given(
    body=st.one_of(
        st.binary(max_size=200),
        st.from_regex(
            rb'(--X(\r\n)?(Content-Disposition: form-data; name="(model|a)"\r\n\r\n)?[a-z]{0,3}\r?\n?){1,5}(--)?'
        ),
    )
)
def test_a_form_is_read_or_refused(body):
    asked = or_refusal(read_form, body, b"X")
    assert asked.status == 400 if isinstance(asked, Refusal) else asked.model


@given(value=st.binary(max_size=100))
def test_a_boundary_is_plain_or_none(value):
    boundary = boundary_of(b"multipart/form-data; boundary=" + value)
    assert boundary is None or re.fullmatch(rb"[ -~]{1,70}", boundary)


# ---- streams ----

events = st.lists(
    st.sampled_from(
        [
            b'data: {"a":1}\n\n',
            b'data: {"a":"\xc3\xa9\xf0\x9f\x98\x80"}\n\n',
            b": ping\n\n",
            b"data: one\ndata: two\n\n",
            b"event: x\r\ndata: {}\r\n\r\n",
            b"data: y\r\r",
            b"data: " + b"z" * 300 + b"\n\n",
        ]
    ),
    min_size=1,
    max_size=6,
)


@given(events=events, chunks=cuts, reads=cuts)
def test_of_a_stream_only_whole_events_are_passed_on_and_in_the_end_all(events, chunks, reads):
    payload = b"".join(events)
    raw = b"".join(chunk(part) for part in cut_up(payload, chunks)) + b"0\r\n\r\n"
    flow = ChunkFlow(events=True)
    borders = {0, len(payload)}
    for event in events:
        borders.add(max(borders - {len(payload)}) + len(event))
    passed = b""
    for piece in cut_up(raw, reads):
        passed += flow.feed(piece)
        # Whole chunks, or this would raise; and whole events, so an error event may follow.
        plain = dechunk(passed)
        assert payload.startswith(plain)
        assert flow.ended or ends_an_event(plain)
    assert flow.ended
    assert not flow.surplus
    assert passed + b"0\r\n\r\n" == raw


def ends_an_event(plain):
    return not plain or plain.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))


@given(events=events, reads=cuts)
def test_a_whole_event_is_never_held_back(events, reads):
    flow = ChunkFlow(events=True)
    for event in events:
        assert flow.feed(chunk(event)) == chunk(event)


@given(events=events, reads=cuts, sized=st.booleans())
def test_a_stream_without_chunks_gets_some(events, reads, sized):
    payload = b"".join(events)
    flow = RechunkFlow(events=True, length=len(payload) if sized else None)
    passed = b""
    for piece in cut_up(payload, reads):
        passed += flow.feed(piece)
        assert flow.ended or ends_an_event(dechunk(passed))
    rest = flow.at_eof()
    assert (rest is None) == sized
    assert dechunk(passed + (rest or b"")) == payload
    assert flow.ended


@given(
    data=st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from([b"5\r\nabcde\r\n", b"0\r\n", b"\r\n", b"0\r\nX: y\r\n\r\n"]),
        ),
        max_size=8,
    )
)
def test_no_bytes_break_a_flow(data):
    for events_wanted in (True, False):
        flow = ChunkFlow(events=events_wanted)
        try:
            for piece in data:
                dechunk(flow.feed(piece))
                if flow.ended:
                    break
        except Malformed:
            pass


# ---- a whole answer, through the connection that reads it ----


class FakeClient:
    may_keep_alive = True

    def __init__(self):
        self.got = b""

    def write(self, data):
        self.got += data


class Attendant:
    """Writes down what it is told."""

    def __init__(self):
        self.told = []

    def first_byte(self, call):
        self.told.append("first byte")

    def answered(self, call, status, usage):
        self.told.append("answered")

    def attempt_failed(self, call, failure, status, tokens=0):
        self.told.append("failed")

    def gap(self, seconds):
        pass

    def redial(self, call):
        self.told.append("redial")

    def at_rest(self, connection):
        self.told.append("at rest")

    connected = lost = lambda self, connection: None


ROUTE = Route(ReplicaId("r"), ModelId("m"), State.SERVING, Address("127.0.0.1", 1), 1, "engine")
MANNERS = Manners(abort_marks=(b'"finish_reason":"abort"',))


def relay(pieces, cut=True, relay=CHAT):
    """Feed an answer in these reads, then close the connection; what the client got, and what was told."""
    attendant, client = Attendant(), FakeClient()
    connection = UpstreamConnection(attendant, ROUTE, MANNERS)
    connection.connection_made(Transport())
    call = Call(
        client,
        RequestId("r"),
        b"id",
        relay,
        ModelId("m"),
        b"",
        b"",
        streams=True,
        http10=False,
        keep_alive=True,
    )
    connection.begin(call, b"", b"")
    for piece in pieces:
        if piece and connection.call is not None:
            connection.data_received(piece)
    if cut:
        connection.connection_lost(None)
    return client.got, attendant.told


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
TOKEN = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n'
LAST = b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = (
    b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
)
DONE = b"data: [DONE]\n\n"
ROLE = b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'

# The shapes in which engines were seen to stream: one event a chunk; head and first event in one write;
# the last events in one chunk; comments in between; CR LF; text outside ASCII.
SHAPES = {
    "one event a chunk": [ROLE, TOKEN % b"a", TOKEN % b"b", LAST, DONE],
    "usage, with the end mark in its chunk": [ROLE, TOKEN % b"a", LAST, USAGE + DONE],
    "comments": [b": ping\n\n", TOKEN % b"a", b": ping\n\n", LAST, DONE],
    "outside ASCII": [TOKEN % "h\u00e9\U0001f600".encode(), LAST, DONE],
    "CR LF": [part.replace(b"\n", b"\r\n") for part in (TOKEN % b"a", LAST, DONE)],
    "an event over three chunks": [ROLE[:9], ROLE[9:40], ROLE[40:], TOKEN % b"a", LAST, DONE],
    "no blank line at the end": [TOKEN % b"a", LAST, b"data: [DONE]\n"],
}


def raw_of(parts):
    return HEAD + b"".join(map(chunk, parts)) + b"0\r\n\r\n"


def body_of(got):
    return got.partition(b"\r\n\r\n")[2]


def test_a_stream_split_at_any_byte_gives_the_same_bytes():
    for parts in SHAPES.values():
        raw = raw_of(parts)
        whole, told = relay([raw], cut=False)
        assert told == ["at rest", "answered"]
        assert body_of(whole) == body_of(raw)
        for at in range(1, len(raw)):
            split, told = relay([raw[:at], raw[at:]], cut=False)
            assert split == whole
            assert told[-2:] == ["at rest", "answered"]


def test_a_stream_byte_by_byte_gives_the_same_bytes():
    for parts in SHAPES.values():
        raw = raw_of(parts)
        single, told = relay([bytes((byte,)) for byte in raw], cut=False)
        assert body_of(single) == body_of(raw)
        assert told[-1] == "answered"


def test_a_stream_cut_at_any_byte_is_complete_or_failed_and_what_was_passed_on_is_whole_events():
    for parts in SHAPES.values():
        raw = raw_of(parts)
        end_mark = raw.index(b"data: [DONE]")
        for at in range(1, len(raw)):
            got, told = relay([raw[:at]])
            passed = dechunk(body_of(got).removesuffix(b"0\r\n\r\n"))
            assert b"".join(parts).startswith(passed)
            if "answered" in told:
                assert at > end_mark
                assert b"[DONE]" in passed
                assert got.endswith(b"0\r\n\r\n")
            else:
                assert told[-1] == "failed"
                assert b"[DONE]" not in passed
                assert ends_an_event(passed)


def test_an_abort_at_any_place_and_split_is_never_passed_on():
    abort = LAST.replace(b"stop", b"abort")
    for parts in (
        [ROLE, TOKEN % b"a", abort, DONE],
        [ROLE, TOKEN % b"a" + abort + DONE],
        [ROLE, abort[:70], abort[70:], DONE],
    ):
        raw = raw_of(parts)
        for at in range(1, len(raw)):
            got, told = relay([raw[:at], raw[at:]])
            assert told[-1] == "failed"
            assert b"abort" not in got
            assert b"[DONE]" not in got


@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [
                    HEAD,
                    chunk(DONE),
                    b"0\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\n",
                    b"content-length: 3\r\n",
                    b"content-type: application/json\r\n",
                    b"\r\n",
                    b"HTTP/1.1 100 Continue\r\n\r\n",
                ]
            ),
        ),
        max_size=8,
    )
)
def test_no_answer_breaks_a_connection_and_each_has_one_end(pieces):
    _, told = relay(pieces)
    assert sum(word in ("answered", "failed", "redial") for word in told) == 1
