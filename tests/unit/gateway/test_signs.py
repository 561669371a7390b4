import pytest

from tidegate.adapters.base import Manners
from tidegate.core.events import Failure
from tidegate.gateway.framing import last_event_end
from tidegate.gateway.routes import DONE, RESPONSE_DONE, SPEECH_DONE, TRANSCRIPT_DONE
from tidegate.gateway.signs import abort_in, failure_of
from tidegate.gateway.usage import Usage, usage_in

MANNERS = Manners(abort_marks=(b'"finish_reason":"abort"',))


@pytest.mark.parametrize(
    "status, failure",
    [
        (200, None),
        (204, None),
        (400, None),
        (404, None),
        (422, None),
        (501, None),
        (429, Failure.BUSY),
        (503, Failure.BUSY),
        (302, Failure.ERROR),
        (401, Failure.ERROR),
        (403, Failure.ERROR),
        (500, Failure.ERROR),
        (504, Failure.ERROR),
        (529, Failure.ERROR),
    ],
)
def test_which_statuses_are_the_engines_failure(status, failure):
    assert failure_of(status, MANNERS) is failure


@pytest.mark.parametrize(
    "event, broken",
    [
        (b'data: {"choices":[{"finish_reason":"abort"}]}\n\n', True),
        (b'data: {"error":{"message":"x"}}\n\n', True),
        (b'data: {"error": {"message":"x","code":500}}\n\n', True),
        (b"event: error\ndata: {}\n\n", True),
        (b'28\r\ndata: {"error":{"message":"boom"}}\n\n', True),
        (b'data: {"error":{"message":"prompt too long","code":400}}\n\n', False),
        (b'data: {"error":{"message":"prompt too long","code":"422"}}\n\n', False),
        (b'data: {"error":null,"choices":[]}\n\n', False),
        (b'data: {"choices":[{"delta":{"content":"\\"finish_reason\\":\\"abort\\""}}]}\n\n', False),
        (b'data: {"choices":[{"delta":{"content":"\\ndata: {\\"error\\":1}"}}]}\n\n', False),
        (b'data: {"choices":[{"delta":{"content":"an error"}}]}\n\n', False),
    ],
)
def test_which_events_say_that_the_engine_broke_off(event, broken):
    assert (abort_in(event, MANNERS) is not None) == broken


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_where_whole_events_end(end):
    assert last_event_end(b"data: a" + end + b"data: b") == 7 + len(end)
    assert last_event_end(b"data: a") == 0


def test_an_end_mark_counts_only_at_the_start_of_a_line():
    assert DONE.search(b"e\r\ndata: [DONE]\n\n\r\n")
    assert DONE.search(b"\n\ndata:[DONE]")
    assert not DONE.search(b'{"content":"data: [DONE]"}')
    assert RESPONSE_DONE.search(b'data: {"type":"response.completed","response":{}}')
    assert TRANSCRIPT_DONE.search(b'data: {"type":"transcript.text.done","text":"hi"}')
    assert TRANSCRIPT_DONE.search(b"\ndata: [DONE]")
    assert not TRANSCRIPT_DONE.search(b'data: {"delta":"\\"type\\":\\"transcript.text.done\\""}')
    assert SPEECH_DONE.search(b'data: {"type": "speech.audio.done"}')
    assert not RESPONSE_DONE.search(b'data: {"delta":"\\"type\\":\\"response.completed\\""}')


def test_usage_of_each_api():
    chat = b'"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}'
    assert usage_in(chat) == Usage(7, 4, 2)
    responses = (
        b'"usage": {"input_tokens": 3, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1}}'
    )
    assert usage_in(responses) == Usage(3, 0, 1)
    assert usage_in(b'"usage":{"prompt_tokens":5,"total_tokens":5}') == Usage(5, None, None)
    assert (
        usage_in(b'{"usage":null}') == usage_in(b"") == usage_in(b'"usage":{"prompt_tokens":-1}') == Usage()
    )


def test_usage_that_a_model_talks_about_is_not_usage():
    text = b'{"content":"\\"usage\\":{\\"prompt_tokens\\":999}"}'
    assert usage_in(text) == Usage()
    assert usage_in(b'"usage":{"prompt_tokens":1}' + b" " * 5000) == Usage()
