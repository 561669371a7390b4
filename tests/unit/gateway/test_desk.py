import hashlib
from types import SimpleNamespace

import pytest

from tidegate.config.settings import Client, GatewaySettings
from tidegate.core.types import FlowId, ModelId
from tidegate.gateway.desk import VERDICTS_MAX, FrontDesk
from tidegate.gateway.errors import Refusal
from tidegate.gateway.meters import Meters
from tidegate.gateway.names import Named

KEY = {hashlib.sha256(b"k").hexdigest(): Client(FlowId("team"))}


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


def test_a_head_seen_before_is_judged_by_its_own_length():
    front = desk(max_body_bytes=100)
    for _ in range(2):
        for length in (0, 7, 100):
            verdict, told = front.judge(head(length=length))
            assert (told, verdict.refusal) == (length, None)
        verdict, told = front.judge(head(length=101))
        assert verdict.refusal.status == 413
    assert len(front._verdicts) == 1


def test_a_second_length_is_refused_also_when_the_rest_is_known():
    front = desk()
    for length in (5, 6):
        front.judge(head(length=length))
        for second in ("Content-Length: 5", "Content-Length: ", "content-length: 5", "Content-Length:5"):
            with pytest.raises(Refusal):
                front.judge(head(second, length=length))


def test_new_keys_hold_for_heads_that_were_judged_before():
    front = desk()
    raw = head("Authorization: Bearer k")
    assert front.judge(raw)[0].owner.flow == "default"
    front.configure(GatewaySettings(keys=KEY))
    assert front.judge(raw)[0].owner.flow == "team"
    assert front.judge(head())[0].refusal.status == 401
    front.configure(GatewaySettings(keys={"0" * 64: Client(FlowId("x"))}))
    assert front.judge(raw)[0].refusal.status == 401


def test_refusals_and_heads_with_ids_are_not_remembered_and_the_rest_is_bounded():
    front = desk(keys=KEY)
    for number in range(3 * VERDICTS_MAX):
        front.judge(head(f"Authorization: Bearer guess{number}"))
        front.judge(head("Authorization: Bearer k", f"X-Request-Id: {number}"))
    assert not front._verdicts
    for number in range(3 * VERDICTS_MAX):
        front.judge(head("Authorization: Bearer k", f"User-Agent: {number}"))
    assert len(front._verdicts) <= VERDICTS_MAX


@pytest.mark.parametrize("length", ["", " ", "\0", "@"])
def test_a_head_without_digits_in_its_length_is_refused_also_when_the_rest_is_known(length):
    front = desk()
    front.judge(head(length=5))
    with pytest.raises(Refusal):
        front.judge(head(length=length))


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
