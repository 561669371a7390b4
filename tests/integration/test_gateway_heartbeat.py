"""Clients that want to hear something while their request waits."""

import asyncio
import json

from integration.gateway_world import DONE, STREAM_HEAD, Engine, chunk, event, post, wait_until, world
from tidegate.core.settings import DispatchConfig

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


async def test_comments_go_on_while_a_second_replica_works_on_the_request_and_the_head_is_sent_once():
    both_work = asyncio.Event()

    async def breaks(asked):
        await both_work.wait()
        await asyncio.sleep(0.7)
        asked.cut()

    async def second(asked):
        both_work.set()
        await asyncio.sleep(1.3)
        await answers(asked)

    first, other = Engine(breaks), Engine(second)
    async with world(first, other, config=DispatchConfig(hedge_ratio=0.5, hedge_after_s=0.05)) as made:
        client = await made.connect()
        await client.send(post(ASKED, fields=WANTS))

        answer = await client.read()

        assert (len(first.asked), len(other.asked)) == (1, 1)
        assert answer.whole
        assert answer.body == 2 * b": waiting\n\n" + event("hi") + event("", "stop") + DONE
        await client.send(
            post(ASKED, fields=["x-request-timeout-s: 0.7"])
        )  # nothing of the former is heard here
        assert (await client.read()).status == 504
        assert made.outcomes() == ["completed", "expired_running"]


async def test_comments_end_with_an_answer_that_the_second_replica_gives_all_at_once():
    async def silent(asked):
        await asyncio.sleep(60)

    async def second(asked):
        await asyncio.sleep(0.8)
        await answers(asked)

    config = DispatchConfig(hedge_ratio=0.5, hedge_after_s=0.05)
    async with world(Engine(silent), Engine(second), config=config) as made:
        client = await made.connect()
        await client.send(post(ASKED, fields=WANTS))
        assert (await client.read()).body == b": waiting\n\n" + event("hi") + event("", "stop") + DONE

        made.publish([])
        await client.send(post(ASKED, fields=["x-request-timeout-s: 1.2"]))

        assert (await client.read()).status == 503
        assert made.outcomes() == ["completed", "expired_nobody"]


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
