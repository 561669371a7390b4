"""Weights from a server to an engine: fetched once, kept while in use, and why not, if not."""

import asyncio
import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.worlds import Observer, fake_model, fleet_id_of, launch, stop
from engines.waiting import wait_until
from integration.weights_world import MIB, Sources, noise, serving, sha256
from tidegate.backends.local import processes
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.provisions import progress_in_words
from tidegate.core.effects import Prefetch
from tidegate.core.events import ReplicaSeen, WeightsSeen
from tidegate.core.lifecycle import Seen
from tidegate.weights.protocol import Going
from tidegate.weights.settings import WeightsSettings
from tidegate.weights.source import parsed
from tidegate.weights.store import Store

DATA = noise(17 * MIB)
DIGEST = sha256(DATA)


@pytest.fixture
async def server():
    async with serving(Sources()) as sources:
        sources.put("/m.gguf", DATA)
        yield sources


class Rig:
    """A local fleet that fetches from the server."""

    def __init__(self, tmp_path, server):
        self.settings = WeightsSettings(tmp_path / "cache", prefetch_bytes_per_s=40 * MIB)
        self.state_dir = tmp_path / "state"
        self.store = Store(tmp_path / "cache")
        self.observer = Observer()
        self.fleet = None
        self.source = parsed(f"{server.url}/m.gguf", DIGEST)

    def model(self, *options, **spec):
        model = fake_model("--weights", "{weights}", *options, silent_after_s=2.0)
        spec = {"weights": self.source.written, "weights_sha256": self.source.sha256} | spec
        return replace(model, spec=replace(model.spec, **spec))

    async def open(self, *models):
        self.fleet = LocalFleet(models, state_dir=self.state_dir, scrape_every_s=0.2, weights=self.settings)
        await self.fleet.open(self.observer)
        return self.fleet

    def weights_seen(self):
        return [event for event in self.observer.events if isinstance(event, WeightsSeen)]

    def exited(self, replica_id):
        return self.observer.seen(replica_id, Seen.EXITED).detail

    def told(self, replica_id):
        return [
            event.detail
            for event in self.observer.events
            if isinstance(event, ReplicaSeen)
            and event.replica_id == replica_id
            and event.seen is Seen.PULLING
        ]


@pytest.fixture
async def rig(tmp_path, server):
    rig = Rig(tmp_path, server)
    yield rig
    if rig.fleet is not None:
        await rig.fleet.close()
    assert processes.marked(fleet_id_of(rig.state_dir)) == {}


async def test_a_replica_pulls_then_starts_with_the_very_bytes_and_the_next_one_has_them(rig, server):
    fleet = await rig.open(rig.model())
    launch(fleet, "r1")
    await rig.observer.until("r1", Seen.READY)

    assert rig.observer.history("r1")[0] is Seen.PULLING
    assert rig.observer.history("r1")[-2:] == [Seen.STARTING, Seen.READY]
    assert f"weights {DIGEST}" in fleet.last_words("r1")
    first, *_, last = rig.weights_seen()
    assert (first.missing_bytes, first.total_bytes, first.node) == (None, None, "local")
    assert (last.missing_bytes, last.total_bytes, last.fetched_bytes) == (0, len(DATA), len(DATA))
    server.asked.clear()

    launch(fleet, "r2")
    await rig.observer.until("r2", Seen.READY)

    assert rig.observer.history("r2") == [Seen.STARTING, Seen.READY]
    assert server.asked == []


@pytest.mark.slow  # one more download and start
async def test_two_replicas_at_once_wait_for_one_download(rig, server):
    fleet = await rig.open(rig.model())

    launch(fleet, "r1")
    launch(fleet, "r2")
    await rig.observer.until("r1", Seen.READY)
    await rig.observer.until("r2", Seen.READY)

    assert sum(asked.range == (0, 1) for asked in server.asked) == 1


async def test_weights_that_cannot_be_had_are_a_reason_without_the_signature(rig, server):
    rig.source = parsed(f"{server.url}/gone.gguf?X-Amz-Signature=secret-signature")
    fleet = await rig.open(rig.model(weights_sha256=None))

    launch(fleet, "r1")
    await rig.observer.until("r1", Seen.EXITED)

    assert rig.exited("r1") == (
        f"its weights cannot be had: {server.url}/gone.gguf answers 404: there is nothing there"
    )
    assert "secret-signature" not in repr(rig.observer.events)


