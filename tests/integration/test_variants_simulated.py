"""A model with variants from its policy file through the simulator to what is said about it."""

import json
import math

import pytest
from click.testing import CliRunner

from tidegate.cli.main import cli

POLICY = """
fleet:
  gpus: [{{index: 0, kind: h100}}, {{index: 1, kind: h100}}, {{index: 2, kind: l40s}}, {{index: 3, kind: l40s}},
    {{index: 4, kind: l40s}}, {{index: 5, kind: l40s}}]
models:
  llama-3.1-8b:
    engine: emulated
    gpus: 1
    kind: {kind}
    price: {price}
    slots: {slots}
    profile: llama-3.1-8b-{kind}x1
    expected_start: 20s
    {variants}
    scaling: {{policy: {policy}, min_replicas: 0, max_replicas: 6, window: 10s, scale_down_delay: {delay}{target}}}
"""
SMALL = "variants: {small: {kind: l40s, price: 1.20/h, slots: 16}}"


def tidegate(*arguments):
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A quiet hour with a busy quarter in the middle of it."""
    folder = tmp_path_factory.mktemp("variants")
    times = [2.0 * n for n in range(600)] + [1200 + n / 10 for n in range(9_000)]
    times += [2100 + 2.0 * n for n in range(750)]
    rows = [f"{at_s:.3f},{400 + n % 5 * 100},{300 + n % 3 * 100}" for n, at_s in enumerate(times)]
    (folder / "trace.csv").write_text("\n".join(["arrived_s,prompt_tokens,output_tokens", *rows]) + "\n")
    # A target that is set, so that a replay of one fleet's day need not learn what another would have carried.
    written(folder, policy="concurrency", delay="60s", target=", concurrency_target: 64")
    return folder


def written(folder, **scaling):
    """The same model on large GPUs, and on both."""
    large = {"kind": "h100", "price": "4.00/h", "slots": 64, "target": ""} | scaling
    (folder / "large.yaml").write_text(POLICY.format(variants="", **large))
    (folder / "mixed.yaml").write_text(POLICY.format(variants=SMALL, **large))


def simulated(folder, name):
    done = tidegate(
        *("simulate", folder / f"{name}.yaml", "--trace", folder / "trace.csv"),
        *("--journal", folder / f"{name}.jsonl", "--json"),
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_quiet_model_is_served_for_less_by_small_replicas_and_a_busy_one_by_large_ones(folder):
    mixed, large = simulated(folder, "mixed"), simulated(folder, "large")

    assert large["completed"] == large["requests"]
    assert mixed["completed"] >= 0.99 * mixed["requests"], (
        "a small one has less to spare when the rush begins"
    )
    assert mixed["slo"]["attainment"] >= 0.95
    assert mixed["cost"] < 0.75 * large["cost"]

    lines = (folder / "mixed.jsonl").read_text().splitlines()
    started = [
        effect["Launch"]["variant"]
        for line in lines[1:]
        for effect in json.loads(line)["effects"]
        if "Launch" in effect
    ]
    assert set(started) == {"", "small"}

    listed = tidegate("explain", folder / "mixed.jsonl", "--json")
    decisions = [one["decision"] for one in json.loads(listed.stdout)["decisions"]]
    assert all(sum(one["variants"].values()) == one["desired"] for one in decisions)
    replica = next(
        effect["Launch"]["replica_id"]
        for line in lines[1:]
        for effect in json.loads(line)["effects"]
        if "Launch" in effect and effect["Launch"]["variant"]
    )
    told = tidegate("explain", folder / "mixed.jsonl", replica).stdout
    assert f"Launch {replica} (small)" in told
    assert "needed, in replicas of default: " in told


def test_the_same_turns_give_the_same_orders(folder):
    simulated(folder, "mixed")
    done = tidegate("replay", folder / "mixed.jsonl")
    assert done.exit_code == 0, done.output


def replayed(folder, name):
    done = tidegate("replay", folder / "mixed.jsonl", folder / f"{name}.yaml", "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["models"]["llama-3.1-8b"]


def test_a_replay_under_other_settings_judges_each_replica_as_the_variant_that_it_is(folder):
    measured = simulated(folder, "mixed")
    same, large = replayed(folder, "mixed"), replayed(folder, "large")
    recorded = same["recorded"]

    assert recorded["cost"] == pytest.approx(measured["cost"], rel=0.05)
    assert recorded["replica_hours"] == pytest.approx(measured["replica_hours"], rel=0.05)
    assert recorded["predicted_attainment"] == pytest.approx(measured["slo"]["attainment"], abs=0.05)
    assert same["start_s_by_variant"].keys() == {"default", "small"}

    assert same["replayed"]["cost"] == pytest.approx(recorded["cost"], rel=0.15)
    assert same["replayed"]["predicted_attainment"] == pytest.approx(
        recorded["predicted_attainment"], abs=0.05
    )

    assert large["recorded"]["cost"] == pytest.approx(recorded["cost"], rel=0.01), (
        "what ran small cost what small ones cost, though the new settings know none"
    )
    assert large["recorded"]["predicted_attainment"] == pytest.approx(
        recorded["predicted_attainment"], abs=0.01
    )
    assert large["replayed"]["cost"] == pytest.approx(simulated(folder, "large")["cost"], rel=0.1)
    told = tidegate("replay", folder / "mixed.jsonl", folder / "mixed.yaml").stdout
    assert "a start takes 20.0 s, of small 20.0 s" in told


def test_a_variant_without_a_known_speed_is_refused(folder):
    text = (folder / "mixed.yaml").read_text().replace("kind: l40s, price", "kind: l40s, gpus: 2, price")
    (folder / "odd.yaml").write_text(text)
    done = tidegate("simulate", folder / "odd.yaml", "--trace", folder / "trace.csv", "--json")
    assert done.exit_code == 2
    assert (
        "variants.small needs profile: the catalogue has no llama-3.1-8b on 2 GPUs of kind l40s"
        in done.output
    )


def test_the_cheapest_known_afterwards_is_told_in_money(folder):
    done = tidegate("simulate", folder / "mixed.yaml", "--trace", folder / "trace.csv", "--oracle", "--json")
    found = json.loads(done.stdout)
    assert 1.2 < found["oracle"]["cost"] < found["cost"], "a small one at least was there all the hour"
    assert found["oracle"]["regret"] == pytest.approx(found["cost"] / found["oracle"]["cost"] - 1)


def test_tune_weighs_money_and_its_settings_keep_the_variants(folder):
    done = tidegate(
        *("tune", folder / "mixed.yaml", "--trace", folder / "trace.csv", "--trials", 6, "--jobs", 1),
        *("--goal", 0.8, "--hold-out", 0.2, "--out", folder / "tuned.yaml", "--json"),
    )
    found = json.loads(done.stdout)
    tried = [*found["frontier"], found["before"], found["taken"]]
    assert all(one["tuned"]["spent"] == one["tuned"]["cost"] for one in tried)
    assert found["taken"]["tuned"]["cost"] <= found["before"]["tuned"]["cost"], "both keep the goal"

    text = (folder / "tuned.yaml").read_text()
    assert "for a cost of " in text
    assert "small:" in text
    again = simulated(folder, "tuned")
    assert again["cost"] > 0


def test_under_the_default_law_a_mix_costs_no_more_than_the_best_of_its_variants(tmp_path):
    """A wave from 1.5 to 10.5 requests a second within an hour. A large replica ends 15 a second, and a small one 1.7: what
    the small ones took for their answers was held against the large ones, and twice as many of those were bought."""
    rows, at_s = [], 0.0
    while at_s < 3_600:
        at_s += 1 / (6.0 - 4.5 * math.cos(2 * math.pi * at_s / 3_600))
        rows.append(f"{at_s:.3f},{300 + 7 * len(rows) % 600},{150 + 11 * len(rows) % 300}")
    (tmp_path / "trace.csv").write_text("\n".join(["arrived_s,prompt_tokens,output_tokens", *rows]) + "\n")
    written(tmp_path, policy="tidal", delay="120s")
    mixed, large = simulated(tmp_path, "mixed"), simulated(tmp_path, "large")

    assert large["slo"]["attainment"] >= 0.99
    assert mixed["slo"]["attainment"] >= large["slo"]["attainment"] - 0.005
    assert mixed["cost"] <= 1.02 * large["cost"]
