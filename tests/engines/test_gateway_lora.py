"""LoRA adapters through the whole product: each is reached by its names and none leaks into another's answer."""

import openai
import pytest

from system import policies
from system.product import product

PROMPT = "The tide"


class Asking:
    """A client of the product."""

    def __init__(self, p):
        self._p = p
        self._sdk = openai.AsyncOpenAI(base_url=f"{p.url}/v1", api_key="none", max_retries=0)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self._sdk.close()

    async def text(self, model, prompt=PROMPT):
        """The greedy answer."""
        answer = await self._complete(model, prompt)
        return answer.choices[0].text

    async def streamed(self, model):
        """The same, in events."""
        stream = await self._complete(model, PROMPT, stream=True)
        return "".join([piece.choices[0].text async for piece in stream if piece.choices])

    async def answered_by(self, model):
        """The name under which the engine says that it has answered."""
        return (await self._complete(model, PROMPT)).model

    async def names(self):
        return [card.id for card in (await self._sdk.models.list()).data]

    async def _complete(self, model, prompt, **more):
        return await self._sdk.completions.create(
            model=model, prompt=prompt, max_tokens=12, temperature=0, extra_body={"ignore_eos": True}, **more
        )


async def test_on_one_slot_of_llama_cpp_each_name_has_its_own_text_whoever_asked_before(
    tiny_model, tiny_adapters, tmp_path
):
    model = policies.tiny(tiny_model, 1, 1, slots=1, lora=tiny_adapters)
    async with product({"models": {"tiny": model}}, tmp_path) as p, Asking(p) as client:
        await p.until_serving(1)
        assert await client.names() == ["tiny", "tiny:red", "tiny:blue", "red", "blue"]
        plain, red, blue = [await client.text(name) for name in ("tiny", "tiny:red", "tiny:blue")]
        assert len({plain, red, blue}) == 3

        # Every name right after every other, on the one slot with its one cached prompt.
        texts = {"tiny": plain, "tiny:red": red, "red": red, "tiny:blue": blue, "blue": blue}
        for first in texts:
            for then in texts:
                assert (await client.text(first), await client.streamed(then)) == (texts[first], texts[then])

        # One model's requests, by whatever name: one queue, one series.
        assert await p.metric("tidegate_requests_total", model="tiny", outcome="completed") == 3 + 2 * 25
        assert await p.metric("tidegate_requests_total", model="other") == 0
        await refuses(client, "tiny:green", "green", "other:red", "tiny:")


async def test_an_emulated_vllm_answers_to_the_adapters_names(tmp_path):
    model = {"engine": "emulated", "lora": {"red": "red", "blue": "blue"}, "scaling": policies.scaling(1, 1)}
    other = {"engine": "emulated", "lora": {"blue": "blue"}, "scaling": policies.scaling(1, 1)}
    async with product({"models": {"m": model, "n": other}}, tmp_path) as p, Asking(p) as client:
        await p.until_serving(2)
        assert await client.names() == ["m", "n", "m:red", "m:blue", "n:blue", "red"]
        answered = {name: await client.answered_by(name) for name in await client.names()}
        assert answered == {
            "m": "m",
            "n": "n",
            "m:red": "red",
            "red": "red",
            "m:blue": "blue",
            "n:blue": "blue",
        }
        assert await p.metric("tidegate_requests_total", model="m", outcome="completed") == 4
        assert await p.metric("tidegate_requests_total", model="n", outcome="completed") == 2
        # Two models have it, so the bare name is nobody's.
        await refuses(client, "blue")


async def refuses(client, *names):
    for name in names:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.text(name)
        assert caught.value.code == "model_not_found"
