"""``tidegate simulate`` and ``tidegate trace`` as people and scripts call them."""

import json
import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from tidegate.cli.main import cli
from tidegate.cli.sim_policies import LAWS
from tidegate.cli.simulating import LAWS as LAWS_TOLD
from tidegate.cli.trace_options import FORMATS
from tidegate.core.settings import Routing
from tidegate.workload.formats import Format

KEYS = [
    "policy",
    "trace",
    "seed",
    "requests",
    "completed",
    "rejected",
    "expired",
    "failed",
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "queue_wait_s",
    "slo",
    "goodput_per_s",
    "replicas",
    "replica_hours",
    "gpu_hours",
    "cost",
    "spilt",
    "scale_ups",
    "scale_downs",
    "reversals",
    "cold_starts",
    "prefix_hit_ratio",
    "oracle",
    "cpu_s",
    "simulated_s",
]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    rows = [f"{number * 0.25},{200 + number % 7 * 100},{20 + number % 5 * 30}" for number in range(400)]
    path.write_text("\n".join(["arrived_s,prompt_tokens,output_tokens", *rows]) + "\n")
    return path


def tidegate(*arguments):
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_json_has_exactly_the_keys_that_scripts_rely_on(trace):
    found = json.loads(tidegate("simulate", "--trace", trace, "--json").stdout)

    assert list(found) == KEYS
    assert list(found["ttft_s"]) == list(found["e2e_s"]) == ["mean", "p50", "p90", "p95", "p99"]
    assert list(found["slo"]) == ["ttft_s", "tpot_s", "attainment"]
    assert list(found["replicas"]) == ["mean_provisioned", "mean_serving", "max"]
    assert found["oracle"] is None
    assert found["requests"] == found["completed"] == 400


def test_several_policies_stand_in_a_list_with_the_oracle(trace):
    done = tidegate(
        "simulate", "--trace", trace, "--compare", "static:2", "--compare", "slo-keda", "--oracle", "--json"
    )
    runs = json.loads(done.stdout)["runs"]

    assert [run["policy"] for run in runs] == ["built-in", "static:2", "slo-keda"]
    assert runs[1]["replicas"]["mean_provisioned"] == pytest.approx(2.0)
    assert list(runs[1]["oracle"]) == ["replica_hours", "cost", "regret"]
    assert runs[1]["oracle"]["regret"] > runs[0]["oracle"]["regret"]


def test_laws_are_tried_together_as_the_policy_file_has_them(trace):
    """Of two the larger number counts: one that aims at a request a replica starts no less for another beside it."""
    together, other = "ray:target=100 + concurrency", "concurrency"
    asked = ("simulate", "--trace", trace, "--set", "concurrency_target=1", "--cold-start", "1s", "--json")
    done = tidegate(*asked, "--policy", together, "--compare", other, "--compare", "ray:target=100")
    runs = json.loads(done.stdout)["runs"]

    assert [run["policy"] for run in runs] == [together, other, "ray:target=100"]
    most = [run["replicas"]["max"] for run in runs]
    assert most[0] == most[1] > most[2]


def test_settings_engine_start_and_promise_can_be_changed(trace):
    base = ("simulate", "--trace", trace, "--json", "--profile", "qwen3-32b-h100x2")
    done = tidegate(
        *base, "--set", "min_replicas=0", "--set", "slots=4", "--set", "window=10s", "--cold-start", "12s",
        "--slo", "ttft=1s,tpot=5ms", "--seed", "5", "--until", "50s",
    )  # fmt: skip
    found = json.loads(done.stdout)

    assert found["requests"] == 200
    assert found["seed"] == 5
    assert found["slo"] == {"ttft_s": 1.0, "tpot_s": 0.005, "attainment": 0.0}
    assert found["ttft_s"]["p99"] > 10
    assert found["cold_starts"] >= 1


def test_a_policy_file_is_taken_with_its_own_models(trace, tmp_path):
    policy = tmp_path / "cheap.yaml"
    policy.write_text(
        "models:\n  llama-3.1-8b:\n    engine: emulated\n    price: 2.00/h\n    expected_start: 20s\n"
        "    scaling: {min_replicas: 2, max_replicas: 2}\n"
    )
    found = json.loads(tidegate("simulate", policy, "--trace", trace, "--json").stdout)

    assert found["policy"] == "cheap"
    assert found["cost"] == pytest.approx(found["replica_hours"] * 2.0)


def test_the_table_shows_the_runs_side_by_side(trace):
    shown = tidegate("simulate", "--trace", trace, "--compare", "static:3").stdout

    assert re.search(r"built-in\s+static:3", shown)
    for row in ("TTFT p50 / p95 / p99", "kept by", "replica-hours", "cold starts"):
        assert row in shown


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.outside, self.panels, self.marks = [], 0, 0

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.outside += [found[name] for name in ("src", "href") if name in found]
        self.panels += tag == "figure"
        self.marks += "mark" in found.get("class", "")


