"""The engine and the load client of the gateway benchmark, compiled and let loose on each other for a moment."""

import json
import shutil
import subprocess

import pytest

from benchmarks.gateway.bodies import Kind, write_bodies
from benchmarks.gateway.build import compile_program
from benchmarks.gateway.gateways import free_port

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="needs gcc: apt-get install gcc libc6-dev"
)

SECONDS = 0.3


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    return {name: compile_program(name, folder) for name in ("engine", "load")}


@pytest.fixture(scope="module")
def engine_port(programs):
    port = free_port()
    with subprocess.Popen([programs["engine"], str(port)], stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout.readline() == "ready\n"
        yield port
        engine.terminate()


def load(programs, port, bodies, **options):
    options = {"warm-up": 0.1, "seconds": SECONDS, **options}
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    command = [programs["load"], "--port", str(port), "--bodies", str(bodies), *arguments]
    opened, result = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.splitlines()
    assert json.loads(opened) == {"window": "open"}
    return json.loads(result)


def test_a_closed_loop_answers_without_errors(programs, engine_port, tmp_path):
    bodies = write_bodies(tmp_path, Kind("plain", 16 * 1024), seed=1)

    result = load(programs, engine_port, bodies, connections=8)

    assert result["completed"] == result["latency_us"]["count"] > 100
    assert result["errors"] == {"status": 0, "lost": 0, "short": 0}
    assert result["latency_us"]["p50"] <= result["latency_us"]["p99"] <= result["latency_us"]["max"]


def test_an_open_loop_keeps_its_rate(programs, engine_port, tmp_path):
    bodies = write_bodies(tmp_path, Kind("plain", 1024), seed=1)

    result = load(programs, engine_port, bodies, connections=50, rate=200)

    assert result["completed"] + result["backlog"] == pytest.approx(200 * SECONDS, abs=15)


def test_paced_streams_come_whole_and_their_chunks_carry_their_delay(programs, engine_port, tmp_path):
    bodies = write_bodies(tmp_path, Kind("paced", 1024, pace_us=2_000, chunks=20), seed=1)

    result = load(programs, engine_port, bodies, connections=10, chunks=20)

    assert result["completed"] > 0
    assert result["errors"] == {"status": 0, "lost": 0, "short": 0}
    assert 0 < result["delay_us"]["p50"] < 1e6
    assert 1_000 < result["gap_us"]["mean"] < 20_000


def test_a_stream_with_fewer_chunks_than_expected_is_an_error(programs, engine_port, tmp_path):
    bodies = write_bodies(tmp_path, Kind("flood", 1024, pace_us=0, chunks=20), seed=1)

    result = load(programs, engine_port, bodies, connections=2, chunks=21)

    assert result["completed"] == 0
    assert result["errors"]["short"] > 0
    assert result["first_error"].startswith("stream cut short")


def test_nobody_listening_is_counted_and_does_not_spin(programs, tmp_path):
    bodies = write_bodies(tmp_path, Kind("plain", 1024), seed=1)

    result = load(programs, free_port(), bodies, connections=2)

    assert result["completed"] == 0
    assert 0 < result["errors"]["lost"] < 2 * 2 * SECONDS * 1000
