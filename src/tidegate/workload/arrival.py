"""One request as the world made it: when it came and how much it asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidegate.core.types import FlowId, ModelId

MAX_TOKENS = 2**31 - 1
MAX_HASH = 2**64 - 1


class BadValue(ValueError):
    """A value that no request can have; the message names it and what it should be."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row of a trace. None means that the trace does not say, never zero."""

    arrived_s: float
    """Seconds from the start of the trace."""
    prompt_tokens: int | None
    output_tokens: int | None
    """What the answer will be when nobody cuts it short."""
    model: ModelId | None = None
    tenant: FlowId | None = None
    priority: int = 0
    adapter: str | None = None
    session: str | None = None
    """Requests of one conversation, whose prompts grow from each other."""
    prefix_hashes: tuple[int, ...] = ()
    """One for each block of the prompt; equal leading ones mean equal text. Empty when not recorded."""
    cached_tokens: int | None = None
    """Prompt tokens that were found cached when the trace was recorded."""
    deadline_s: float | None = None
    """How long after its arrival the client waits for the complete answer."""


MOST_S = 3.2e9
"""Seconds since 1970 are within it; a year 9999 among those of today is not."""


def check_moment(arrived_s: float) -> None:
    """Raise BadValue unless this is a finite number."""
    if not math.isfinite(arrived_s):
        message = f"arrived_s is {arrived_s}; it must be a finite number"
        raise BadValue(message)
    if not -MOST_S <= arrived_s <= MOST_S:
        message = f"arrived_s is {arrived_s:g}; it must be within {MOST_S:g} s, a hundred years"
        raise BadValue(message)


def check_tokens(name: str, count: int | None) -> None:
    """Raise BadValue unless this is None or a count that fits the columns."""
    if count is not None and not 0 <= count <= MAX_TOKENS:
        message = f"{name} is {count}; it must be from 0 to {MAX_TOKENS}"
        raise BadValue(message)


def check_name(name: str, text: str | None) -> None:
    """Raise BadValue unless this is None or a name that survives a cell of a CSV file."""
    if text is None:
        return
    if not text or text != text.strip() or "\n" in text or "\r" in text:
        message = (
            f"{name} is {text!r}; it must not be empty, start or end with a space, or contain a line break"
        )
        raise BadValue(message)


def check_hashes(hashes: tuple[int, ...]) -> None:
    """Raise BadValue unless all fit into 64 bits without a sign."""
    if hashes and not (min(hashes) >= 0 and max(hashes) <= MAX_HASH):
        message = f"prefix_hashes go from {min(hashes)} to {max(hashes)}; they must be from 0 to {MAX_HASH}"
        raise BadValue(message)


def check_rest(priority: int, deadline_s: float | None) -> None:
    """Raise BadValue unless the priority fits its column and the deadline lies after the arrival."""
    if not -MAX_TOKENS <= priority <= MAX_TOKENS:
        message = f"priority is {priority}; it must be from {-MAX_TOKENS} to {MAX_TOKENS}"
        raise BadValue(message)
    if deadline_s is not None and not (math.isfinite(deadline_s) and deadline_s > 0):
        message = f"deadline_s is {deadline_s}; it must be above 0, counted from the arrival"
        raise BadValue(message)
