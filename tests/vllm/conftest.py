"""A real vLLM on the CPU, started by our backend. ``make test-vllm`` installs it and names it."""

import json
import os
import subprocess
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from conformance.worlds import Observer, fleet_id_of, launch
from tidegate.adapters.base import EngineSpec
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.model import LocalModel
from tidegate.core.effects import LoadAdapter
from tidegate.core.lifecycle import Seen

SLOTS = 4
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # Left to itself, every replica binds to the first core.
    "VLLM_CPU_OMP_THREADS_BIND": "0",
}


@pytest.fixture(scope="session")
def vllm_program():
    """The path of the ``vllm`` command."""
    program = os.environ.get("TIDEGATE_TEST_VLLM")
    if not program:
        pytest.skip("needs a vLLM: make test-vllm")
    return Path(program).absolute()


@pytest.fixture(scope="session")
def hf_model(vllm_program, tmp_path_factory):
    """A tiny model with two adapters, in Hugging Face's format."""
    folder = tmp_path_factory.mktemp("hf")
    script = Path(__file__).with_name("tiny_hf.py")
    subprocess.run([vllm_program.with_name("python"), script, folder], check=True, capture_output=True)
    return folder


class Replica:
    """One vLLM that serves."""

    def __init__(self, fleet, observer, model, address, state_dir):
        self.fleet = fleet
        self.observer = observer
        self.model = model
        self.address = address
        self.fleet_id = fleet_id_of(state_dir)
        self.url = f"http://{address.host}:{address.port}"

    async def complete(self, model="tiny", prompt="The tide comes in", max_tokens=12, **fields):
        """The whole answer to a request sent as the gateway sends it."""
        fields = {
            "model": model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
        } | fields
        body = self.model.adapter.rewrite(json.dumps(fields).encode(), self.model.spec)
        headers = {"content-type": "application/json"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.url}/v1/completions", data=body, headers=headers) as answer,
        ):
            assert answer.status == 200, await answer.text()
            return await answer.json()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(vllm_program, hf_model, tmp_path_factory):
    spec = EngineSpec(
        model_name="tiny",
        weights=str(hf_model),
        slots=SLOTS,
        context_tokens=2048,
        lora={"red": str(hf_model / "red"), "blue": str(hf_model / "blue")},
        extra_args=("--enforce-eager", "--dtype", "bfloat16", "--max-lora-rank", "8"),
        env=ENVIRONMENT,
    )
    model = LocalModel("tiny", ADAPTERS["vllm"], spec, start_deadline_s=600.0, stop_grace_s=30.0)
    environ = os.environ | {"PATH": f"{vllm_program.parent}{os.pathsep}{os.environ['PATH']}"}
    state_dir = tmp_path_factory.mktemp("state")
    fleet, observer = (
        LocalFleet([model], state_dir=state_dir, environ=environ),
        Observer(),
    )
    await fleet.open(observer)
    launch(fleet, "r1", "tiny")
    try:
        ready = await observer.until("r1", Seen.READY, within_s=600.0)
        for adapter in spec.lora:
            fleet.load_adapter(LoadAdapter("r1", adapter, "a test asks"))
            assert await observer.adapter("r1", adapter, within_s=60.0) == ""
        yield Replica(fleet, observer, model, ready.address, state_dir)
    finally:
        await fleet.close()
