"""``tidegate starts`` on the journal of a simulated hour."""

import json

import msgspec
import pytest
from click.testing import CliRunner

from tidegate.cli.main import cli
from tidegate.cli.starts_picture import pieces
from tidegate.core.effects import Launch
from tidegate.core.events import ReplicaSeen, Tick
from tidegate.core.fleet.levers import Span, StartReport
from tidegate.core.lifecycle import Seen
from tidegate.core.types import ModelId, ReplicaId
from tidegate.runtime.journal import line


def tidegate(*arguments):
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Two bursts of a minute that one replica cannot carry; a start takes 30 s."""
    folder = tmp_path_factory.mktemp("starts")
    times = sorted(
        [n * 2.0 for n in range(300)]
        + [60 + n / 40 for n in range(2_400)]
        + [360 + n / 40 for n in range(2_400)]
    )
    rows = [f"{at_s:.3f},{1_500 + n % 5 * 100},{150 + n % 3 * 50}" for n, at_s in enumerate(times)]
    (folder / "trace.csv").write_text("\n".join(["arrived_s,prompt_tokens,output_tokens", *rows]) + "\n")
    path = folder / "hour.jsonl"
    done = tidegate(
        *("simulate", "--trace", folder / "trace.csv", "--policy", "concurrency", "--cold-start", "30s"),
        *("--set", "concurrency_target=16", "--set", "scale_down_delay=20s", "--journal", path, "--json"),
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cold_starts"] > 2
    return path


def test_stages_and_levers_are_told_the_best_first(journal):
    done = tidegate("starts", journal)

    assert done.exit_code == 0, done.output
    assert "a start takes 30.0 s" in done.output
    lines = done.output.splitlines()
    compile_line = next(line for line in lines if line.split()[:1] == ["compile"])
    # 8.3 of the 45 s of the study that the simulator's starts are cut after
    assert float(compile_line.split()[2]) == pytest.approx(30 * 8.3 / 45, abs=0.01)
    assert "1. sleep instead of stop" in done.output


def test_json_has_the_same_figures_and_nothing_else_is_printed(journal):
    (one,) = json.loads(tidegate("starts", journal, "--json").stdout)["starts"]

    assert one["p50_s"] == pytest.approx(30.0)
    assert [span["name"] for span in one["spans"]] == [
        "loading",
        "loading: weights",
        "starting",
        "starting: compile",
        "starting: profiling",
        "starting: capture",
    ]
    weights = next(lever for lever in one["levers"] if lever["name"] == "smaller weights")
    assert weights["gain_s"] == pytest.approx(0.5 * 30 * 7.8 / 45, abs=0.01)
    assert weights["ground"] == "proportion"


def test_a_picture_is_drawn(journal, tmp_path):
    pytest.importorskip("matplotlib")

    assert tidegate("starts", journal, "--png", tmp_path / "starts.png").exit_code == 0
    assert (tmp_path / "starts.png").read_bytes().startswith(b"\x89PNG")


def test_a_part_takes_its_share_from_its_own_stage_alone():
    """A replica that was adopted on its way up, or a backend that sees no stages, has parts of a stage that it has not."""

    def drawn(*spans):
        told = tuple(Span(name, 1, 1.0, 1.0, share) for name, share in spans)
        return pieces(StartReport(ModelId("m"), "", 1, 0, 1.0, 1.0, 0, None, told, ()))

    assert drawn(("requested", 0.3), ("starting", 0.7), ("starting: weights", 0.5)) == [
        ("requested", 0.3),
        ("starting", pytest.approx(0.2)),
        ("weights", 0.5),
    ]
    assert drawn(("requested", 0.9), ("starting: weights", 0.5)) == [("requested", 0.9), ("weights", 0.5)]
    assert drawn(("starting: weights", 0.5)) == [("weights", 0.5)]


def test_where_no_start_became_ready_there_is_nothing_to_draw(tmp_path):
    pytest.importorskip("matplotlib")
    m, replica_id = ModelId("m"), ReplicaId("m-1")
    turns = (
        line("fleet", 0.0, Tick(), [Launch(replica_id, m, "wanted")]),
        line("fleet", 3.0, ReplicaSeen(replica_id, Seen.EXITED), []),
    )
    lines = [b'{"journal":1,"tidegate":"0","run":"r"}', *map(msgspec.json.encode, turns), b""]
    (tmp_path / "run.jsonl").write_bytes(b"\n".join(lines))

    done = tidegate("starts", tmp_path / "run.jsonl", "--png", tmp_path / "starts.png")

    assert done.exit_code == 1
    assert "no start became ready" in done.output
    assert "1 failed" in tidegate("starts", tmp_path / "run.jsonl").output


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        (["--model", "nobody"], 1, "has no start of 'nobody'"),
        (["--png"], 2, "requires an argument"),
    ],
)
def test_what_cannot_be_said_is_said(journal, arguments, status, said):
    done = tidegate("starts", journal, *arguments)

    assert done.exit_code == status
    assert said in done.output


def test_a_folder_without_a_journal_is_wrong_usage(tmp_path):
    done = tidegate("starts", tmp_path)

    assert done.exit_code == 2
    assert "no journal at" in done.output
