"""All stories, told to a law."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.conformance import growing, plumbing, shrinking, waking
from tidegate.conformance.played import play
from tidegate.conformance.stage import Stage
from tidegate.conformance.story import About, Simulated, Story, Told
from tidegate.core.scaling_settings import ScalingPolicy

DEFAULT = ScalingPolicy.TIDAL

STORIES: tuple[Story, ...] = (*growing.STORIES, *shrinking.STORIES, *waking.STORIES, *plumbing.STORIES)
NOT_TOLD = {
    "C11": "prefill at zero, decode not: engines do both here, so there is no half of a pair to be at zero",
}
"""Reported, and without a meaning here."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a story."""

    story: str
    policy: str
    wrong: str | None
    """None: it went right."""


def tell(story: Story, policy: ScalingPolicy) -> Verdict:
    """Play one story with one law inside."""
    match story.inputs:
        case Told() as told:
            course = Stage(told, policy).play()
        case Simulated() as told:
            course = play(told, policy)
        case by_itself:
            return Verdict(story.id, policy.value, by_itself())
    found = (check.wrong(course) for check in story.checks)
    return Verdict(story.id, policy.value, next((wrong for wrong in found if wrong), None))


def stories_for(policy: ScalingPolicy) -> tuple[Story, ...]:
    """Those that are told to this law: stories of what is around a law are told with our default inside, and once."""
    if policy is DEFAULT:
        return STORIES
    return tuple(story for story in STORIES if story.about is About.LAW)


def tell_all(policies: Iterable[ScalingPolicy], only: Iterable[str] = ()) -> list[Verdict]:
    """Every story that is meant for them, to each of these laws."""
    wanted = set(only)
    return [
        tell(story, policy)
        for policy in policies
        for story in stories_for(policy)
        if not wanted or story.id in wanted
    ]
