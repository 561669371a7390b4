"""``tidegate explain`` and ``tidegate replay`` on the journal of a simulated day."""

import json
import re
import time

import msgspec
import pytest
from click.testing import CliRunner

from tidegate.cli.main import cli
from tidegate.core.events import FleetConfigured, Tick, WeightsSeen
from tidegate.core.fleet import FleetController
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import FleetLimits, FleetModel, Prefetching
from tidegate.runtime.journal import line


def tidegate(*arguments):
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Three minutes in which the load rises from 1 to 20 requests a second and falls again."""
    folder = tmp_path_factory.mktemp("explain")
    times = (
        [n * 1.0 for n in range(60)]
        + [60 + n * 0.05 for n in range(1200)]
        + [120 + n * 1.0 for n in range(90)]
    )
    rows = [f"{at_s:.3f},{400 + n % 5 * 100},{50 + n % 3 * 50}" for n, at_s in enumerate(times)]
    (folder / "trace.csv").write_text("\n".join(["arrived_s,prompt_tokens,output_tokens", *rows]) + "\n")
    path = folder / "day.jsonl"
    done = tidegate(
        *("simulate", "--trace", folder / "trace.csv", "--policy", "concurrency", "--cold-start", "10s"),
        *("--set", "concurrency_target=8", "--set", "scale_down_delay=20s", "--journal", path, "--json"),
    )
    assert done.exit_code == 0, done.output
    return path


def test_the_list_names_every_change_with_its_reason_and_prediction(journal):
    done = tidegate("explain", journal)

    assert done.exit_code == 0
    assert "queued or in flight at 8 a replica ask for" in done.output
    assert "of them changed a number" in done.output


def test_one_decision_says_what_a_replica_more_or_less_would_have_done(journal):
    found = json.loads(tidegate("explain", journal, "--json").stdout)["decisions"]
    risen = next(
        one for one in found if one["decision"]["desired"] > 2 and one["decision"]["chosen"]["attainment"]
    )
    done = tidegate("explain", journal, risen["number"])

    assert "one less" in done.output
    assert "cost per h" in done.output
    assert "One less would keep" in done.output
    fewer, chosen, more = (risen["decision"][key]["attainment"] for key in ("fewer", "chosen", "more"))
    assert 0.0 <= fewer <= chosen + 1e-6 <= more + 2e-6 <= 1.0 + 3e-6
    assert risen["decision"]["inputs"]["arrivals_per_s"] > 1.0


def test_a_replica_names_the_decision_that_started_it(journal):
    found = json.loads(tidegate("explain", journal, "--json").stdout)["decisions"]
    order = next(order for one in found for order in one["orders"] if order["order"] == "Launch")
    done = tidegate("explain", journal, order["replica_id"])

    assert f"Launch {order['replica_id']}" in done.output


def test_a_request_says_where_it_went_and_what_every_replica_with_room_would_have_cost(journal):
    turns = [json.loads(line) for line in journal.read_text().splitlines()]
    sent = [effect["Send"] for turn in turns for effect in turn.get("effects", ()) if "Send" in effect]
    last = sent[-300]  # many replicas serve by then

    asked = ("explain", journal, "--request", last["request_id"])
    request = json.loads(tidegate(*asked, "--json").stdout)["request"]
    (choice,) = request["choices"]

    assert request["arrived"]["request_id"] == last["request_id"]
    assert request["is_as_recorded"]
    assert request["record"]["outcome"] == "completed"
    assert len(choice["terms"]) > 1
    soonest = min(choice["terms"], key=lambda terms: terms["total_s"])
    assert soonest["replica_id"] == choice["replica_id"] == last["replica_id"]
    assert soonest["total_s"] == pytest.approx(
        sum(seconds for name, seconds in soonest.items() if name.endswith("_s") and name != "total_s")
    )
    told = tidegate(*asked).output
    assert f"sent to {last['replica_id']}, attempt 1" in told
    assert "prefill" in told


@pytest.fixture
def in_berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_live_runs_moments_are_told_by_the_clock_and_taken_back_so(journal, tmp_path, in_berlin):
    """The same day at 14:13:20 UTC on 12 August 2026. Its seconds since 1970 ran into the number before them."""
    live = tmp_path / "live.jsonl"
    turns = [json.loads(line) for line in journal.read_text().splitlines()]
    live.write_text("".join(json.dumps({**turn, **_later(turn)}) + "\n" for turn in turns))

    listed = tidegate("explain", live).output.splitlines()
    assert re.match(r" +\d+  2026-08-12 16:1\d:\d\d\.\d +\d+ -> \d+ ", listed[1])
    told = tidegate("explain", live, "--at", "2026-08-12 16:14:50").output
    assert told == tidegate("explain", live, "--at", "1786544090").output
    assert re.match(r"decision \d+ of \d+, 2026-08-12 16:14:\d\d\.\d{3}, live.jsonl", told)
    assert "e+09" not in told


def _later(turn):
    return {"t": turn["t"] + 1_786_544_000} if "t" in turn else {}


def test_the_decision_in_force_at_a_moment(journal):
    at_90 = json.loads(tidegate("explain", journal, "--at", "90", "--json").stdout)["decisions"]

    assert len(at_90) == 1
    assert at_90[0]["at_s"] <= 90


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["9999"], "no decision 9999: there are 1 to"),
        (["--request", "nobody"], "--request nobody: the journal has no such request"),
        (["1", "--at", "3"], "name one of them"),
        (["--model", "nobody"], "has no decision about 'nobody'"),
        (["m-99"], "no decision about a replica m-99; decisions are 1 to"),
        (["--at", "-5"], "the first decision is at 0.000 s"),
        (["--at", "noon"], "'noon' is neither seconds nor a time such as"),
    ],
)
def test_what_cannot_be_explained_is_said(journal, arguments, said):
    done = tidegate("explain", journal, *arguments)

    assert done.exit_code != 0
    assert said in done.output


POLICY = """
models:
  {model}:
    engine: emulated
    slots: 64
    price: 2.50/h
    scaling:
      {{policy: concurrency, min_replicas: 1, max_replicas: 8, window: 30s, scale_down_delay: 20s,
       concurrency_target: {target}}}
