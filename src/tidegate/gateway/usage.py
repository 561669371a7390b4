"""Token counts, read in passing from the end of an answer."""

from __future__ import annotations

import re
from typing import NamedTuple

TAIL_BYTES = 2048
"""Enough for the largest usage object seen, with its details and the engine's timings behind it."""

COUNT = re.compile(
    rb'"(prompt_tokens|completion_tokens|cached_tokens|input_tokens|output_tokens)": ?([0-9]{1,12})'
)


class Usage(NamedTuple):
    """What the engine said; None where it said nothing."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


NOT_SAID = Usage()


def usage_in(tail: bytes) -> Usage:
    """The last usage object in these bytes.

    A quotation mark inside a JSON string is escaped, so no text of an answer can pass for usage.
    """
    at = tail.rfind(b'"usage"', max(0, len(tail) - TAIL_BYTES))
    if at < 0:
        return NOT_SAID
    counts = {name: int(value) for name, value in COUNT.findall(tail, at)}
    if not counts:
        return NOT_SAID
    return Usage(
        counts.get(b"prompt_tokens", counts.get(b"input_tokens")),
        counts.get(b"cached_tokens"),
        counts.get(b"completion_tokens", counts.get(b"output_tokens")),
    )
