"""The emulated engine's LoRA routes: vLLM's statuses and bodies."""

import pytest

from integration.emulator_world import emulated

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"


async def posted(client, path, **body):
    async with client.session.post(client.url + path, json=body) as answer:
        return answer.status, await answer.text()


async def test_an_adapter_is_loaded_listed_asked_for_and_unloaded():
    async with emulated(loads_adapters=True) as client:
        before, _ = await client.chat("hello", model="red", max_tokens=1)
        loaded = await posted(client, LOAD, lora_name="red", lora_path="/red")
        _, models = await client.get("/v1/models")
        status, answer = await client.chat("hello", model="red", max_tokens=1)
        unloaded = await posted(client, UNLOAD, lora_name="red")
        gone, _ = await client.chat("hello", model="red", max_tokens=1)
        state = await client.state()

    assert before == 404
    assert loaded == (200, "Success: LoRA adapter 'red' added successfully.")
    assert [(card["id"], card["root"], card["parent"]) for card in models["data"]][1:] == [
        ("red", "/red", "m")
    ]
    assert (status, answer["model"]) == (200, "red")
    assert unloaded == (200, "Success: LoRA adapter 'red' removed successfully.")
    assert gone == 404
    assert (state["adapters"], state["adapter_loads_total"]) == ([], 1)


@pytest.mark.parametrize(
    "path,body,status,kind",
    [
        (LOAD, {"lora_name": "red", "lora_path": "/red"}, 400, "InvalidUserInput"),  # there already
        (LOAD, {"lora_name": "red", "lora_path": "/red", "load_inplace": True}, 200, None),
        (LOAD, {"lora_name": "blue"}, 400, "InvalidUserInput"),
        (UNLOAD, {"lora_name": "blue"}, 404, "NotFoundError"),
        (UNLOAD, {}, 400, "InvalidUserInput"),
    ],
)
async def test_what_is_wrong_is_said_as_vllm_says_it(path, body, status, kind):
    async with (
        emulated(adapters=("red",), loads_adapters=True) as client,
        client.session.post(client.url + path, json=body) as answer,
    ):
        assert answer.status == status
        if kind:
            assert (await answer.json())["error"]["type"] == kind


async def test_without_the_switch_there_are_no_such_routes():
    async with emulated(adapters=("red",)) as client:
        status, _ = await posted(client, LOAD, lora_name="blue", lora_path="/blue")

    assert status == 404


async def test_a_fault_keeps_adapters_from_being_loaded_until_it_is_cleared():
    async with emulated(loads_adapters=True) as client:
        await client.fault("lora:code=500")
        failed, _ = await posted(client, LOAD, lora_name="red", lora_path="/red")
        served, _ = await client.chat("hello", max_tokens=1)
        await client.clear_faults()
        loaded, _ = await posted(client, LOAD, lora_name="red", lora_path="/red")

    assert (failed, served, loaded) == (500, 200, 200)
