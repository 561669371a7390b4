"""Every reported failure, told to the default law; and that the suite can tell right from wrong."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.cli.main import cli
from tidegate.conformance.page import SHOWN
from tidegate.conformance.stage import Stage
from tidegate.conformance.story import About, Told
from tidegate.conformance.suite import DEFAULT, NOT_TOLD, STORIES, tell
from tidegate.core.scaling_settings import ScalingPolicy

BY_ID = {story.id: story for story in STORIES}
REPORTED = (
    *("A1", "A2", "A3", "A4", "A6", "A7", "A8", "A10", "A11", "A13", "A14", "A16", "A17", "A18", "A19"),
    *("B1", "B2", "B3", "B5", "B6", "B7", "B8", "B10", "B12", "B13", "B14"),
    *("C1", "C3", "C4", "C5", "C7", "C8", "C9", "C10", "C11", "C13", "C14"),
    *("D1", "D2", "D3", "D4", "D6", "D7", "D9", "D10"),
)
PAGE = Path(__file__).parents[2] / "docs" / "scenarios.md"


def test_every_report_is_told_or_says_why_not():
    assert {name for name in REPORTED if name not in BY_ID and name not in NOT_TOLD} == set()


LONG_S = 1_500.0


def is_long(story):
    """Half an hour in seconds, and 20,000 requests, take a second each: together too long for every run."""
    return story.id == "C8" or (isinstance(story.inputs, Told) and story.inputs.until_s >= LONG_S)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if is_long(story) else []) for name, story in BY_ID.items()],
)
def test_the_default_law_and_what_is_around_it_are_right(name):
    assert tell(BY_ID[name], DEFAULT).wrong is None


@pytest.mark.parametrize(
    "name, policy, words",
    [
        ("A2", "slo-keda", "at least are right"),  # the up branch has no floor
        ("A18", "sky", "at least are right"),  # requests each second do not grow with their prompts
        ("B6", "wva1", "at most are right"),  # phantoms in the engines' queues
        ("D2", "slo-keda", "at least are right"),  # NaN counts as 0
        ("D2", "token-keda", "at least are right"),  # `or vector(0)`
        ("A4", "wva1", "at least are right"),  # one a minute
    ],
)
def test_a_law_with_the_fault_that_was_reported_is_found_wrong(name, policy, words):
    assert words in (tell(BY_ID[name], ScalingPolicy(policy)).wrong or "")


@pytest.mark.parametrize("policy", ["kpa", "keda-http"])
def test_a_law_that_counts_what_is_on_its_way_does_not_cascade(policy):
    assert tell(BY_ID["A1"], ScalingPolicy(policy)).wrong is None


def test_the_same_story_has_the_same_course():
    told = BY_ID["D7"].inputs
    assert isinstance(told, Told)
    first, second = Stage(told, DEFAULT).play(), Stage(told, DEFAULT).play()

    assert first.desired == second.desired
    assert first.launches == second.launches


def test_the_page_has_every_story_and_every_law():
    page = PAGE.read_text(encoding="utf-8")

    assert re.findall(r"^\*\*([A-D]\d+[bc]?) ", page, re.MULTILINE) == [story.id for story in STORIES]
    assert [policy.value for policy in SHOWN if f"`{policy.value}`" not in page] == []
    assert f"Around the law: {sum(story.about is About.SYSTEM for story in STORIES)} of" in page


def test_the_command_says_what_is_wrong_and_ends_with_1():
    ran = CliRunner().invoke(
        cli, ["conformance", "--policy", "slo-keda", "--scenario", "D9", "--scenario", "A4"]
    )

    assert ran.exit_code == 1
    assert "slo-keda  A4 2,500 held requests: 1 wanted after 180 s" in ran.output
    assert ran.output.endswith("1 of 2 are right\n")


def test_the_command_prints_one_json_object():
    ran = CliRunner().invoke(cli, ["conformance", "--scenario", "A8", "--json"])

    assert ran.exit_code == 0
    assert json.loads(ran.output) == {
        "told": 1,
        "right": 1,
        "verdicts": [{"scenario": "A8", "policy": DEFAULT.value, "right": True, "wrong": None}],
    }


def test_an_unknown_scenario_is_a_mistake_with_the_known_ones():
    ran = CliRunner().invoke(cli, ["conformance", "--scenario", "Z9"])

    assert ran.exit_code == 2
    assert "--scenario Z9: it must be one of A1, A2" in ran.output
