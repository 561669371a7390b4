"""The whole product with a model that can be run in two ways, on emulated engines."""

import pytest

from system.clients import Ask, Crowd, How, ask, counted
from system.policies import emulated, only
from system.product import product

pytestmark = pytest.mark.timeout(180)


def policy(folder):
    """A large one with eight slots, and a small one with two at a third of the price."""
    model = emulated(folder / "notes", 0, 4, "--time-scale", "20", "--on-sigterm", "cut")
    model |= {"slots": 8, "price": "4.00/h", "routing": "least_tokens"}
    model["variants"] = {"small": {"slots": 2, "price": "1.20/h"}}
    model["scaling"] |= {"policy": "concurrency", "window": "1s", "scale_down_delay": "3s"}
    return only("m", model)


async def variants(running):
    return sorted(replica["variant"] for replica in await running.serving("m"))


async def test_a_small_one_comes_first_a_large_one_takes_over_and_both_are_known_after_a_kill(tmp_path):
    async with product(policy(tmp_path), tmp_path) as running:
        assert (await ask(running.url, Ask("m", 5))).how is How.COMPLETE
        assert await variants(running) == ["small"]

        crowd = Crowd(lambda: running.url, [Ask("m", 300)] * 7)

        async def has_taken_over():
            return await variants(running) == ["default"]

        await running.wait_until(has_taken_over, 60.0)
        assert await running.metric("tidegate_replicas", model="m", state="serving", variant="default") == 1
        assert {replica["slots"] for replica in await running.serving("m")} == {8}
        running.kill()
        await running.start()
        await running.until_serving(1, "m")
        assert await variants(running) == ["default"], "adopted as what it is"
        model = await running.model("m")
        assert "in replicas of default" in model["because"]
        endings = counted(await crowd.stop())
        assert endings[How.COMPLETE] > 0

        async def is_small_or_gone():
            return await variants(running) in ([], ["small"])

        await running.wait_until(is_small_or_gone, 60.0)