def test_the_page_needs_nothing_else(trace, tmp_path):
    page = tmp_path / "run.html"
    tidegate(
        "simulate",
        "--trace",
        trace,
        "--compare",
        "static:2",
        "--set",
        "slots=2",
        "--cold-start",
        "10s",
        "--html",
        page,
    )
    text = page.read_text()
    links = Links()
    links.feed(text)

    assert links.outside == []
    assert "http" not in text.replace("http-equiv", "")
    assert links.panels == 8
    assert links.marks >= 1
    assert " a replica" in text  # the reasons of the decisions
    numbers = json.loads(re.search(r'id="numbers">(.*?)</script>', text)[1])
    assert len(numbers) == 2


def test_the_picture_is_a_png(trace, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "run.png"
    tidegate("simulate", "--trace", trace, "--png", picture)

    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000


def test_the_journal_replays(trace, tmp_path):
    journal = tmp_path / "day.jsonl"
    tidegate("simulate", "--trace", trace, "--journal", journal)

    assert "every effect is the same" in tidegate("replay", journal).stdout


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (("--set", "slotts=3"), "no model has such a setting"),
        (("--set", "slots"), "it must be KEY=VALUE"),
        (("--set", "window=soon"), "it must be a duration"),
        (("--set", "max_replicas=0"), "\n  models.llama-3.1-8b.scaling.max_replicas is 0"),
        (("--time-scale", "inf"), "--time-scale: the factor is inf"),
        (("--time-scale", "1e300"), "--time-scale: the factor is 1e+300; the last request would come after"),
        (("--slo", "ttft=3"), "not a duration"),
        (("--slo", "speed=3s"), "'speed' is no part of it"),
        (("--slo", "ttft=0s"), "ttft is 0s; it must be above 0"),
        (("--slo", "ttft=1s,ttft=2s"), "ttft is there twice"),
        (("--policy", "static:10001"), "--policy static:10001: it must be one of"),
        (("--journal", "/no/such/folder/j.jsonl"), "there is no folder /no/such/folder"),
        (("--html", "/no/such/folder/p.html"), "there is no folder /no/such/folder"),
        (("--png", "/no/such/folder/p.png"), "there is no folder /no/such/folder"),
        (("--profile", "abacus"), "known are"),
        (("--compare", "magic"), "neither a policy file nor one of"),
        (("--policy", "magic"), "--policy magic: it must be one of"),
        (("--compare", "concurrency + magic"), "'magic' is no law; it must be one of"),
        (("--policy", "kpa:target=8"), "target is 8; kpa has no such constant; it has limit"),
        (("--router", "dice"), "it must be one of"),
        (("--format", "excel"), "known are azure-llm"),
        (("--from", "1d"), "no request is left"),
        (("--fault", "rain"), "allowed are kill"),
        (("--cold-start", "100"), "not a duration"),
        (("--cold-start", "disk=3s"), "cold-start: 'disk' is not known; allowed are procurement, image"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(trace, arguments, complaint):
    from tidegate.config import PolicyError

    try:
        done = tidegate("simulate", "--trace", trace, *arguments)
        said, code = done.output + done.stderr, done.exit_code
    except PolicyError as error:  # `main` prints it and exits with 2
        said, code = str(error), 2

    assert code == 2
    assert complaint in said


def test_a_trace_without_lengths_says_what_to_do(tmp_path):
    trace = tmp_path / "rates.csv"
    trace.write_text("ts_s,rate_rps\n0,0.2\n600,0.1\n")

    assert "name --lengths" in tidegate("simulate", "--trace", trace).output
    found = json.loads(tidegate("simulate", "--trace", trace, "--lengths", "300/50", "--json").stdout)
    assert found["requests"] == found["completed"] > 100


def test_describe_prints_what_a_trace_is_like(trace):
    assert "requests" in tidegate("trace", "describe", trace).stdout
    found = json.loads(tidegate("trace", "describe", trace, "--json").stdout)
    assert found["rows"] == 400
    assert found["mean_per_s"] == pytest.approx(400 / 99.75)


def test_convert_writes_what_reads_back(trace, tmp_path):
    half = tmp_path / "half.csv"
    tidegate("trace", "convert", trace, half, "--from", "50s", "--time-scale", "2")
    found = json.loads(tidegate("trace", "describe", half, "--json").stdout)

    assert found["rows"] == 200
    assert found["span_s"] == pytest.approx(99.5)


def test_the_help_names_what_there_is():
    for form in Format:
        assert form.value in FORMATS
    for law in LAWS:
        assert law in LAWS_TOLD
    told = tidegate("simulate", "--help").output
    for routing in Routing:
        assert routing.value in told
