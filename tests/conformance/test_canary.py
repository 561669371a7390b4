"""What an engine prints or answers to our own probes may be a secret. Nobody gets it but the admin page."""

import asyncio
import json
import re
import sys

import aiohttp
import pytest
import yaml

from conformance.worlds import Observer, fake_model, launch
from engines import fake_engine
from engines.waiting import wait_until
from tidegate.backends.local.fleet import LocalFleet
from tidegate.core.lifecycle import Seen

CANARY = "HF_TOKEN=canary-4711"
OPTIONS = {
    "dies": ("--exit-code", "1", "--say", CANARY),
    "fails": ("--probe-error", CANARY),
}


def policy(folder):
    engine = [sys.executable, fake_engine.__file__, "--port", "{port}"]
    models = {
        name: {
            "engine": "openai",
            # The canary must be told to the engine by its command, which is nobody else's to repeat either.
            "command": [*engine, *options],
            "restarts": {"give_up_after": 1},
        }
        for name, options in OPTIONS.items()
    }
    return {
        "gateway": {"port": 0, "admin_port": 0},
        "fleet": {"state_dir": str(folder / "state")},
        "models": models,
    }


@pytest.fixture
async def served(tmp_path):
    """The whole product: its two addresses, and its log once it has ended."""
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump(policy(tmp_path)))
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidegate", "serve", str(file), "--log-level", "debug"),
            stdout=output,
            stderr=output,
        )

    def told():
        text = log.read_text()
        found = re.search(r"gateway ready on (\S+)", text), re.search(r"dashboard on (\S+)", text)
        return all(found) and [match[1] for match in found]

    async def end():
        if process.returncode is None:
            process.terminate()
            await process.wait()
        return log.read_text()

    yield await wait_until(told, within_s=30.0), end
    await end()


async def test_no_client_no_journal_no_metric_and_no_log_line_has_an_engines_words(served, tmp_path):
    (gateway, admin), end = served
    heard = []
    async with aiohttp.ClientSession() as session:
        for name in OPTIONS:
            body = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
            async with session.post(f"{gateway}/v1/chat/completions", json=body) as response:
                heard.append(await response.text())
                assert response.status == 503, heard
        for url in (f"{gateway}/metrics", f"{gateway}/v1/models", f"{admin}/metrics"):
            async with session.get(url) as response:
                heard.append(await response.text())
    log = await end()
    journal = b"".join(path.read_bytes() for path in (tmp_path / "state" / "journal").iterdir()).decode()
    assert "exited with code 1 before it was ready" in heard[0]
    assert "generates nothing: HTTP 500" in heard[1]
    assert '"EXITED"' in journal.upper() or "exited" in journal
    assert "its log is" in log

    for text in (*heard, journal, log):
        assert "canary" not in text, text
    # Or in whatever way it is written inside JSON.
    assert "canary" not in json.dumps([*heard, journal])


@pytest.mark.parametrize("name", OPTIONS)
async def test_the_admin_page_can_have_them(name, tmp_path):
    fleet, observer = LocalFleet([fake_model(*OPTIONS[name])], state_dir=tmp_path / "state"), Observer()
    await fleet.open(observer)
    launch(fleet, "r1")
    await observer.until("r1", Seen.EXITED)
    assert CANARY in fleet.last_words("r1")
    assert "canary" not in repr(observer.events)
    await fleet.close()
