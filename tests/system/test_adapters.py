"""LoRA adapters that come and go while the product runs: over sockets, on emulated engines that speak vLLM's API."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import openai
import pytest
import yaml

from system import policies
from system.product import Product, product

SECONDS = 20.0


def model(least: int, most: int, *names: str, **keys: Any) -> dict[str, Any]:
    """Emulated, with these adapters. What cannot be loaded is tried again soon, and given up soon."""
    return {
        "engine": "emulated",
        "lora": {name: f"/adapters/{name}" for name in names},
        "scaling": policies.scaling(least, most),
        "restarts": {
            "backoff_first": "100ms",
            "backoff_max": "200ms",
            "give_up_after": 2,
            "retry_failed": "2s",
        },
        **keys,
    }


def change(p: Product, name: str, settings: dict[str, Any]) -> None:
    """Write the policy file anew; the product sees it within a second."""
    p.policy["models"][name] = settings
    (p.folder / "policy.new").write_text(yaml.safe_dump(p.policy, sort_keys=False))
    (p.folder / "policy.new").replace(p.folder / "policy.yaml")


async def answered(p: Product, name: str) -> str:
    """The name under which the engine answered."""
    async with openai.AsyncOpenAI(base_url=f"{p.url}/v1", api_key="none", max_retries=0) as client:
        answer = await client.completions.create(model=name, prompt="The tide", max_tokens=4)
    return answer.model


async def names(p: Product) -> list[str]:
    async with openai.AsyncOpenAI(base_url=f"{p.url}/v1", api_key="none", max_retries=0) as client:
        return [card.id for card in (await client.models.list()).data]


async def adapters(p: Product) -> dict[str, list[str]]:
    """What each engine that serves says it has."""
    found = {}
    async with aiohttp.ClientSession() as session:
        for replica in await p.serving():
            async with session.get(f"http://{replica['address']}/emulator/state") as answer:
                found[replica["id"]] = sorted((await answer.json())["adapters"])
    return found


async def fault(p: Product, text: str) -> None:
    """At every engine that serves; empty text ends them all."""
    async with aiohttp.ClientSession() as session:
        for replica in await p.serving():
            url = f"http://{replica['address']}/emulator/fault"
            async with session.post(url, data=text) if text else session.delete(url) as answer:
                assert answer.status == 204


async def until_all_have(p: Product, *wanted: str) -> None:
    async def all_have() -> bool:
        # An engine has one before Tidegate has made sure of it with a token.
        known = [sorted(replica["adapters"]) for replica in await p.serving()]
        return all(there == sorted(wanted) for there in [*known, *(await adapters(p)).values()])

    await p.wait_until(all_have, SECONDS)


async def test_a_changed_list_is_loaded_and_unloaded_and_no_replica_is_started_or_ended(tmp_path):
    async with product({"models": {"m": model(2, 2, "red")}}, tmp_path) as p:
        await p.until_serving(2)
        await until_all_have(p, "red")
        before = p.replica_processes()

        change(p, "m", model(2, 2, "red", "blue"))
        await p.wait_until(lambda: "the policy file was changed" in p.log(), SECONDS)
        assert await answered(p, "m:blue") == "blue"  # held until one replica has it, if it came too soon
        await until_all_have(p, "red", "blue")

        change(p, "m", model(2, 2, "blue"))
        await until_all_have(p, "blue")
        assert await names(p) == ["m", "m:blue", "blue"]
        with pytest.raises(openai.NotFoundError) as caught:
            await answered(p, "m:red")
        assert caught.value.code == "model_not_found"
        assert await answered(p, "blue") == "blue"
        assert await answered(p, "m") == "m"
        assert p.replica_processes() == before
        assert await p.metric("tidegate_adapter_replicas", model="m", adapter="blue") == 2


async def test_under_traffic_nobody_but_who_asks_for_one_that_is_gone_notices(tmp_path):
    async with product({"models": {"m": model(2, 2, "red")}}, tmp_path) as p:
        await p.until_serving(2)
        over, endings = asyncio.Event(), {"m": [], "m:red": [], "m:blue": []}

        async def asks(name: str) -> None:
            while not over.is_set():
                try:
                    endings[name].append(await answered(p, name))
                except openai.APIStatusError as error:
                    endings[name].append(error.status_code)
                    await asyncio.sleep(0.05)

        crowd = [asyncio.create_task(asks(name)) for name in endings for _ in range(2)]
        for names_now in (("red", "blue"), ("blue",), ("blue", "red")):
            change(p, "m", model(2, 2, *names_now))
            await until_all_have(p, *names_now)
            await asyncio.sleep(0.5)
        over.set()
        await asyncio.gather(*crowd)

        assert set(endings["m"]) == {"m"}
        assert set(endings["m:red"]) == {"red", 404}
        first = endings["m:blue"].index("blue")
        assert set(endings["m:blue"][:first]) <= {404}
        assert set(endings["m:blue"][first:]) == {"blue"}


async def test_the_first_request_for_an_adapter_at_zero_replicas_is_held_and_answered(tmp_path):
    async with product({"models": {"m": model(0, 1, "red", "blue")}}, tmp_path) as p:
        assert await answered(p, "m:blue") == "blue"


async def test_a_replica_that_joins_later_has_them_all(tmp_path):
    async with product({"models": {"m": model(1, 1, "red")}}, tmp_path) as p:
        await p.until_serving(1)
        await until_all_have(p, "red")
        change(p, "m", model(1, 1, "red", "blue"))
        await until_all_have(p, "red", "blue")
        change(p, "m", model(2, 2, "red", "blue"))
        await p.until_serving(2)
        await until_all_have(p, "red", "blue")
        assert {await answered(p, name) for name in ("red", "blue") * 4} == {"red", "blue"}


async def test_one_that_cannot_be_loaded_says_so_holds_up_nobody_and_is_tried_again(tmp_path):
    async with product({"models": {"m": model(1, 1, "red")}}, tmp_path) as p:
        await p.until_serving(1)
        await until_all_have(p, "red")
        await fault(p, "lora:code=500")
        change(p, "m", model(1, 1, "red", "blue"))
        await p.wait_until(lambda: "adapter blue: /v1/load_lora_adapter: HTTP 500" in p.log(), SECONDS)

        asked = asyncio.create_task(answered(p, "m:blue"))
        assert await answered(p, "m") == "m"
        assert await answered(p, "m:red") == "red"
        with pytest.raises(openai.InternalServerError) as caught:
            await asked
        assert caught.value.status_code == 503
        assert "'blue' could not be loaded" in str(caught.value)

        await fault(p, "")
        await until_all_have(p, "red", "blue")
        assert await answered(p, "m:blue") == "blue"


async def test_another_source_under_the_old_name_replaces_the_replica(tmp_path):
    """Engines keep prompts that they have computed under an adapter's name."""
    async with product({"models": {"m": model(1, 2, "red")}}, tmp_path) as p:
        await p.until_serving(1)
        (first,) = await p.serving()
        other = model(1, 2, "red")
        other["lora"]["red"] = "/elsewhere/red"
        change(p, "m", other)

        async def is_replaced() -> bool:
            return [replica["id"] for replica in await p.serving()] not in ([], [first["id"]])

        await p.wait_until(is_replaced, SECONDS)
        await p.until_serving(1)
        assert await answered(p, "red") == "red"


async def test_after_a_kill_the_next_start_knows_what_each_replica_has(tmp_path):
    async with product({"models": {"m": model(1, 1, "red")}}, tmp_path) as p:
        await p.until_serving(1)
        change(p, "m", model(1, 1, "red", "blue"))
        await until_all_have(p, "red", "blue")
        before = p.replica_processes()
        p.kill()
        await p.start()
        await p.until_serving(1)
        assert await answered(p, "m:blue") == "blue"
        assert p.replica_processes() == before
        change(p, "m", model(1, 1, "blue"))
        await until_all_have(p, "blue")
        assert p.replica_processes() == before
