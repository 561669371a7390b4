import json

import pytest

from tidegate.core.outcomes import MEANING, Outcome
from tidegate.gateway.errors import outcome_answer, outcome_event, refusal_answer, unauthorised

ERRORS = [outcome for outcome in Outcome if outcome not in (Outcome.COMPLETED, Outcome.CLIENT_GONE)]


def parts(raw):
    head, _, body = raw.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    return int(line.split()[1]), dict(field.split(": ", 1) for field in fields), json.loads(body)["error"]


@pytest.mark.parametrize("outcome", ERRORS)
def test_every_ending_has_its_answer(outcome):
    raw = outcome_answer(outcome, "because", request_id=b"id", retry_after_s=None, keep_alive=True)
    status, fields, error = parts(raw)
    meaning = MEANING[outcome]
    assert (status, error["type"], error["code"]) == (meaning.status, meaning.error_type, meaning.code)
    assert error["message"] == "because"
    assert fields["x-request-id"] == "id"
    assert ("x-should-retry" in fields) == (not meaning.retry_helps)
    assert ("retry-after" in fields) == (status in (429, 503))
    assert int(fields["content-length"]) == len(raw.partition(b"\r\n\r\n")[2])


def test_when_to_come_back_is_rounded_up_in_both_units():
    raw = outcome_answer(Outcome.REJECTED_FULL, "", request_id=b"", retry_after_s=1.2345, keep_alive=False)
    _, fields, _ = parts(raw)
    assert (fields["retry-after"], fields["retry-after-ms"], fields["connection"]) == ("2", "1235", "close")


def test_an_error_event_is_one_event():
    event = outcome_event(Outcome.FAILED_MIDSTREAM, 'with "quotes"\nand lines')
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2
    assert json.loads(event[6:])["error"]["code"] == "engine_failed_midstream"


def test_a_missing_key_says_how_to_send_one():
    status, fields, error = parts(refusal_answer(unauthorised(), request_id=b"", keep_alive=True))
    assert (status, fields["www-authenticate"], error["code"]) == (401, "Bearer", "invalid_api_key")
    assert "x-request-id" not in fields
