"""What only a backend with processes of its own can promise."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.worlds import Observer, fake_model, fleet_id_of, launch, stop
from engines import fake_engine
from engines.waiting import wait_until
from tidegate.backends.local import group, processes, replica
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.logs import Logs
from tidegate.backends.local.processes import Identity
from tidegate.core.lifecycle import Seen
from tidegate.core.nodes import Gpu


class Rig:
    """A local fleet of one fake model."""

    def __init__(self, state_dir):
        self.state_dir = state_dir
        self.observer = Observer()
        self.fleet = None

    async def open(self, *models, **settings):
        self.fleet = LocalFleet(models, state_dir=self.state_dir, scrape_every_s=0.05, **settings)
        await self.fleet.open(self.observer)
        return self.fleet, self.observer

    def alive(self):
        return [each for found in processes.marked(fleet_id_of(self.state_dir)).values() for each in found]


@pytest.fixture
async def rig(tmp_path):
    rig = Rig(tmp_path / "state")
    yield rig
    if rig.fleet is not None:
        await rig.fleet.close()
    assert rig.alive() == []


async def test_children_die_with_their_group_though_they_ignore_sigterm(rig):
    fleet, observer = await rig.open(fake_model("--children", 3, stop_grace_s=0.3))
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)
    assert len(rig.alive()) == 4

    stop(fleet, "r1")
    await observer.until("r1", Seen.EXITED)

    assert rig.alive() == []


async def test_a_child_that_left_the_session_is_found_by_its_mark(rig):
    fleet, observer = await rig.open(fake_model("--children", 2, "--deserters", 1, stop_grace_s=0.3))
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)

    stop(fleet, "r1")
    await observer.until("r1", Seen.EXITED)

    assert rig.alive() == []


async def test_orphaned_children_of_a_crashed_engine_are_ended_before_exit_is_reported(rig):
    fleet, observer = await rig.open(fake_model("--children", 2))
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)
    leader = next(each for each in rig.alive() if each.identity.pid == each.group)

    os.kill(leader.identity.pid, 9)
    exited = await observer.until("r1", Seen.EXITED, within_s=2.0)

    assert "killed by SIGKILL" in exited.detail
    assert rig.alive() == []


@pytest.mark.parametrize(
    "sent, by_hand",
    [(signal.SIGTERM, True), (signal.SIGINT, True), (signal.SIGKILL, False), (signal.SIGSEGV, False)],
)
async def test_whoever_asks_an_engine_to_end_has_lent_a_hand_and_a_crash_has_not(rig, sent, by_hand):
    fleet, observer = await rig.open(fake_model())
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)
    (engine,) = rig.alive()

    os.kill(engine.identity.pid, sent)
    exited = await observer.until("r1", Seen.EXITED)

    assert exited.by_hand is by_hand


async def test_what_was_ordered_is_not_done_by_hand(rig):
    fleet, observer = await rig.open(fake_model())
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)
    stop(fleet, "r1")
    assert not (await observer.until("r1", Seen.EXITED)).by_hand


async def test_sigterm_goes_to_the_first_process_alone_as_long_as_it_lives(rig, tmp_path):
    fleet, observer = await rig.open(
        fake_model("--children", 1, "--children-note", tmp_path / "asked", stop_grace_s=1.0)
    )
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)
    leader = next(each for each in rig.alive() if each.identity.pid == each.group)

    # A stopped first process does not end on SIGTERM, so the whole grace passes.
    os.kill(leader.identity.pid, signal.SIGSTOP)
    await wait_until(lambda: state_of(leader.identity.pid) == "T", within_s=5.0)
    stop(fleet, "r1")
    await observer.until("r1", Seen.EXITED)

    assert not (tmp_path / "asked").exists()


async def test_an_engine_behind_a_shell_is_asked_to_end_too(rig, tmp_path):
    command = ("sh", "-c", f"{sys.executable} {fake_engine.__file__} --port {{port}}; true")
    model = fake_model()
    fleet, observer = await rig.open(
        replace(model, spec=replace(model.spec, command=command), stop_grace_s=5.0)
    )
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)

    stop(fleet, "r1")
    await observer.until("r1", Seen.EXITED, within_s=2.0)


async def test_an_engine_that_ignores_sigterm_is_killed_after_its_grace(rig):
    fleet, observer = await rig.open(fake_model("--ignore-sigterm", stop_grace_s=0.4))
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)

    stop(fleet, "r1")
    ordered_s = time.monotonic()
    await observer.until("r1", Seen.EXITED)

    assert 0.4 <= time.monotonic() - ordered_s < 2.0


async def test_a_start_past_its_deadline_is_given_up_with_the_last_answer(rig):
    fleet, observer = await rig.open(fake_model("--ready-after", "inf", start_deadline_s=0.6))
    launch(fleet, "r1")

    exited = await observer.until("r1", Seen.EXITED)

    assert "not ready within 0.6 s" in exited.detail
    assert "last probe: HTTP 503" in exited.detail
    assert "Loading model" in fleet.last_words("r1")
    assert "Loading model" not in exited.detail


async def test_a_slow_start_becomes_ready(rig):
    fleet, observer = await rig.open(fake_model("--ready-after", 0.5))
    launch(fleet, "r1")

    await observer.until("r1", Seen.READY)


async def test_a_port_taken_in_the_last_moment_is_a_failed_start_that_says_so(rig, tmp_path):
    """Whoever counts starts must see it; the next one gets another port."""
    fleet, observer = await rig.open(fake_model("--first-port-is-taken", tmp_path / "tried"))
    launch(fleet, "r1")

    exited = await observer.until("r1", Seen.EXITED)
    launch(fleet, "r2")
    ready = await observer.until("r2", Seen.READY)

    assert re.search(r"exited with code 1 before it was ready: somebody else took port \d+$", exited.detail)
    assert str(ready.address.port) not in exited.detail
    assert observer.history("r1") == [Seen.STARTING, Seen.EXITED]


async def test_a_program_that_does_not_exist_is_named(rig):
    model = fake_model()
    spec = type(model.spec)(model_name="fake", weights="", slots=1, command=("no-such-engine", "{port}"))
    fleet, observer = await rig.open(type(model)("m", model.adapter, spec))
    launch(fleet, "r1")

    exited = await observer.until("r1", Seen.EXITED)

    assert "no-such-engine is not an executable" in exited.detail


async def test_an_engine_finds_only_the_environment_meant_for_it(rig, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    fleet, observer = await rig.open(fake_model(gpus_per_replica=1), gpus=[Gpu(0), Gpu(1)])
    launch(fleet, "r1", gpus=(1,))
    launch(fleet, "r2", gpus=(0,))
    await observer.until("r1", Seen.READY)
    await observer.until("r2", Seen.READY)

    found = [environment_of(each.identity.pid) for each in rig.alive()]

    assert {each["CUDA_VISIBLE_DEVICES"] for each in found} == {"0", "1"}
    names = {"PATH", "HOME", "LANG", "CUDA_VISIBLE_DEVICES", "TIDEGATE_FLEET", "TIDEGATE_REPLICA"}
    adapters_own = {"VLLM_NO_USAGE_STATS", "DO_NOT_TRACK", "SPT_NOENV"}
    assert all(set(each) <= names | adapters_own for each in found)


async def test_a_replica_that_is_told_to_go_where_another_is_is_refused_until_that_is_gone(rig):
    fleet, observer = await rig.open(fake_model(gpus_per_replica=1), gpus=[Gpu(0), Gpu(1)])
    launch(fleet, "r1", gpus=(1,))
    await observer.until("r1", Seen.READY)
    launch(fleet, "r2", gpus=(1,))

    exited = await observer.until("r2", Seen.EXITED)
    assert exited.detail == "it cannot be started: GPU 1 has no room: another replica is there"

    stop(fleet, "r1")
    await observer.until("r1", Seen.EXITED)
    launch(fleet, "r3", gpus=(1,))
    await observer.until("r3", Seen.READY)


async def test_replicas_are_pinned_to_cores_in_turn(rig):
    cores = sorted(os.sched_getaffinity(0))[:2]
    fleet, observer = await rig.open(fake_model(cores_per_replica=1), cores=cores)
    for number in range(len(cores)):
        launch(fleet, f"r{number}")
        await observer.until(f"r{number}", Seen.READY)

    pinned = [os.sched_getaffinity(each.identity.pid) for each in rig.alive()]

    assert sorted(pinned, key=min) == [{core} for core in cores]


async def test_a_talkative_engine_does_not_fill_the_disk(rig):
    fleet, observer = await rig.open(fake_model("--chatter-bytes", 300_000), log_max_bytes=100_000)
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)
    log = rig.state_dir / "logs" / "r1.log"

    await wait_until(lambda: log.stat().st_size < 100_000, within_s=5.0)


async def test_the_log_of_a_replica_that_runs_is_kept_however_quiet_it_is(tmp_path):
    logs = Logs(tmp_path, keep=2)
    for name in ("quiet", "r1", "r2", "r3"):
        logs.hold(name)
        os.close(logs.create(name))
        os.utime(logs.path(name), (0, 0) if name == "quiet" else None)
        if name != "quiet":
            logs.let_go(name)
    os.close(logs.create("r4"))

    assert sorted(path.stem for path in tmp_path.glob("*.log")) == ["quiet", "r2", "r3", "r4"]


async def test_a_long_log_is_moved_aside_while_the_loop_goes_on(tmp_path, monkeypatch):
    logs = Logs(tmp_path, max_bytes=1000)
    os.close(logs.create("r1"))
    logs.path("r1").write_bytes(b"x" * 2000)
    is_copied = threading.Event()

    def slow_copy(source, target):
        assert is_copied.wait(5.0)

    monkeypatch.setattr(shutil, "copyfile", slow_copy)
    trimming = asyncio.create_task(logs.trim("r1"))
    for _ in range(10):
        await asyncio.sleep(0.01)
    assert not trimming.done()
    is_copied.set()
    await trimming
    assert logs.path("r1").stat().st_size == 0


@pytest.fixture
def immortal(monkeypatch):
    """Nothing can be killed until this is set. A process in the kernel's own sleep is like that."""
    can_die = threading.Event()
    send, send_to_one = processes.send, processes.send_to_one
    monkeypatch.setattr(processes, "send", lambda *call: send(*call) if can_die.is_set() else None)
    monkeypatch.setattr(
        processes, "send_to_one", lambda *call: send_to_one(*call) if can_die.is_set() else None
    )
    monkeypatch.setattr(group, "_GIVE_UP_AFTER_S", 0.3)
    monkeypatch.setattr(replica, "_LOOK_AGAIN_S", 0.2)
    yield can_die
    can_die.set()


