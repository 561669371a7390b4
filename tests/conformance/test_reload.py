"""A policy file that changes what engines are started with, and the whole product that runs on it."""

import asyncio
import sys

import yaml

from engines import fake_engine
from system.product import product


def policy(note):
    command = [sys.executable, fake_engine.__file__, "--port", "{port}"]
    model = {
        "engine": "openai",
        "command": command,
        "env": {"NOTE": note},
        "scaling": {"min_replicas": 2, "max_replicas": 2},
    }
    return {"models": {"m": model}}


async def test_replicas_are_replaced_one_by_one_and_two_serve_at_every_moment(tmp_path):
    async with product(policy("before"), tmp_path / "run") as p:
        await p.until_serving(2)
        changed = {**p.policy, **policy("after")}
        (tmp_path / "run" / "policy.yaml").write_text(yaml.safe_dump(changed))

        least = 2
        for _ in range(600):
            states = await serving(p)
            least = min(least, len(states))
            if states and min(states) >= "m-3" and len(states) == 2:
                break
            await asyncio.sleep(0.05)
        assert await serving(p) == {"m-3", "m-4"}
        assert least == 2


async def serving(p):
    page = await p.fleet()
    return {r["id"] for r in page["models"][0]["replicas"] if r["state"] == "serving"}
