"""What was learned is there again after a ``kill -9`` of Tidegate, and the journal of that start replays byte for byte."""

import asyncio
import json
import os
import signal

import pytest

from system import policies
from system.clients import Ask, How, ask
from system.product import product
from tidegate.runtime.replay import journal_files, replay

SLOW = "slow"
COLD_START_S = 2.0
FAST = ("--time-scale", "20", "--on-sigterm", "cut")


@pytest.mark.timeout(120)
async def test_starts_are_predicted_from_the_former_process_after_a_kill(tmp_path):
    """The settings say that a start takes ten minutes; the one that was seen took some seconds. After the kill, with the
    replica gone too, the page says so before anything has been started anew, and so does the moment that clients are told."""
    # The engine's program is the one that is tested here, wherever this one was found.
    env = {"PYTHONPATH": path} if (path := os.environ.get("PYTHONPATH")) else {}
    model = policies.emulated(
        tmp_path / "notes", 1, 1, "--cold-start", "weights=1.5s,compile=0.5s", expected_start="600s", env=env
    )
    known = tmp_path / "serve" / "state" / "knowledge.json"
    async with product(policies.only(SLOW, model), tmp_path / "serve") as p:
        configured = (await p.model(SLOW))["starts"]
        assert configured["samples"] == 0
        assert configured["median_s"] == 600.0
        await p.until_serving(1)
        measured = (await p.model(SLOW))["starts"]
        assert measured["samples"] == 1
        assert COLD_START_S <= measured["median_s"] < 60.0
        assert measured["stages"]["starting"] <= measured["median_s"]
        assert measured["stages"]["starting: weights"] == 1.5
        assert measured["stages"]["starting: compile"] == 0.5
        for _ in range(5):
            assert (await ask(p.url, Ask(SLOW, 20))).how is How.COMPLETE
        await p.wait_until(known.exists, 10.0)

        p.kill()
        for processes in p.replica_processes().values():
            for process in processes:
                os.kill(process.pid, signal.SIGKILL)
        await p.start()

        again = await p.model(SLOW)
        assert again["starts"] == measured
        assert again["replicas"][0]["state"] != "serving"
        ready_in_s = again["expected_ready_s"] - (await p.fleet())["at_s"]
        assert ready_in_s < 60.0
        await p.until_serving(1)
        assert (await p.model(SLOW))["starts"]["samples"] == 2
        assert await p.stop() == 0

    (starts,) = json.loads(known.read_bytes())["fleet"]["starts"]
    assert len(starts["took_s"]) == 2
    played = await asyncio.to_thread(replay, journal_files(p.journal_dir))
    assert played.by_event["fleet.KnowledgeRestored"] == 1
    assert played.by_event["dispatch.CapacitiesRestored"] == 1
    assert played.is_faithful


@pytest.mark.timeout(120)
async def test_a_damaged_file_is_said_to_be_and_stops_nothing(tmp_path):
    model = policies.emulated(tmp_path / "notes", 1, 1)
    state = tmp_path / "serve" / "state"
    state.mkdir(parents=True)
    (state / "knowledge.json").write_text('{"version": 1, "fleet": ')
    async with product(policies.only(SLOW, model), tmp_path / "serve") as p:
        await p.until_serving(1)
        assert "what was learned before is not known" in p.log()
        assert await p.stop() == 0


@pytest.mark.timeout(120)
async def test_what_waited_warm_waits_again_at_its_price_after_a_kill(tmp_path):
    """One serves and one is held ready. After the kill both are the replicas that they were, and cost what they did."""
    pool = {"min_warm": 1, "max_warm": 1, "warm_price": "0.5/h"}
    model = policies.emulated(tmp_path / "notes", 1, 2, *FAST, price="4/h", pool=pool)
    policy = policies.only("m", model, fleet={"max_cost": "8/h"})
    async with product(policy, tmp_path / "serve") as p:

        async def one_of_each():
            return sorted(r["state"] for r in (await p.model("m"))["replicas"]) == ["serving", "warm"]

        await p.wait_until(one_of_each, 30.0)
        before = {r["id"]: r["state"] for r in (await p.model("m"))["replicas"]}
        p.kill()
        await p.start()

        after = {r["id"]: r["state"] for r in (await p.model("m"))["replicas"]}
        assert after == before
        assert (await p.fleet())["spending"]["per_h"] == 4.5
        assert (await ask(p.url, Ask("m", 8))).how is How.COMPLETE
        assert await p.stop() == 0
