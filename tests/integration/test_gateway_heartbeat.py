"""Clients that want to hear something while their request waits."""

import asyncio
import json

from integration.gateway_world import DONE, STREAM_HEAD, Engine, chunk, event, post, wait_until, world

ASKED = json.dumps({"model": "m", "messages": [], "stream": True}).encode()
WANTS = ["x-queue-heartbeat: 0.5"]


async def answers(asked):
    await asked.send(STREAM_HEAD + chunk(event("hi")) + chunk(event("", "stop")) + chunk(DONE) + b"0\r\n\r\n")


async def test_comments_come_while_a_request_waits_and_the_answer_follows_them():
    engine = Engine(answers)
    async with world(engine) as made:
        made.publish([])
        client = await made.connect()
        await client.send(post(ASKED, fields=WANTS))
        await asyncio.sleep(1.2)
        made.publish()

        answer = await client.read()

        assert answer.status == 200
        assert answer.fields["content-type"].startswith("text/event-stream")
        assert answer.body.startswith(b": waiting\n\n: waiting\n\n")
        assert answer.body.endswith(event("hi") + event("", "stop") + DONE)
        assert answer.whole
        await client.send(post(ASKED))  # the connection goes on
        assert (await client.read()).status == 200


async def test_a_request_refused_after_a_comment_ends_with_an_event():
    async with world(Engine(answers)) as made:
        made.publish([])
        client = await made.connect()
        await client.send(post(ASKED, fields=WANTS))
        await asyncio.sleep(0.8)
        made.publish([], can_serve=False)

        answer = await client.read()

        assert answer.status == 200
        assert b'"code":"no_replica"' in answer.body
        assert DONE not in answer.body
        assert made.outcomes() == ["rejected_nobody"]


async def test_a_comment_does_not_keep_another_replica_from_being_tried():
    async def breaks(asked):
        await asyncio.sleep(0.8)
        asked.cut()

    async with world(Engine(breaks), Engine(answers)) as made:
        client = await made.connect()
        await client.send(post(ASKED, fields=WANTS))

        answer = await client.read()

        assert answer.body.startswith(b": waiting\n\n")
        assert answer.body.endswith(event("hi") + event("", "stop") + DONE)
        assert made.outcomes() == ["completed"]


async def test_who_does_not_ask_hears_nothing_before_the_answer():
    async with world(Engine(answers)) as made:
        made.publish([])
        client = await made.connect()
        await client.send(post(ASKED))
        await asyncio.sleep(0.8)
        made.publish([], can_serve=False)

        assert (await client.read()).status == 503


async def test_nothing_is_left_of_a_client_that_leaves_while_it_waits():
    async with world(Engine(answers)) as made:
        made.publish([])
        client = await made.connect()
        await client.send(post(ASKED, fields=WANTS))
        await asyncio.sleep(0.7)
        client.cut()

        await wait_until(made.at_rest)
        assert made.outcomes() == ["client_gone"]
