"""What a client reads when its stream goes on at another engine, and what that engine is asked for."""

import json

import pytest

from tidegate.adapters.emulated import Emulated
from tidegate.gateway.resume import transcript_of
from tidegate.gateway.routes import CHAT, RELAYS

MANNERS = Emulated().manners


def transcript(**more):
    asked = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]} | more
    return transcript_of(RELAYS[CHAT], json.dumps(asked).encode())


def event(stream, tokens, **delta):
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    usage = {"prompt_tokens": 5, "completion_tokens": tokens}
    said = {"id": stream, "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return b"data: " + json.dumps(said).encode() + b"\n\n"


def passed_on(made, *events):
    parts = made.pass_on(b"".join(events)).split(b"\n\n")
    return [json.loads(part[6:]) for part in parts if part]


def asked_of_the_next(made):
    made.take_up()
    return json.loads(made.body(MANNERS))


def test_a_stream_that_breaks_off_before_its_first_token_still_begins_once():
    made = transcript()
    opening = passed_on(made, event("one", 0, role="assistant", content=""))
    assert made.resumable_tokens(MANNERS) == 0

    assert asked_of_the_next(made)["messages"] == [{"role": "user", "content": "x"}]
    rest = passed_on(made, event("two", 0, role="assistant", content=""), event("two", 1, content="Hi"))

    assert [said["id"] for said in opening + rest] == ["one", "one"]
    assert [said["choices"][0]["delta"] for said in rest] == [{"content": "Hi"}]


def test_tokens_that_the_first_engine_held_back_are_left_for_the_next_one():
    made = transcript(max_tokens=10)
    passed_on(made, event("one", 0, role="assistant", content=""), event("one", 1, content="a"))
    passed_on(made, event("one", 2, content=""), event("one", 3, content=""))

    assert made.resumable_tokens(MANNERS) == 1
    following = asked_of_the_next(made)
    assert following["messages"][-1] == {"role": "assistant", "content": "a"}
    assert following["max_tokens"] == 9

    passed_on(made, event("two", 3, content="\N{WATER WAVE}"))
    assert made.tokens == 4


@pytest.mark.parametrize(
    "more", [{"n": 2}, {"stream": False}, {"response_format": {"type": "json_object"}}, {"guided_regex": "a"}]
)
def test_what_the_next_engine_could_not_go_on_with_is_not_followed(more):
    assert transcript(**more) is None


@pytest.mark.parametrize(
    "delta", [{"tool_calls": [{"index": 0}]}, {"reasoning_content": "so"}], ids=["a tool call", "reasoning"]
)
def test_half_a_tool_call_is_no_beginning(delta):
    made = transcript(tools=[{"type": "function"}])
    passed_on(made, event("one", 1, content="a"))
    assert made.resumable_tokens(MANNERS) == 1

    passed_on(made, event("one", 4, **delta))

    assert made.resumable_tokens(MANNERS) is None
    assert made.tokens == 4


def test_who_has_been_told_all_that_was_asked_for_is_not_told_more():
    made = transcript(max_completion_tokens=2)
    passed_on(made, event("one", 2, content="ab"))

    assert made.resumable_tokens(MANNERS) is None
