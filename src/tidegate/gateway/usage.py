"""Token counts, read in passing from the end of an answer."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

TAIL_BYTES = 2048
"""Enough for the largest usage object seen, with its details and the engine's timings behind it."""

TAIL_READS = 4
"""Usage, end mark and last chunk may each come in a read of their own."""

COUNT = re.compile(
    rb'"(prompt_tokens|completion_tokens|cached_tokens|input_tokens|output_tokens)": ?([0-9]{1,12})'
)


class Usage(NamedTuple):
    """What the engine said; None where it said nothing."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


NOT_SAID = Usage()


class Tail:
    """The end of an answer: what its last reads brought, and how many events all of them."""

    __slots__ = ("_reads", "add", "events")

    def __init__(self) -> None:
        self._reads: deque[bytes] = deque(maxlen=TAIL_READS)
        self.add: Callable[[bytes], None] = self._reads.append
        self.events = 0

    def clear(self) -> None:
        self._reads.clear()
        self.events = 0

    def shows(self, mark: re.Pattern[bytes], last: bytes = b"") -> bool:
        """Whether it holds this mark, together with the very last bytes."""
        return mark.search(b"".join((*self._reads, last))) is not None

    def usage(self, *, idle_events: int | None) -> Usage:
        """What was said about tokens. A stream that says nothing is counted by its events but for the idle."""
        usage = usage_in(b"".join(self._reads))
        if usage.output_tokens is None and idle_events is not None:
            return usage._replace(output_tokens=max(0, self.events - idle_events))
        return usage


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
