"""A quiet tenant's request at an engine that is busy with a loud one's long prompts, over real sockets."""

import asyncio
import hashlib
import itertools

from integration.gateway_world import DONE, STREAM_HEAD, Engine, chat, chunk, event, post, wait_until, world
from tidegate.config.settings import Client, GatewaySettings
from tidegate.core.settings import DispatchConfig, Routing
from tidegate.core.types import FlowId

TENANTS = ("loud", "quiet")
KEYS = {hashlib.sha256(name.encode()).hexdigest(): Client(FlowId(name)) for name in TENANTS}
LONG = 200_000
"""Bytes: 50,000 tokens."""


def ask(tenant, words="hello"):
    body = chat(stream=True, messages=[{"role": "user", "content": words}])
    return post(body, fields=[f"authorization: Bearer {tenant}"])


async def test_long_prompts_are_taken_back_for_it_and_answered_after_it():
    may_answer = asyncio.Event()

    async def script(asked):
        if len(asked.body) > LONG:
            await may_answer.wait()
        await asyncio.sleep(0.01)
        await asked.send(STREAM_HEAD + chunk(event("hi")))
        await asyncio.sleep(0.01)
        await asked.send(chunk(event("", "stop")) + chunk(DONE) + b"0\r\n\r\n")

    engine = Engine(script)
    config = DispatchConfig(routing=Routing.LEAST_TOKENS, prefill_ahead_s=100.0)
    async with world(engine, settings=GatewaySettings(keys=KEYS), config=config) as made:
        line = made.owner._dispatcher._floor.lines["m"]
        warm = await made.connect()
        for number in itertools.count():
            await warm.send(ask(TENANTS[number % 2]))
            assert (await warm.read()).status == 200
            if line.tenants.count == 2 and len(line.waits.pace) >= 20:
                break
        before = len(engine.asked)
        loud = [await made.connect(limit=2 * LONG) for _ in range(3)]
        for client in loud:
            await client.send(ask("loud", "tide " * (LONG // 5)))
        await wait_until(lambda: len(engine.asked) == before + 3)

        quiet = await made.ask(ask("quiet"))

        assert quiet.whole
        assert all(asked.gone.is_set() for asked in engine.asked[before : before + 3])
        await wait_until(lambda: len(engine.asked) == before + 3 + 1 + 3)
        may_answer.set()
        for client in loud:
            answer = await client.read()
            assert (answer.status, answer.whole) == (200, True)
            assert answer.body == event("hi") + event("", "stop") + DONE
        assert set(made.outcomes()) == {"completed"}
        assert [record.attempts for record in made.records[-3:]] == [2, 2, 2]
        assert made.at_rest()
