"""LoRA adapters as the local backend carries the orders out, on the emulated engine: vLLM's own requests over a socket."""

import json
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from conformance.worlds import Observer, launch
from integration.weights_world import Sources, noise, serving
from tidegate.adapters.base import EngineSpec
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.model import LocalModel
from tidegate.core.effects import LoadAdapter, UnloadAdapter
from tidegate.core.events import ReplicaAdopted
from tidegate.core.lifecycle import Seen
from tidegate.weights.needs import adapter_marks
from tidegate.weights.settings import WeightsSettings

ADAPTERS_THERE = {"red": "/adapters/red", "blue": "/adapters/blue"}


def model_with(lora, *args):
    spec = EngineSpec("m", weights="", slots=4, lora=lora, extra_args=("--time-scale", "50", *args))
    return LocalModel("m", ADAPTERS["emulated"], spec, stop_grace_s=2.0)


def fleet_in(folder, lora=ADAPTERS_THERE, *args):
    cache = WeightsSettings(folder / "cache")
    return LocalFleet([model_with(lora, *args)], state_dir=folder / "state", weights=cache)


async def ready(fleet, observer):
    await fleet.open(observer)
    launch(fleet, "m-1")
    return (await observer.until("m-1", Seen.READY)).address


def asked(address, path, **body):
    """A request to the engine behind everybody's back."""
    url = f"http://{address.host}:{address.port}{path}"
    data = json.dumps(body).encode() if body else None
    with urlopen(Request(url, data, {"content-type": "application/json"}), timeout=5) as answer:
        return answer.read()


def listed(address):
    """What the engine lists beside the model itself: names and paths."""
    cards = json.loads(asked(address, "/v1/models"))["data"]
    return {card["id"]: card["root"] for card in cards if card["parent"]}


def load(fleet, adapter):
    fleet.load_adapter(LoadAdapter("m-1", adapter, "a test asks"))


def unload(fleet, adapter):
    fleet.unload_adapter(UnloadAdapter("m-1", adapter, "a test asks"))


async def test_it_starts_without_any_and_is_given_them_by_name_and_path(tmp_path):
    fleet, observer = fleet_in(tmp_path), Observer()
    try:
        address = await ready(fleet, observer)
        assert listed(address) == {}
        load(fleet, "red")
        assert await observer.adapter("m-1", "red") == ""
        assert listed(address) == {"red": "/adapters/red"}
        assert fleet.spec_of("m-1").lora == {"red": "/adapters/red"}  # what requests are rewritten by
        unload(fleet, "red")
        assert await observer.adapter("m-1", "red") == ""
        assert listed(address) == fleet.spec_of("m-1").lora == {}
    finally:
        await fleet.close()


async def test_what_is_there_already_or_gone_already_is_done(tmp_path):
    fleet, observer = fleet_in(tmp_path), Observer()
    try:
        address = await ready(fleet, observer)
        asked(address, "/v1/load_lora_adapter", lora_name="red", lora_path="/adapters/red")
        load(fleet, "red")
        assert await observer.adapter("m-1", "red") == ""
        asked(address, "/v1/unload_lora_adapter", lora_name="red")
        unload(fleet, "red")
        assert await observer.adapter("m-1", "red") == ""
    finally:
        await fleet.close()


async def test_a_failure_has_its_reason_and_leaves_things_as_they_were(tmp_path):
    fleet, observer = fleet_in(tmp_path, ADAPTERS_THERE, "--fault", "lora:code=500"), Observer()
    try:
        await ready(fleet, observer)
        load(fleet, "red")
        assert await observer.adapter("m-1", "red") == "/v1/load_lora_adapter: HTTP 500"
        load(fleet, "green")
        assert await observer.adapter("m-1", "green") == "it is not configured here"
        assert fleet.spec_of("m-1").lora == {}
    finally:
        await fleet.close()


async def test_an_order_at_which_the_backend_itself_fails_has_its_end_too(tmp_path):
    """Else the adapter would be said to be on its way for ever. Such a name cannot be written down."""
    nameless = "\udc80"
    fleet, observer = fleet_in(tmp_path, {nameless: "/adapters/red"}), Observer()
    try:
        await ready(fleet, observer)
        load(fleet, nameless)
        assert await observer.adapter("m-1", nameless) == "the backend failed (UnicodeEncodeError)"
    finally:
        await fleet.close()


async def test_an_order_about_a_replica_that_is_not_there_does_nothing(tmp_path):
    fleet, observer = fleet_in(tmp_path), Observer()
    await fleet.open(observer)
    try:
        load(fleet, "red")
        unload(fleet, "red")
        assert observer.events == []
    finally:
        await fleet.close()


async def test_an_adapter_with_a_source_is_fetched_and_the_engine_is_given_the_path(tmp_path):
    async with serving(Sources()) as server:
        server.put("/red.bin", noise(1000))
        fleet, observer = (
            fleet_in(tmp_path, {"red": f"{server.url}/red.bin", "blue": f"{server.url}/none"}),
            Observer(),
        )
        try:
            address = await ready(fleet, observer)
            load(fleet, "red")
            assert await observer.adapter("m-1", "red", within_s=30.0) == ""
            assert Path(listed(address)["red"]).read_bytes() == noise(1000)
            load(fleet, "blue")
            assert "it cannot be had" in await observer.adapter("m-1", "blue", within_s=30.0)
        finally:
            await fleet.close()


@pytest.mark.parametrize("later", [{"red": "/adapters/red"}, {}, {"red": "/elsewhere/red"}])
async def test_a_replica_of_a_former_run_is_adopted_with_what_it_has_whatever_is_configured_by_now(
    tmp_path, later
):
    first, observer = fleet_in(tmp_path), Observer()
    address = await ready(first, observer)
    for adapter in ("red", "blue"):
        load(first, adapter)
        assert await observer.adapter("m-1", adapter) == ""
    unload(first, "blue")
    assert await observer.adapter("m-1", "blue") == ""
    await first.close(leave_running=True)

    second, seen = fleet_in(tmp_path, later), Observer()
    await second.open(seen)
    try:
        (adopted,) = [event for event in seen.events if isinstance(event, ReplicaAdopted)]
        marks = adapter_marks(model_with(ADAPTERS_THERE).spec)
        assert adopted.address == address
        assert adopted.adapters == {"red": marks["red"]}
        assert adopted.adapters_before == marks
        assert list(second.spec_of("m-1").lora) == ["red"]
    finally:
        await second.close()
