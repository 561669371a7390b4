"""What only a backend with processes of its own can promise."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.worlds import Observer, fake_model, fleet_id_of, launch, stop
from engines import fake_engine
from engines.waiting import wait_until
from tidegate.backends.local import processes
from tidegate.backends.local.devices import Gpu
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.processes import Identity
from tidegate.core.lifecycle import Seen


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


async def test_sigterm_goes_to_the_first_process_alone_as_long_as_it_lives(rig, tmp_path):
    fleet, observer = await rig.open(
        fake_model("--children", 1, "--children-note", tmp_path / "asked", stop_grace_s=1.0)
    )
    launch(fleet, "r1")
    await observer.until("r1", Seen.READY)
    leader = next(each for each in rig.alive() if each.identity.pid == each.group)

    # A stopped first process does not end on SIGTERM, so the whole grace passes.
    os.kill(leader.identity.pid, signal.SIGSTOP)
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
    assert "HTTP 503: Loading model" in exited.detail


async def test_a_slow_start_becomes_ready(rig):
    fleet, observer = await rig.open(fake_model("--ready-after", 0.5))
    launch(fleet, "r1")

    await observer.until("r1", Seen.READY)


async def test_a_port_taken_in_the_last_moment_costs_one_more_try(rig, tmp_path):
    fleet, observer = await rig.open(fake_model("--first-port-is-taken", tmp_path / "tried"))
    launch(fleet, "r1")

    await observer.until("r1", Seen.READY)

    assert (tmp_path / "tried").exists()


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
    launch(fleet, "r1")
    launch(fleet, "r2")
    await observer.until("r1", Seen.READY)
    await observer.until("r2", Seen.READY)

    found = [environment_of(each.identity.pid) for each in rig.alive()]

    assert {each["CUDA_VISIBLE_DEVICES"] for each in found} == {"0", "1"}
    names = {"PATH", "HOME", "LANG", "CUDA_VISIBLE_DEVICES", "TIDEGATE_FLEET", "TIDEGATE_REPLICA"}
    adapters_own = {"VLLM_NO_USAGE_STATS", "DO_NOT_TRACK", "SPT_NOENV"}
    assert all(set(each) <= names | adapters_own for each in found)


async def test_a_replica_without_a_gpu_left_is_refused_until_one_is_free(rig):
    fleet, observer = await rig.open(fake_model(gpus_per_replica=1), gpus=[Gpu(0)])
    launch(fleet, "r1")
    launch(fleet, "r2")

    exited = await observer.until("r2", Seen.EXITED)
    assert "needs 1 GPUs; 0 of 1 are left" in exited.detail

    stop(fleet, "r1")
    await observer.until("r1", Seen.EXITED)
    launch(fleet, "r3")
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


def environment_of(pid):
    words = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(word.split("=", 1) for word in words if word)