async def test_the_wrong_weights_start_no_engine(rig, server):
    rig.source = parsed(f"{server.url}/m.gguf", "0" * 64)
    fleet = await rig.open(rig.model())

    launch(fleet, "r1")
    await rig.observer.until("r1", Seen.EXITED)

    assert f"has the SHA-256 {DIGEST}, not {'0' * 64}" in rig.exited("r1")
    assert Seen.STARTING not in rig.observer.history("r1")


async def test_a_replica_that_is_stopped_while_it_pulls_ends_at_once_and_leaves_what_came(rig, server):
    async def slowly(asked, request):
        return await server.send(request, asked, DATA, pause_s=0.05)

    server.fault(slowly)
    fleet = await rig.open(rig.model())
    launch(fleet, "r1")
    await rig.observer.until("r1", Seen.PULLING)
    await wait_until(lambda: server.sent_bytes > MIB, 10.0)

    stop(fleet, "r1")
    await rig.observer.until("r1", Seen.EXITED, within_s=5.0)

    assert rig.exited("r1") == "stopped before its weights were here"
    assert any(rig.store.folder.glob("partial/*/0/data"))


async def test_weights_in_use_stay_though_tidegate_was_killed_and_room_is_wanted(rig, server):
    fleet = await rig.open(rig.model())
    launch(fleet, "r1")
    await rig.observer.until("r1", Seen.READY)

    # As after a kill -9: the engine runs on, and nothing of ours holds anything.
    await fleet.close(leave_running=True)
    assert [kept.is_used for kept in rig.store.room.kept()] == [True]
    assert rig.store.room.prune(older_than_s=0.0, partial=True) == []
    assert rig.store.ref(rig.source) is not None

    # The next one adopts it, with the same path in its settings as the engine was given.
    fleet = await rig.open(rig.model())
    await wait_until(lambda: fleet.spec_of("r1").weights.startswith(str(rig.store.folder)), 10.0)
    stop(fleet, "r1")
    await wait_until(lambda: not rig.store.room.kept()[0].is_used, 10.0)
    assert len(rig.store.room.prune(older_than_s=0.0, partial=True)) == 1


async def test_what_is_fetched_ahead_comes_slowly_until_a_replica_waits_for_it(rig, server):
    rig.settings = replace(rig.settings, prefetch_bytes_per_s=MIB)
    fleet = await rig.open(rig.model())
    loop = asyncio.get_running_loop()

    fleet.prefetch(Prefetch("m", "local", "a test asks"))
    await wait_until(lambda: server.sent_bytes > 0, 10.0)
    launch(fleet, "r1")
    began_s = loop.time()
    await rig.observer.until("r1", Seen.READY)

    # At the limit it would have taken 17 s.
    assert loop.time() - began_s < 15.0
    assert rig.weights_seen()[-1].missing_bytes == 0
    assert sum(asked.range == (0, 1) for asked in server.asked) == 1


@pytest.mark.slow  # one more download and start
async def test_what_was_fetched_ahead_is_there_when_it_is_wanted(rig, server):
    fleet = await rig.open(rig.model())

    fleet.prefetch(Prefetch("m", "local", "a test asks"))
    await wait_until(lambda: rig.weights_seen()[-1].missing_bytes == 0, 15.0)
    launch(fleet, "r1")
    await rig.observer.until("r1", Seen.READY)

    assert rig.observer.history("r1") == [Seen.STARTING, Seen.READY]
    # It was slowed on purpose, and says nothing of how fast the source is.
    assert rig.weights_seen()[-1].fetched_bytes == 0


@pytest.mark.slow  # three downloads
async def test_what_nobody_waits_for_throws_nothing_away_that_was_used_lately_and_a_start_does(rig, server):
    server.put("/other.gguf", noise(17 * MIB, seed=2))
    rig.settings = replace(rig.settings, max_bytes=30 * MIB)
    other = f"{server.url}/other.gguf"
    mine, others = rig.model(), replace(rig.model(weights=other, weights_sha256=None), model="other")
    fleet = await rig.open(mine, others)
    launch(fleet, "r1")
    await rig.observer.until("r1", Seen.READY)
    stop(fleet, "r1")
    await rig.observer.until("r1", Seen.EXITED)

    fleet.prefetch(Prefetch("other", "local", "a test asks"))
    await wait_until(lambda: fleet.provisions.puller.failures == 1, 15.0)
    assert rig.store.ref(rig.source) is not None

    launch(fleet, "r2", model="other")
    await rig.observer.until("r2", Seen.READY)
    assert rig.store.ref(rig.source) is None
    await wait_until(lambda: rig.weights_seen()[-1].missing_bytes == 0, 5.0)
    last = {event.model: event.missing_bytes for event in rig.weights_seen()}
    assert last == {"m": len(DATA), "other": 0}


