"""The law of the bodies' budget: it is what the connections hold, never more than the limit, in the end nothing."""

import itertools
from time import monotonic

from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.settings import GatewaySettings
from tidegate.gateway.client import ClientConnection
from tidegate.gateway.desk import FrontDesk
from tidegate.gateway.meters import Meters

SETTINGS = GatewaySettings(max_body_bytes=1_000, max_bodies_bytes=1_500)
HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Transport:
    """Counts nothing, closes when told."""

    def __init__(self):
        self.closed = False

    def write(self, data):
        pass

    def write_eof(self):
        self.closed = True

    abort = write_eof

    def is_closing(self):
        return self.closed

    def set_write_buffer_limits(self, high):
        pass


def read(data):
    return lambda client: client.data_received(data)


ACTIONS = [
    *(read(HEAD + b"Content-Length: %d\r\n\r\n" % length) for length in (0, 5, 400, 1000, 1001)),
    read(HEAD + b"Transfer-Encoding: chunked\r\n\r\n"),
    *(read(b"x" * count) for count in (1, 5, 395, 700)),
    *(read(b"%x\r\n" % size) for size in (1, 5, 600)),
    *(read(data) for data in (b"\r\n", b"0\r\n\r\n", b"5\r\nxxxxx\r\n", b"zzz", b"\n")),
    lambda client: client.eof_received(),
    lambda client: client.connection_lost(None),
    lambda client: client.close(),
    lambda client: client.sweep(monotonic() + 1000),
    lambda client: client.sweep(monotonic()),
    lambda client: client.pause_writing(),
    lambda client: client.resume_writing(),
]


@given(story=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(ACTIONS)), max_size=40))
def test_what_is_counted_is_what_is_held_and_nothing_stays_counted(story):
    desk = FrontDesk(SETTINGS, None, Meters(list), dict, bytes, lambda: 1000.0)
    clients = {}
    for number, action in story:
        client = clients.get(number)
        if client is None or client._transport.closed:
            # Another client takes its place; what the old one held was given back when it was closed.
            if client is not None:
                client.connection_lost(None)
            client = clients[number] = ClientConnection(desk)
            client.connection_made(Transport())
        action(client)
        held = [one._body.received for one in clients.values() if one._body is not None]
        assert desk.bodies.used == sum(held) <= desk.bodies.limit
    for client in clients.values():
        client.connection_lost(None)
    assert desk.bodies.used == 0


@given(sizes=st.lists(st.integers(1, 60), max_size=12), reads=st.lists(st.integers(0, 2_000), max_size=12))
def test_of_a_body_in_chunks_only_what_has_come_is_counted(sizes, reads):
    """A chunk that is announced and does not come takes no room, and does not pass for a quick sender."""
    desk = FrontDesk(SETTINGS, None, Meters(list), dict, bytes, lambda: 1000.0)
    client = ClientConnection(desk)
    client.connection_made(Transport())
    client.data_received(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    raw = b"".join(b"%x\r\n%b\r\n" % (size, b"\0" * size) for size in sizes)
    edges = sorted({0, len(raw), *(at % (len(raw) + 1) for at in reads)})
    for start, end in itertools.pairwise(edges):
        client.data_received(raw[start:end])
        came = raw[:end].count(b"\0")
        # The last bytes of a chunk wait for its line end.
        assert came - 60 <= client._body.received <= came
    assert client._body.received == sum(sizes)
