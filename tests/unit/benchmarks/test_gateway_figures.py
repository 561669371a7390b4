"""Medians, differences to the baseline and targets, on figures made up here."""

import pytest
import yaml

from benchmarks.gateway.bodies import BODIES_OF_EACH_KIND, MODEL, Kind, bodies
from benchmarks.gateway.gateways import Place
from benchmarks.gateway.ours import NAME, SLOTS_PER_ENGINE, policy
from benchmarks.gateway.report import COLUMNS, DOCS_BEGIN, DOCS_END, Report, write_docs
from benchmarks.gateway.scenarios import GOALS, MEMORY, Goal
from benchmarks.gateway.stats import BASELINE, ONE_CORE, Measurement, Spread, judge, look_up, summarize
from tidegate.config import load


def seen(gateway, scenario, repetition, failed="", **figures):
    return Measurement(gateway, scenario, repetition, figures, failed)


def test_a_spread_is_the_median_and_its_range():
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(median=2.0, low=1.0, high=3.0, count=3)


def test_what_is_added_is_a_difference_within_the_repetition():
    summary = summarize(
        [
            seen(BASELINE, "c1-1k", 1, p50_us=50.0),
            seen(BASELINE, "c1-1k", 2, p50_us=150.0),
            seen(ONE_CORE, "c1-1k", 1, p50_us=10.0),
            seen(NAME, "c1-1k", 1, p50_us=100.0),
            seen(NAME, "c1-1k", 2, p50_us=210.0),
        ]
    )

    assert look_up(summary, NAME, "c1-1k", "added_p50_us") == Spread(55.0, 50.0, 60.0, 2)
    assert look_up(summary, ONE_CORE, "c1-1k", "added_p50_us") is None


def test_without_a_baseline_nothing_is_called_added():
    summary = summarize([seen(NAME, "c1-1k", 1, p50_us=100.0)])

    assert look_up(summary, NAME, "c1-1k", "added_p50_us") is None


def test_the_peak_of_memory_is_over_all_scenarios_of_a_repetition():
    summary = summarize([seen(NAME, "rps-1k", 1, memory_mb=30.0), seen(NAME, "paced-500", 1, memory_mb=44.0)])

    assert look_up(summary, NAME, MEMORY, "peak_mb").median == 44.0


def test_a_failed_measurement_gives_no_figures():
    summary = summarize(
        [seen(NAME, "rps-1k", 1, failed="status 503", per_s=0.0), seen(NAME, "rps-1k", 2, per_s=7.0)]
    )

    assert look_up(summary, NAME, "rps-1k", "per_s") == Spread(7.0, 7.0, 7.0, 1)


@pytest.mark.parametrize(
    "at_least,limit,value,ratio,met",
    [
        (True, 100, 250, 2.5, True),
        (True, 100, 50, 0.5, False),
        (False, 60, 30, 2.0, True),
        (False, 60, 120, 0.5, False),
    ],
)
def test_a_ratio_above_one_is_better_than_the_limit(at_least, limit, value, ratio, met):
    goal = Goal(what="speed", scenario="s", figure="f", limit=limit, at_least=at_least)

    verdict = judge(goal, summarize([seen(NAME, "s", 1, f=value)]), NAME)

    assert (verdict.ratio, verdict.met) == (ratio, met)


def test_a_goal_against_a_peer_divides_by_its_figure_and_is_open_without_it():
    goal = Goal(what="speed", scenario="s", figure="f", limit=2.0, at_least=True, relative_to="envoy")
    ours, theirs = seen(NAME, "s", 1, f=30.0), seen("envoy", "s", 1, f=10.0)

    assert judge(goal, summarize([ours, theirs]), NAME).value == 3.0
    assert judge(goal, summarize([ours]), NAME).met is None


def test_bodies_have_their_size_and_repeat_with_the_seed():
    kind = Kind("paced", 1024, pace_us=10_000)

    made = bodies(kind, seed=3)

    assert len(set(made)) == BODIES_OF_EACH_KIND
    assert {len(body) for body in made} == {1024}
    assert made == bodies(kind, seed=3) != bodies(kind, seed=4)


def test_the_docs_get_the_tables_between_their_marks_and_nothing_else_changes(tmp_path):
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{DOCS_BEGIN}\nold\n{DOCS_END}\nafter\n")
    facts = {"cores": 2, "cpu": "a CPU", "kernel": "6", "python": "3.11", "load_average": (0.5, 0, 0)}
    context = {
        "command": "python -m benchmarks.gateway",
        "seed": 1,
        "repetitions": 1,
        "window_s": 3.0,
        "facts": facts,
    }
    report = Report(context, {NAME: "1.0", "envoy": "not there"}, [seen(NAME, "rps-1k", 1, per_s=21_000.0)])

    write_docs(report, page)

    text = page.read_text()
    assert text.startswith(f"before\n{DOCS_BEGIN}\n")
    assert text.endswith(f"{DOCS_END}\nafter\n")
    assert "old" not in text
    assert f"| {NAME} 1.0 | 21,000 |" in text
    assert f"| envoy not there |{' – |' * len(COLUMNS)}" in text
    assert all(goal.what in text for goal in GOALS)


def test_the_policy_that_tidegate_is_measured_with_is_one_it_accepts(tmp_path):
    place = Place(tmp_path, port=8400, spare_port=8401, engines=(9001, 9002))
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(policy(place)))

    settings = load(file)

    model = settings.models[MODEL]
    assert not settings.warnings
    assert [address.port for address in model.static] == [9001, 9002]
    assert (model.fleet.slots, model.fleet.scaling.min_replicas) == (SLOTS_PER_ENGINE, 2)
    assert settings.journal_dir is not None
