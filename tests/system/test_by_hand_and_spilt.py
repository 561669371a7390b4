"""The whole product, when somebody lends a hand, when a second one is started, and when requests are spilt."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys

import aiohttp
import pytest
import yaml

from system.policies import emulated, only
from system.product import product

pytestmark = pytest.mark.timeout(180)
FAST = ("--time-scale", "20", "--on-sigterm", "cut")


def tidegate(*words, **more):
    """A command of Tidegate's, run to its end."""
    return subprocess.run(
        [sys.executable, "-m", "tidegate", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **more,
    )


def written_in(folder):
    """Every file below the folder; one that is just being written has a name of its own."""
    return {path for path in folder.rglob("*") if path.suffix != ".new"}


async def until_all_is_written(running):
    """Whoever serves writes these for the first time some seconds after it is ready."""
    names = {"knowledge.json", "spending.json"}
    await running.wait_until(lambda: names <= {path.name for path in written_in(running.folder)}, 30.0)


async def scale(running, *words):
    port = running.admin.rpartition(":")[2]
    return await asyncio.to_thread(tidegate, "scale", "--admin-port", port, *words)


def policy(folder, least=1, **fleet):
    model = emulated(folder / "notes", least, 3, *FAST)
    return only("m", model, fleet=fleet)


async def test_a_number_set_by_hand_holds_across_a_kill_and_is_explained(tmp_path):
    async with product(policy(tmp_path), tmp_path) as running:
        await running.until_serving(1)
        told = await scale(running, "m", "2", "--for", "30m")
        assert told.returncode == 0, told.stderr
        assert re.search(r"^m: 2 replicas wanted: .*held at 2 by hand until \d\d:\d\d$", told.stdout.strip())
        await running.until_serving(2)
        as_demand_asks = await scale(running, "m", "1", "--for", "30m")
        assert re.search(r"; held at 1 by hand until \d\d:\d\d$", as_demand_asks.stdout.strip())
        assert (await scale(running, "m", "2", "--for", "30m")).returncode == 0
        running.kill()
        await running.start()
        await running.until_serving(2)
        await asyncio.sleep(4)  # beyond the window and the delay of this policy
        model = await running.model("m")
        assert (model["desired"], model["held_by"], model["hand"]["replicas"]) == (2, "hand", 2)

        explained = await asyncio.to_thread(tidegate, "explain", str(running.journal_dir), "--all")
        assert "held at 2 by hand" in explained.stdout
        assert (await scale(running, "m", "--release")).returncode == 0
        await running.until_serving(1)
        assert (await running.model("m"))["hand"] is None
        replayed = await asyncio.to_thread(tidegate, "replay", str(running.journal_dir))
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr


async def test_what_is_wrong_with_a_number_is_said(tmp_path):
    async with product(policy(tmp_path), tmp_path) as running:
        too_many = await scale(running, "m", "4")
        assert (too_many.returncode, too_many.stdout) == (1, "")
        assert "replicas is 4; it must be from 1 to 3, the model's own bounds" in too_many.stderr
        unknown = await scale(running, "nobody", "2")
        assert "there is no such model; known are m" in unknown.stderr
        assert (await scale(running, "m")).returncode == 2
        assert (await scale(running, "m", "2", "--for", "soon")).returncode == 2
        as_json = await scale(running, "m", "2", "--at-least", "--json")
        assert json.loads(as_json.stdout)["desired"] == 2
    nobody = await asyncio.to_thread(tidegate, "scale", "m", "2", "--admin-port", "1")
    assert nobody.returncode == 1
    assert "no Tidegate answers at http://127.0.0.1:1/scale" in nobody.stderr


@pytest.mark.parametrize("manual", ["revert", "adopt"])
async def test_an_engine_that_somebody_ends(manual, tmp_path):
    async with product(policy(tmp_path, least=0, manual=manual), tmp_path) as running:
        await scale(running, "m", "2", "--for", "2s")
        await running.until_serving(2)
        async with aiohttp.ClientSession() as session:
            body = {"model": "m", "messages": [], "max_tokens": 100_000, "stream": True, "ignore_eos": True}

            async def stream():
                async with session.post(f"{running.url}/v1/chat/completions", json=body) as answer:
                    await answer.read()

            asked = [asyncio.create_task(stream()) for _ in range(12)]  # eight a replica, so two are needed
            await asyncio.sleep(3)
            first, second = sorted(running.replica_processes())
            for process in running.replica_processes()[second][:1]:
                os.kill(process.pid, signal.SIGTERM)
            await running.wait_until(lambda: second not in running.replica_processes(), 30)
            await asyncio.sleep(2)
            there = set(running.replica_processes())
            model = await running.model("m")
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if manual == "revert":
            assert len(there) == 2
            assert model["hand"] is None
        else:
            assert there == {first}
            assert model["hand"]["replicas"] == 1


async def test_a_second_tidegate_on_the_same_fleet_does_not_start_and_harms_nobody(tmp_path):
    async with product(policy(tmp_path), tmp_path) as running:
        await running.until_serving(1)
        await until_all_is_written(running)
        before, files = running.replica_processes(), written_in(running.folder)
        second = await asyncio.to_thread(tidegate, "serve", str(tmp_path / "policy.yaml"))
        assert second.returncode == 1
        assert "tidegate cannot start" in second.stderr
        assert "another Tidegate" in second.stderr
        assert written_in(running.folder) == files
        port = running.url.rpartition(":")[2]
        elsewhere = {**running.policy, "fleet": {"state_dir": str(tmp_path / "other")}}
        (tmp_path / "elsewhere.yaml").write_text(yaml.safe_dump(elsewhere))
        third = await asyncio.to_thread(tidegate, "serve", str(tmp_path / "elsewhere.yaml"), "--port", port)
        assert third.returncode == 1
        assert f"{port}): address already in use; --port and --admin-port name others" in third.stderr
        assert not (tmp_path / "other" / "journal").exists()
        explained = await asyncio.to_thread(tidegate, "explain", str(running.journal_dir))
        assert "decisions, 1 of them changed a number" in explained.stdout, explained.stderr
        assert running.replica_processes() == before
        assert running.is_running
        assert len(await running.serving("m")) == 1


async def test_requests_that_find_no_room_are_spilt_to_another_tidegate_s_engine(tmp_path, monkeypatch):
    """The upstream is a Tidegate of its own with an emulated engine: an OpenAI-compatible address as any other."""
    key = "sk-of-the-system-test"
    monkeypatch.setenv("SPILL_KEY", key)
    other = only("theirs", emulated(tmp_path / "their-notes", 1, 1, *FAST, slots=8))
    async with product(other, tmp_path / "upstream") as upstream:
        await upstream.until_serving(1)
        spill = {
            "address": f"{upstream.url}/v1",
            "model": "theirs",
            "key_env": "SPILL_KEY",
            "prompt_price": "100/M",
            "output_price": "1000/M",
            "max_cost": "50/h",
        }
        model = emulated(tmp_path / "notes", 1, 1, slots=1, queue={"max_requests": 1}, spill=spill)
        async with product(only("m", model), tmp_path / "house") as house:
            await house.until_serving(1)
            async with aiohttp.ClientSession() as session:
                body = {
                    "model": "m",
                    "messages": [{"role": "user", "content": "x"}],
                    "max_tokens": 200,
                    "ignore_eos": True,
                }

                async def ask():
                    async with session.post(f"{house.url}/v1/chat/completions", json=body) as answer:
                        return answer.status, "x-tidegate-spilt" in answer.headers, await answer.json()

                answers = await asyncio.gather(*(ask() for _ in range(6)))
            assert [status for status, _, _ in answers] == [200] * 6
            assert {answer["model"] for _, spilt, answer in answers if spilt} == {"theirs"}
            assert sum(spilt for _, spilt, _ in answers) == 4
            assert await house.metric("tidegate_spilt_requests_total", model="m") == 4
            cost = await house.metric("tidegate_spilt_cost_total", model="m")
            assert cost == pytest.approx(4 * 0.2, rel=0.2)
            assert (await house.model("m"))["spill"]["requests_total"] == 4
            await asyncio.sleep(1.5)  # a report, and what the controller makes of it
            assert await house.metric("tidegate_cost_last_day") >= 0.99 * cost
            await house.stop()
            kept = json.loads((tmp_path / "house/state/spending.json").read_bytes())
            assert sum(money for _, money in kept["spilt"]["m"]) == pytest.approx(cost)
            await house.start()
            assert await house.metric("tidegate_spilt_cost_last_hour", model="m") == pytest.approx(cost)
            said = "".join(
                path.read_text(errors="replace") for path in (tmp_path / "house").rglob("*") if path.is_file()
            )
            assert key not in said
            assert "their prompts leave the house" in house.log()
            replayed = await asyncio.to_thread(tidegate, "replay", str(house.journal_dir))
            assert replayed.returncode == 0, replayed.stdout + replayed.stderr


async def test_without_the_key_nothing_is_served(tmp_path):
    text = """
models:
  m:
    engine: emulated
    spill: {address: https://api.example.com/v1, model: x, key_env: NOT_SET_HERE, prompt_price: 1/M, output_price: 1/M}
"""
    (tmp_path / "policy.yaml").write_text(text)
    assert tidegate("config", "check", str(tmp_path / "policy.yaml")).returncode == 0
    served = tidegate("serve", str(tmp_path / "policy.yaml"))
    assert served.returncode == 2
    assert "models.m.spill.key_env is NOT_SET_HERE; that variable is not set" in served.stderr


async def test_an_upstream_that_a_changed_policy_brings_is_used_if_its_key_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("SPILL_KEY", "sk-1")
    async with product(policy(tmp_path), tmp_path) as running:
        await running.until_serving(1)
        file = tmp_path / "policy.yaml"
        before = yaml.safe_load(file.read_text())
        spill = {
            "address": "https://api.example.com/v1",
            "model": "x",
            "prompt_price": "1/M",
            "output_price": "1/M",
        }

        def change(key_env):
            model = before["models"]["m"] | {"spill": spill | {"key_env": key_env}}
            file.write_text(yaml.safe_dump(before | {"models": {"m": model}}))

        change("NOT_SET_HERE")
        await running.wait_until(lambda: "not usable; nothing changes" in running.log(), 30)
        assert (await running.model("m"))["spill"] is None
        change("SPILL_KEY")
        await running.wait_until(lambda: "go to https://api.example.com/v1" in running.log(), 30)
        assert (await running.model("m"))["spill"]["max_cost_per_h"] == 1.0


async def test_what_holds_from_the_next_start_on_is_told_until_it_is_taken_back(tmp_path):
    """The port is changed, then the window too, then the port is what it was: the last was called a change as well."""
    told = "gateway.port has changed; it holds from the next start"
    async with product(policy(tmp_path), tmp_path) as running:
        file = tmp_path / "policy.yaml"
        written = yaml.safe_load(file.read_text())
        begun, moved = written["gateway"]["port"], 18_400
        for reloads, port, window, times in ((1, moved, "2s", 1), (2, moved, "3s", 2), (3, begun, "3s", 2)):
            written["gateway"]["port"] = port
            written["models"]["m"]["scaling"]["window"] = window
            file.write_text(yaml.safe_dump(written, sort_keys=False))
            await running.wait_until(lambda n=reloads: running.log().count("are configured") == n, 15)
            assert running.log().count(told) == times
