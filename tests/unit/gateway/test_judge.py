import hashlib

import pytest

from tidegate.config.settings import Client, GatewaySettings
from tidegate.core.types import FlowId
from tidegate.gateway.errors import Refusal
from tidegate.gateway.judge import VERDICTS_MAX, Judge

KEY = {hashlib.sha256(b"k").hexdigest(): Client(FlowId("team"))}


def one(**settings):
    return Judge(GatewaySettings(**settings))


def head(*fields, length=5):
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        *fields,
    ]
    return ("\r\n".join([*lines, f"Content-Length: {length}"]) + "\r\n\r\n").encode()


def test_a_head_seen_before_is_judged_by_its_own_length():
    judge = one(max_body_bytes=100)
    for _ in range(2):
        for length in (0, 7, 100):
            verdict, told = judge.judge(head(length=length))
            assert (told, verdict.refusal) == (length, None)
        verdict, told = judge.judge(head(length=101))
        assert verdict.refusal.status == 413
    assert len(judge._verdicts) == 1


def test_a_second_length_is_refused_also_when_the_rest_is_known():
    judge = one()
    for length in (5, 6):
        judge.judge(head(length=length))
        for second in ("Content-Length: 5", "Content-Length: ", "content-length: 5", "Content-Length:5"):
            with pytest.raises(Refusal):
                judge.judge(head(second, length=length))


def test_new_keys_hold_for_heads_that_were_judged_before():
    judge = one()
    raw = head("Authorization: Bearer k")
    assert judge.judge(raw)[0].owner.flow == "default"
    judge.configure(GatewaySettings(keys=KEY))
    assert judge.judge(raw)[0].owner.flow == "team"
    assert judge.judge(head())[0].refusal.status == 401
    judge.configure(GatewaySettings(keys={"0" * 64: Client(FlowId("x"))}))
    assert judge.judge(raw)[0].refusal.status == 401


def test_refusals_and_heads_with_ids_are_not_remembered_and_the_rest_is_bounded():
    judge = one(keys=KEY)
    for number in range(3 * VERDICTS_MAX):
        judge.judge(head(f"Authorization: Bearer guess{number}"))
        judge.judge(head("Authorization: Bearer k", f"X-Request-Id: {number}"))
    assert not judge._verdicts
    for number in range(3 * VERDICTS_MAX):
        judge.judge(head("Authorization: Bearer k", f"User-Agent: {number}"))
    assert len(judge._verdicts) <= VERDICTS_MAX


@pytest.mark.parametrize("length", ["", " ", "\0", "@"])
def test_a_head_without_digits_in_its_length_is_refused_also_when_the_rest_is_known(length):
    judge = one()
    judge.judge(head(length=5))
    with pytest.raises(Refusal):
        judge.judge(head(length=length))
