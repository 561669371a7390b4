"""What requests of some length are worth, in one number: ordinary requests.

A prompt token is computed beside thousands of others, and a token of an answer by a step of its own that a batch shares:
it takes as long as some four of the prompt, and a request by itself, without any, as a hundred (the priors of
``core.capacity``, with a batch well filled). On other engines that is otherwise, but not by much; and a number that does not
go by what was learned is the same next month. How many replicas it takes is reckoned by what was learned.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.knowledge import is_sane

Lengths = tuple[float, float]
"""Mean prompt and answer of some requests, in tokens."""

REQUEST_TOKENS, ANSWER_TOKEN = 100.0, 4.0
ORDINARY_TOKENS = REQUEST_TOKENS + 1_000.0 + 200.0 * ANSWER_TOKEN
"""A prompt of 1,000 tokens and an answer of 200."""


def worth(lengths: Lengths) -> float:
    """One request of these lengths, in ordinary ones."""
    prompt, output = lengths
    return (REQUEST_TOKENS + prompt + ANSWER_TOKEN * output) / ORDINARY_TOKENS


def between(short: Lengths, long: Lengths, most: float) -> Lengths:
    """The longest from the short ones on towards the long ones that are worth no more than this, or the short ones; the long
    ones themselves where these are not worth more."""
    least, whole = worth(short), worth(long)
    if whole <= max(least, most):
        return long
    share = max(0.0, most - least) / (whole - least)
    return short[0] + share * (long[0] - short[0]), short[1] + share * (long[1] - short[1])


def rounded(number: float) -> float:
    """Four digits: enough to plan with, and to be written down for weeks."""
    return float(f"{number:.4g}")


def sane_lengths(lengths: Iterable[float] | None) -> Lengths | None:
    """These, if they can be lengths."""
    found = tuple(lengths or ())
    return (found[0], found[1]) if len(found) == 2 and all(map(is_sane, found)) else None
