"""How requests spread over replicas that are not equally fast, where each goes to the one that costs it least.

The default router (``core.dispatch.routing.cost``) adds up for each replica what the prompt takes there and what the batch
adds to the first words of the answer. So a fast replica gets all, until its batch makes it as dear as a slow one that is
empty; from then on all that are used cost the same. In the fluid limit that is one level of cost: each kind is as full as
makes it cost so much, and the level is the one at which all that arrives is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.core.values import value

READ_STEPS = 40
"""Of the answer, the tokens whose pace counts: a sentence or two, which the reader waits for as for the first token.
Without them a batch of 30 would weigh some milliseconds, and all hits would go to few replicas: measured, the slowest
tenth of the answers then took half as long again, at the same times to the first token."""
CHUNK_TOKENS = 4096
"""A long prompt is computed in chunks, each in a step with the decoding sequences; engines take 2,048 to 8,192."""
HALVINGS = 24


@value
class Taking:
    """Replicas of one kind, all equally full."""

    number: float
    alone_s: float
    """What a request costs at an empty one."""
    each_more_s: float
    """What each further sequence in the batch adds to that."""
    most: float
    """Sequences that one takes at once."""
    rate_per_s: Callable[[float], float]
    """Requests that one with so many sequences ends; grows with them."""

    def batch(self, level_s: float) -> float:
        """Sequences in one that costs so much."""
        if level_s <= self.alone_s:
            return 0.0
        return min(self.most, (level_s - self.alone_s) / max(1e-12, self.each_more_s))


def dearer_s(step_more_s: float, prompt_tokens: float) -> float:
    """What a sequence that makes steps longer by so much costs a request that comes to it."""
    return step_more_s * (1 + READ_STEPS + prompt_tokens / CHUNK_TOKENS)


def spread(kinds: Sequence[Taking], arrivals_per_s: float) -> list[float]:
    """Sequences in a replica of each kind when so many requests come; all full when those are more than they end."""
    low_s = min(kind.alone_s for kind in kinds)
    high_s = max(kind.alone_s + kind.each_more_s * kind.most for kind in kinds)
    found_s = level_s(low_s, high_s, lambda at_s: _taken(kinds, at_s), arrivals_per_s)
    # Where more sequences make nothing dearer, a hair's breadth is between none and all: what arrives is between the two.
    before_s = found_s - (high_s - low_s) / 2.0**HALVINGS
    least_per_s, most_per_s = _taken(kinds, before_s), _taken(kinds, found_s)
    gap_per_s = most_per_s - least_per_s
    way = min(1.0, max(0.0, (arrivals_per_s - least_per_s) / gap_per_s)) if gap_per_s > 0.0 else 1.0
    fewer = [kind.batch(before_s) for kind in kinds]
    return [few + way * (kind.batch(found_s) - few) for kind, few in zip(kinds, fewer, strict=True)]


def level_s(low_s: float, high_s: float, taken: Callable[[float], float], wanted: float) -> float:
    """The level of cost, between these, at which so much is taken; the highest when less is taken there. What is ``taken``
    grows with the level."""
    for _ in range(HALVINGS):
        middle_s = 0.5 * (low_s + high_s)
        if taken(middle_s) < wanted:
            low_s = middle_s
        else:
            high_s = middle_s
    return high_s


def _taken(kinds: Sequence[Taking], at_s: float) -> float:
    return sum(kind.number * kind.rate_per_s(kind.batch(at_s)) for kind in kinds)
