"""What an engine writes in its log about its own start: seconds for parts that nobody outside can tell apart.

Numbers are taken and nothing else, under names of ours: what stands around them may be a secret or a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.core.lifecycle import Part

Marks = Mapping[Part, str]
"""For each part a pattern whose one group is its seconds."""

NO_MARKS: Marks = {}
SECONDS = r"(\d{1,6}(?:\.\d{1,6})?)"
LONGEST_S = 86_400.0


def parts_of(log: str, marks: Marks) -> tuple[tuple[Part, float], ...]:
    """The parts that the log has, in their order. Several processes of one engine say the same one at a time: the slowest
    counts, since the others wait for it."""
    found: list[tuple[Part, float]] = []
    for part, mark in marks.items():
        seconds = [float(match) for match in re.findall(mark, log)]
        sane = [took_s for took_s in seconds if 0.0 <= took_s <= LONGEST_S]
        if sane:
            found.append((part, max(sane)))
    return tuple(found)