"""


@pytest.fixture
def under(journal, tmp_path):
    """The journal replayed under a target of our own."""
    model = json.loads(tidegate("explain", journal, "--json").stdout)["decisions"][0]["decision"]["model"]

    def replayed(target, *options, name=model):
        path = tmp_path / "other.yaml"
        path.write_text(POLICY.format(model=name, target=target))
        return tidegate("replay", journal, path, *options)

    return replayed


def test_the_settings_of_that_day_decide_as_on_that_day(under):
    found = next(iter(json.loads(under(8, "--json").stdout)["models"].values()))

    assert found["first_difference_s"] is None
    assert found["replayed"]["predicted_attainment"] == pytest.approx(
        found["recorded"]["predicted_attainment"], abs=0.02
    )
    assert found["replayed"]["replica_hours"] == pytest.approx(found["recorded"]["replica_hours"], rel=0.05)


SAME = """
models:
  m:
    engine: emulated
    slots: 16
    price: 2.50/h
    shadow: kpa
    expected_start: 30s
    scaling: {policy: concurrency, min_replicas: 1, max_replicas: 8, window: 30s, scale_down_delay: 60s,
              concurrency_target: TARGET}
"""


def test_under_the_settings_of_that_day_the_course_is_the_recorded_one_and_is_near_what_was_kept(tmp_path):
    """A rise to four times as much, on one replica that is full at 13 a second; others take 30 s to start."""
    times = [n / 6 for n in range(1200)] + [200 + n / 30 for n in range(6000)]
    rows = [f"{at_s:.3f},{400 + n % 5 * 100},{150 + n % 3 * 50}" for n, at_s in enumerate(times)]
    (tmp_path / "trace.csv").write_text("\n".join(["arrived_s,prompt_tokens,output_tokens", *rows]) + "\n")
    for name, target in (("that-day", "14"), ("other", "20")):
        (tmp_path / f"{name}.yaml").write_text(SAME.replace("TARGET", target))
    day = tmp_path / "day.jsonl"
    simulated = tidegate(
        *("simulate", tmp_path / "that-day.yaml", "--trace", tmp_path / "trace.csv", "--cold-start", "30s"),
        *("--journal", day, "--json"),
    )
    figures = json.loads(simulated.stdout)
    same, other = (
        json.loads(tidegate("replay", day, tmp_path / f"{name}.yaml", "--json").stdout)
        for name in ("that-day", "other")
    )

    assert same["is_recorded_course"]
    assert not other["is_recorded_course"]
    recorded = same["models"]["m"]["recorded"]
    assert same["models"]["m"]["replayed"] == recorded
    assert other["models"]["m"]["replayed"] != recorded
    kept = figures["slo"]["attainment"]
    assert 0.7 < kept < 0.97
    assert recorded["predicted_attainment"] == pytest.approx(kept, abs=0.05)
    assert figures["shadows"]["m"]["acting"]["attainment"] == pytest.approx(kept, abs=0.05)
    assert recorded["replica_hours"] == pytest.approx(figures["replica_hours"], rel=0.05)
    assert "both courses are the recorded one" in tidegate("replay", day, tmp_path / "that-day.yaml").output


def test_fuller_replicas_cost_less_and_the_first_difference_is_told(under):
    found = next(iter(json.loads(under(30, "--json").stdout)["models"].values()))

    assert found["first_difference_s"] is not None
    assert found["replayed"]["replica_hours"] < found["recorded"]["replica_hours"]
    told = under(30).output
    assert "first difference" in told
    assert "open loop" in told


def test_a_file_about_other_models_is_refused(under):
    done = under(8, name="somebody-else")

    assert done.exit_code == 2
    assert "the file has none of these" in done.output


POOLED = """
fleet: {gpus: [0, 1, 2, 3, 4, 5, 6, 7]}
models:
  m:
    engine: emulated
    slots: 16
    gpus: 1
    price: 2.50/h
    shadow: kpa
    expected_start: 30s
    pool: {min_warm: 1, max_warm: 2, max_sleeping: 2, sleep_after: 10s, expected_wake: 4s}
    scaling: {policy: concurrency, min_replicas: 1, max_replicas: 6, window: 30s, scale_down_delay: 20s,
              concurrency_target: 8}