@pytest.mark.slow  # a fetch that must have come some way, then another
async def test_a_process_that_fetches_and_is_killed_is_a_failed_start_and_the_next_one_goes_on(rig, server):
    async def slowly(asked, request):
        return await server.send(request, asked, DATA, pause_s=0.02)

    server.fault(slowly)
    fleet = await rig.open(rig.model())
    launch(fleet, "r1")
    await wait_until(lambda: server.sent_bytes > 4 * MIB, 15.0)
    for process in fetching_processes():
        os.kill(process, signal.SIGKILL)
    await rig.observer.until("r1", Seen.EXITED)
    assert "the process that fetches has ended with code -9" in rig.exited("r1")
    server.faults.clear()

    launch(fleet, "r2")
    await rig.observer.until("r2", Seen.READY)

    assert f"weights {DIGEST}" in fleet.last_words("r2")


def fetching_processes():
    """Ours, and not those of somebody else's tests."""
    for process in processes.living():
        pid = process.identity.pid
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"tidegate.weights" in words and parent == os.getpid():
            yield pid


def test_progress_reads_well():
    assert progress_in_words(Going(3_200_000_000, 15_000_000_000, 410e6, False)) == (
        "3.2 GB of 15.0 GB, 410 MB/s, 29 s left"
    )
    assert progress_in_words(Going(0, None, None, True)) == "another process fetches its weights"


# ---- what engines compile ----


@pytest.fixture
def packages(tmp_path):
    """A place from which an interpreter reads that vLLM is installed, and which."""

    def install(version):
        for old in (tmp_path / "site").glob("*.dist-info"):
            (old / "METADATA").unlink()
            old.rmdir()
        info = tmp_path / "site" / f"vllm-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
        return {"PYTHONPATH": str(tmp_path / "site")}

    return install


async def test_what_an_engine_compiled_is_there_for_the_next_one_like_it(rig, packages):
    model = rig.model("--compiles-into", "VLLM_CACHE_ROOT", env=packages("1.0"))
    fleet = await rig.open(model)
    for replica_id in ("r1", "r2"):
        launch(fleet, replica_id)
        await rig.observer.until(replica_id, Seen.READY)

    assert re.search(r"^compiles$", fleet.last_words("r1"), re.MULTILINE)
    assert "compiled before" in fleet.last_words("r2")
    assert (fleet.provisions.compiled_hits, fleet.provisions.compiled_misses) == (1, 1)
    (kept,) = [kept for kept in rig.store.room.kept() if kept.is_compiled]
    assert kept.is_used


@pytest.mark.slow  # two fleets, each with a download
async def test_another_version_of_the_engine_compiles_for_itself(rig, packages):
    fleet = await rig.open(rig.model("--compiles-into", "VLLM_CACHE_ROOT", env=packages("1.0")))
    launch(fleet, "r1")
    await rig.observer.until("r1", Seen.READY)
    await fleet.close()

    rig.observer.events.clear()
    fleet = await rig.open(rig.model("--compiles-into", "VLLM_CACHE_ROOT", env=packages("1.1")))
    launch(fleet, "r2")
    await rig.observer.until("r2", Seen.READY)

    assert re.search(r"^compiles$", fleet.last_words("r2"), re.MULTILINE)
    assert len([kept for kept in rig.store.room.kept() if kept.is_compiled]) == 2


@pytest.mark.slow  # one more fleet
async def test_an_operators_own_folder_wins(rig, packages, tmp_path):
    env = packages("1.0") | {"VLLM_CACHE_ROOT": str(tmp_path / "own")}
    fleet = await rig.open(rig.model("--compiles-into", "VLLM_CACHE_ROOT", env=env))

    launch(fleet, "r1")
    await rig.observer.until("r1", Seen.READY)

    assert (tmp_path / "own" / "kernel").exists()