async def test_what_cannot_be_killed_is_said_to_have_ended_only_when_it_has(rig, immortal, caplog):
    fleet, observer = await rig.open(fake_model(stop_grace_s=0.1))
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)

    stop(fleet, "r1")
    await wait_until(lambda: "cannot be killed" in caplog.text, within_s=5.0)
    assert observer.history("r1") == [Seen.STARTING, Seen.READY]

    immortal.set()
    await observer.until("r1", Seen.EXITED)


async def test_closing_does_not_wait_for_ever_and_the_next_start_finds_the_record(rig, immortal):
    fleet, observer = await rig.open(fake_model(stop_grace_s=0.1))
    launch(fleet, "r1")
    ready = await observer.until("r1", Seen.READY)

    began_s = time.monotonic()
    await fleet.close()
    assert time.monotonic() - began_s < 3.0
    assert observer.history("r1") == [Seen.STARTING, Seen.READY]

    # It runs under another command than is configured now, and still can't be killed.
    rig.observer = Observer()
    fleet, observer = await rig.open(fake_model("--say", "another"))
    assert observer.history("r1") == [Seen.UNRESPONSIVE]
    launch(fleet, "r2")
    assert (await observer.until("r2", Seen.READY)).address != ready.address
    await fleet.close()

    immortal.set()
    rig.observer = Observer()
    fleet, observer = await rig.open(fake_model("--say", "another"))
    assert observer.history("r1") == [Seen.EXITED]


async def test_a_pid_that_now_belongs_to_somebody_else_is_left_alone():
    stranger = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        real = processes.started_ticks_of(stranger.pid)
        stale = Identity(stranger.pid, real - 1)

        assert processes.open_pidfd(stale) is None
        assert processes.members("some fleet", "r1", stale) == []
        assert len(processes.members("some fleet", "r1", Identity(stranger.pid, real))) == 1
    finally:
        stranger.communicate(b"\n")


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def environment_of(pid):
    words = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(word.split("=", 1) for word in words if word)
