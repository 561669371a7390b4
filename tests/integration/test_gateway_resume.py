"""Streams that break off and go on at another replica, between a real gateway and emulated engines."""

import asyncio
import contextlib
import json

import pytest

from integration.emulator_world import emulated
from integration.gateway_world import DONE, STREAM_HEAD, Engine, chunk, event, post, world
from tidegate.adapters.emulated import Emulated
from tidegate.core.settings import DispatchConfig

MANNERS = Emulated().manners


class At:
    """An emulator, as the gateway's world knows engines."""

    def __init__(self, client):
        self.client = client
        self.port = int(client.url.rsplit(":", 1)[1])

    async def stop(self):
        """Its own context ends it."""


@contextlib.asynccontextmanager
async def two_emulators(**options):
    """A gateway that resumes, in front of two emulated engines."""
    async with emulated(**options) as one, emulated(**options) as other:
        config = DispatchConfig(resume=True, slow_start_s=0.0)
        async with world(
            At(one), At(other), manners=MANNERS, config=config, resumes=lambda model: True
        ) as made:
            yield made, one, other


def asked(words="hello", **more):
    return json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": words}], "stream": True} | more
    ).encode()


def events_of(answer):
    lines = [line[6:] for line in answer.body.decode().split("\n\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def text_of(events):
    choices = [event["choices"][0] for event in events if event != "[DONE]" and event.get("choices")]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


async def test_a_stream_that_is_cut_goes_on_and_reads_as_if_nothing_had_happened():
    async with two_emulators() as (made, one, other):
        whole = events_of(await made.ask(post(asked())))
        for engine in (one, other):
            await engine.fault("cut:after_tokens=5,every=2")

        for _ in range(8):
            events = events_of(await made.ask(post(asked())))
            assert events[-1] == "[DONE]"
            assert text_of(events) == text_of(whole)
            assert len({event["id"] for event in events[:-1]}) == 1
            assert [event["choices"][0]["delta"].get("role") for event in events[:-1]].count("assistant") == 1

        assert {record.outcome.value for record in made.records} == {"completed"}
        assert max(record.attempts for record in made.records) > 1
        assert len({record.output_tokens for record in made.records}) == 1
        assert len({record.prompt_tokens for record in made.records}) == 1


async def test_the_clients_own_limit_and_count_of_tokens_hold_over_both_engines():
    async with two_emulators() as (made, one, other):
        body = asked(max_tokens=12, stream_options={"include_usage": True})
        whole = events_of(await made.ask(post(body)))
        await one.fault("cut:after_tokens=5,every=1")
        await other.fault("cut:after_tokens=4,every=2")

        answers = [events_of(await made.ask(post(body))) for _ in range(4)]

        for events in answers:
            if events[-1] != "[DONE]":
                assert events[-1]["error"]["code"] == "engine_failed_midstream"
                continue
            assert text_of(events) == text_of(whole)
            assert events[-2]["usage"]["completion_tokens"] == 12
            assert events[-2]["usage"]["prompt_tokens"] == whole[-2]["usage"]["prompt_tokens"]
        assert any(events[-1] == "[DONE]" for events in answers)


async def test_an_answer_that_an_engine_aborts_and_calls_finished_goes_on_too():
    async with two_emulators() as (made, one, other):
        whole = events_of(await made.ask(post(asked())))
        for engine in (one, other):
            await engine.fault("abort:after_tokens=3,every=2")

        for _ in range(4):
            assert text_of(events_of(await made.ask(post(asked())))) == text_of(whole)


@pytest.mark.parametrize(
    "more",
    [
        {"response_format": {"type": "json_object"}},
        {"guided_choice": ["a", "b"]},
        {"logprobs": True},
    ],
    ids=["a format", "guided decoding", "log probabilities"],
)
async def test_what_cannot_be_taken_up_ends_with_an_error_and_no_mark_of_success(more):
    async with two_emulators() as (made, one, other):
        for engine in (one, other):
            await engine.fault("cut:after_tokens=3")

        events = events_of(await made.ask(post(asked(**more))))

        assert events[-1]["error"]["code"] == "engine_failed_midstream"
        assert "[DONE]" not in events
        assert made.outcomes() == ["failed_midstream"]


async def test_without_the_setting_a_stream_that_is_cut_ends_with_an_error():
    async with emulated() as one, emulated() as other, world(At(one), At(other), manners=MANNERS) as made:
        for engine in (one, other):
            await engine.fault("cut:after_tokens=3")

        events = events_of(await made.ask(post(asked())))

        assert events[-1]["error"]["code"] == "engine_failed_midstream"
        assert made.outcomes() == ["failed_midstream"]


async def test_a_second_replica_answers_for_one_that_is_silent_and_the_first_is_let_go():
    async def silent(asked):
        await asyncio.sleep(60)

    async def answers(asked):
        await asked.send(
            STREAM_HEAD + chunk(event("hi")) + chunk(event("", "stop")) + chunk(DONE) + b"0\r\n\r\n"
        )

    slow, quick = Engine(silent), Engine(answers)
    config = DispatchConfig(hedge_ratio=0.5, hedge_after_s=0.05)
    async with world(slow, quick, config=config) as made:
        answer = await made.ask(post(asked()))

        assert answer.status == 200
        assert text_of(events_of(answer)) == "hi"
        assert len(slow.asked) == len(quick.asked) == 1
        await asyncio.wait_for(slow.asked[0].gone.wait(), 2.0)
        assert made.outcomes() == ["completed"]
        assert (made.records[0].replica_id, made.records[0].attempts) == ("r1", 2)
        assert made.at_rest()


async def test_when_the_hedged_replica_fails_the_first_still_answers():
    async def late(asked):
        await asyncio.sleep(0.3)
        await asked.send(
            STREAM_HEAD + chunk(event("late")) + chunk(event("", "stop")) + chunk(DONE) + b"0\r\n\r\n"
        )

    async def breaks(asked):
        asked.cut()

    first, second = Engine(late), Engine(breaks)
    config = DispatchConfig(hedge_ratio=0.5, hedge_after_s=0.05)
    async with world(first, second, config=config) as made:
        answer = await made.ask(post(asked()))

        assert text_of(events_of(answer)) == "late"
        assert made.outcomes() == ["completed"]
        assert made.at_rest()