"""


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """One request a second, ten from 60 s to 180 s, one again; a replica is held warm, and kpa looks on."""
    folder = tmp_path_factory.mktemp("pooled")
    times = (
        [n * 1.0 for n in range(60)]
        + [60 + n * 0.1 for n in range(1200)]
        + [180 + n * 1.0 for n in range(90)]
    )
    rows = [f"{at_s:.3f},{400 + n % 5 * 100},{150 + n % 3 * 50}" for n, at_s in enumerate(times)]
    (folder / "trace.csv").write_text("\n".join(["arrived_s,prompt_tokens,output_tokens", *rows]) + "\n")
    (folder / "pool.yaml").write_text(POOLED)
    told = [
        tidegate(
            *("simulate", folder / "pool.yaml", "--trace", folder / "trace.csv", "--cold-start", "20s"),
            *("--settle", "2m", "--journal", folder / "day.jsonl", *more),
        )
        for more in ([], ["--json"])
    ]
    return folder / "day.jsonl", told[0].output, json.loads(told[1].stdout)


def test_what_a_pool_starts_is_explained_by_the_pool_and_not_by_the_number_that_serves(pooled):
    """m-2 was said to have come of the last decision about the number, which had never asked for it."""
    journal, _, _ = pooled
    found = json.loads(tidegate("explain", journal, "--json").stdout)
    first, grown = found["pools"][0], found["pools"][1]

    assert (first["at_s"], first["pool"]["warm"], first["pool"]["held_by"]) == (0.0, 1, "min_warm")
    assert [order["replica_id"] for order in first["orders"]][:2] == ["m-2", "m-3"]
    assert {order["order"] for one in found["decisions"] for order in one["orders"]} == {"Promote"}
    inputs = grown["pool"]["inputs"]
    assert inputs["risk"] == 0.05
    assert inputs["rise_in_5s"] == 1.0
    assert grown["pool"]["fewer"]["uncovered"] == grown["pool"]["chosen"]["uncovered"] + 1
    assert grown["pool"]["more"]["cost_per_h"] == grown["pool"]["chosen"]["cost_per_h"] + 2.5

    by_pool, of_number = tidegate("explain", journal, "m-2").output.split("pool decision p1")[::-1]
    assert "Launch m-2 on GPU 1 of local: the pool is short of it" in by_pool
    assert "Promote m-2: 2 wanted, and it is warm" in of_number
    assert "Launch" not in of_number
    assert "up to 1 more is needed before a start is over" in tidegate("explain", journal, "p2").output
    assert re.search(r"^ +p1  0\.0 s +1 warm, 0 asleep", tidegate("explain", journal).output, re.MULTILINE)


def test_the_shadow_is_named_beside_each_decision_and_scored_at_the_end(pooled):
    journal, told, figures = pooled
    listed = tidegate("explain", journal)
    second = tidegate("explain", journal, "2")

    assert "in the shadow kpa would have 1: " in listed.output
    assert "m: the shadow kpa beside what acted, both as predicted" in listed.output
    assert re.search(r"^  shadow    kpa would have \d: ", second.output, re.MULTILINE)

    score = figures["shadows"]["m"]
    assert score["policy"] == "kpa"
    assert score["regret"] == pytest.approx(score["acting"]["cost"] / score["cost"] - 1.0)
    assert f"Regret {score['regret']:+.1%}: what acted has cost so much more than kpa would have." in told
    assert re.search(rf"cost +{score['cost']:.2f} +{score['acting']['cost']:.2f}$", told, re.MULTILINE)


def test_what_is_fetched_ahead_stands_in_the_list_with_the_numbers_behind_it(tmp_path):
    """A node has thrown the weights away, and the policy wants them everywhere; fetching takes 100 s there."""
    brain, lines = FleetController(), []
    spec = FleetModel("vllm", scaling=Scaling(max_replicas=2), prefetch=Prefetching.ALWAYS)
    story = [
        FleetConfigured({"m": spec}, FleetLimits()),
        WeightsSeen("m", "n2", "hub", 10**10, 0, 10**10, 100.0),
        WeightsSeen("m", "n2", "hub", 10**10, 10**10),
        Tick(),
    ]
    for at_s, event in enumerate(story):
        turn = line("fleet", float(at_s), event, brain.on(event, float(at_s)))
        lines.append(msgspec.json.encode(turn).decode())
    (tmp_path / "day.jsonl").write_text("\n".join(lines) + "\n")
    asked = ("explain", tmp_path / "day.jsonl")
    (fetched,) = json.loads(tidegate(*asked, "--json").stdout)["prefetches"]

    assert (fetched["at_s"], fetched["prefetch"]["node"]) == (3.0, "n2")
    told = tidegate(*asked).output
    assert re.search(r"^ +3\.0 s +weights are fetched to n2$", told, re.MULTILINE)
    assert re.search(r"^ +m: its weights are to be on every node \(fetch_s \d+", told, re.MULTILINE)


def test_of_the_default_laws_sources_it_says_what_each_asks_how_much_was_heard_and_how_old_that_is(tmp_path):
    """A request a second for a minute, and twenty a second from then on: a second replica is ordered."""
    times = [float(n) for n in range(60)] + [60 + n * 0.05 for n in range(1200)]
    rows = [f"{at_s:.3f},500,100" for at_s in times]
    (tmp_path / "trace.csv").write_text("\n".join(["arrived_s,prompt_tokens,output_tokens", *rows]) + "\n")
    path = tmp_path / "day.jsonl"
    tidegate("simulate", "--trace", tmp_path / "trace.csv", "--cold-start", "10s", "--journal", path)
    last = json.loads(tidegate("explain", path, "--at", "119", "--json").stdout)["decisions"][0]
    inputs, told = last["decision"]["inputs"], tidegate("explain", path, "--at", "119").output

    for source in ("ledger", "backlog"):
        assert inputs[f"coverage_{source}"] == 1.0
        row = rf"^  {source} +{inputs[f'by_{source}']:.2f} +100\.0% +{inputs[f'age_{source}_s']:.1f} s$"
        assert re.search(row, told, re.MULTILINE)
    assert "coverage_ledger" not in told
