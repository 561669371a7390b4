"""The table of all verdicts as a page of the documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from tidegate.conformance.story import About, Story
from tidegate.conformance.suite import DEFAULT, NOT_TOLD, STORIES, Verdict
from tidegate.core.scaling_settings import FLOOR_POLICIES, OWN_POLICIES, ScalingPolicy

SHOWN = tuple(policy for policy in ScalingPolicy if policy not in FLOOR_POLICIES)
"""A schedule, or a forecast, follows no demand by itself."""
RIGHT, WRONG = "✓", "✗"
GROUPS = {
    "A": "On the way up",
    "B": "On the way down",
    "C": "Zero and back",
    "D": "Signals, and who may write",
}

HEAD = """\
# Scenarios

What users of autoscalers have reported, as stories with times in them: {count} of them, each with what went wrong and what
is right. `tidegate conformance` tells them to any law by name, in virtual time, and prints what is wrong. This page is
made by `make bench-conformance ARGS=--write`.

How to read it:

- Every law runs inside Tidegate's controller, so all are kinder here than at home: who waits gets a first replica, nothing
  shrinks while the gateways are not heard, and victims drain. A law that fails here has failed by its own arithmetic.
- Each has its published windows, delays, rates and tolerances. Its target is set as an operator would set it for
  the story's replica (`src/tidegate/conformance/fitted.py`); nobody is blamed for a default that must be changed.
- A story says where a law breaks, not how good it is: one that is slow both ways, or keeps much for long, may be right in
  all of them. What that costs is measured elsewhere (`tidegate simulate --compare`).
- Stories of what is *around* a law are told to Tidegate alone. What was reported there belongs to another system, not
  to its law, and is not counted against the law.
"""


def page(verdicts: Iterable[Verdict]) -> str:
    """The whole page."""
    found = {(verdict.story, verdict.policy): verdict for verdict in verdicts}
    laws = [story for story in STORIES if story.about is About.LAW]
    parts = [HEAD.format(count=len(STORIES)), "## How many are right", "", *_rates(found, laws)]
    for group, title in GROUPS.items():
        mine = [story for story in STORIES if story.id.startswith(group)]
        parts += ["", f"## {group}. {title}", ""]
        for story in mine:
            parts += _told(story, found)
    parts += ["", "## Reported, and without a meaning here", ""]
    parts += [_wrapped(f"- {story}: {why}.") for story, why in NOT_TOLD.items()]
    return "\n".join(parts).rstrip() + "\n"


def _rates(found: Mapping[tuple[str, str], Verdict], laws: Sequence[Story]) -> list[str]:
    groups = {group: [story for story in laws if story.id.startswith(group)] for group in GROUPS}
    shown = {group: stories for group, stories in groups.items() if stories}
    head = " | ".join(f"{GROUPS[group].lower()} ({len(stories)})" for group, stories in shown.items())
    lines = [f"| law | {head} | all {len(laws)} |", "|---|" + "---|" * (len(shown) + 1)]
    rates = {policy: _right(found, laws, policy) for policy in SHOWN}
    for policy in sorted(
        SHOWN, key=lambda policy: (-rates[policy], policy not in OWN_POLICIES, policy.value)
    ):
        cells = " | ".join(f"{_right(found, stories, policy)}" for stories in shown.values())
        name = f"**`{policy.value}`**" if policy in OWN_POLICIES else f"`{policy.value}`"
        lines.append(f"| {name} | {cells} | {rates[policy]} ({100 * rates[policy] / len(laws):.0f} %) |")
    around = [story for story in STORIES if story.about is About.SYSTEM]
    right = _right(found, around, DEFAULT)
    lines += ["", f"Laws of Tidegate's own are in bold. Around the law: {right} of {len(around)} are right."]
    return lines


def _right(found: Mapping[tuple[str, str], Verdict], stories: Sequence[Story], policy: ScalingPolicy) -> int:
    return sum(found[story.id, policy.value].wrong is None for story in stories)


def _told(story: Story, found: Mapping[tuple[str, str], Verdict]) -> list[str]:
    lines = [_wrapped(f"**{story.id} {story.title}.** {_sentence(story.wrong)} *Right:* {story.right}.")]
    lines += [_wrapped(f"Source: {story.source}." + (f" Here: {story.note}." if story.note else "")), ""]
    if story.about is About.SYSTEM:
        verdict = found[story.id, DEFAULT.value]
        lines += [f"{RIGHT} Tidegate" if verdict.wrong is None else f"{WRONG} Tidegate: {verdict.wrong}", ""]
        return lines
    verdicts = [(policy, found[story.id, policy.value].wrong) for policy in SHOWN]
    right = [f"`{policy.value}`" for policy, wrong in verdicts if wrong is None]
    lines += [_wrapped(f"{RIGHT} {', '.join(right) or 'none'}"), ""]
    wrongs = [f"- {WRONG} `{policy.value}`: {wrong}" for policy, wrong in verdicts if wrong is not None]
    return [*lines, *wrongs, ""] if wrongs else lines


def _wrapped(words: str) -> str:
    return textwrap.fill(words, 118, break_long_words=False, break_on_hyphens=False)


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."
