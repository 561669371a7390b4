from types import SimpleNamespace

from tidegate.config.settings import GatewaySettings
from tidegate.core.types import ModelId
from tidegate.gateway.desk import FrontDesk
from tidegate.gateway.meters import Meters
from tidegate.gateway.names import Named


def desk(porter=None, **settings):
    names = {"m": Named(ModelId("m"))}
    return FrontDesk(GatewaySettings(**settings), porter, Meters(list), lambda: names, bytes, lambda: 1000.0)


class Porter:
    """Keeps what was entered."""

    def __init__(self):
        self.arrived = []

    def submit(self, call, arrived):
        self.arrived.append(arrived)


def head(*fields, length=5):
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        *fields,
    ]
    return ("\r\n".join([*lines, f"Content-Length: {length}"]) + "\r\n\r\n").encode()


def test_a_sessions_name_is_as_short_as_any_other_and_tells_nobody_who_it_is():
    porter = Porter()
    front = desk(porter)
    body = b'{"model": "m", "messages": [], "prompt_cache_key": "%b"}'

    for asked in (body % b"jane.doe@example.org", body % (b"x" * 5_000_000), body % b"jane.doe@example.org"):
        front.take(SimpleNamespace(), front.judge(head(length=len(asked)))[0], asked)
    named = front.judge(head("X-Session-Id: jane.doe@example.org"))[0]
    front.take(SimpleNamespace(), named, body % b"another")

    sessions = [arrived.session for arrived in porter.arrived]
    assert [len(session) for session in sessions] == [16, 16, 16, 16]
    assert sessions[0] == sessions[2] == sessions[3] != sessions[1]
    assert "jane" not in repr(porter.arrived)
