"""Traffic as amounts: how many requests arrive in each slot, and how many tokens come with them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.core.types import Dice
from tidegate.workload.chance import normal
from tidegate.workload.traces import Trace

MANY = 30.0
"""From so many on a Poisson number is drawn as a rounded normal one: its skewness is below 0.2."""


@dataclass(frozen=True, slots=True)
class Load:
    """One model's arrivals, a place for each slot."""

    slot_s: float
    requests: array[float]
    prompt_tokens: array[float]
    """Those to be computed: what a prefix cache holds is left out."""
    output_tokens: array[float]

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def span_s(self) -> float:
        """How long it lasts."""
        return len(self.requests) * self.slot_s

    @property
    def mean_prompt_tokens(self) -> float:
        """Of a request."""
        return sum(self.prompt_tokens) / max(1.0, sum(self.requests))

    @property
    def mean_output_tokens(self) -> float:
        """Of a request."""
        return sum(self.output_tokens) / max(1.0, sum(self.requests))

    def between(self, from_s: float, until_s: float) -> Load:
        """The slots that begin in this span; its start becomes moment 0."""
        first = max(0, math.ceil(from_s / self.slot_s))
        last = min(len(self), math.ceil(until_s / self.slot_s) if math.isfinite(until_s) else len(self))
        return Load(
            self.slot_s,
            self.requests[first:last],
            self.prompt_tokens[first:last],
            self.output_tokens[first:last],
        )

    def coarser(self, slot_s: float) -> Load:
        """The same in longer slots, each of a whole number of these."""
        by = max(1, round(slot_s / self.slot_s))

        def added(column: array[float]) -> array[float]:
            return array("d", (sum(column[at : at + by]) for at in range(0, len(column), by)))

        columns = (self.requests, self.prompt_tokens, self.output_tokens)
        return Load(self.slot_s * by, *(added(column) for column in columns))


def load_of_trace(trace: Trace, slot_s: float, fresh: float = 1.0) -> Load:
    """A trace's rows, added up. ``fresh`` is the share of prompts that no cache holds.

    Raises:
        ValueError: a row has no lengths.
    """
    if not trace.is_complete:
        raise ValueError("the trace has rows without lengths; give them some first")
    slots = int(trace.arrived_s[-1] // slot_s) + 1 if len(trace) else 0
    load = Load(slot_s, *(array("d", bytes(8 * slots)) for _ in range(3)))
    rows = zip(trace.arrived_s, trace.prompt_tokens, trace.output_tokens, strict=True)
    for at_s, prompt, output in rows:
        slot = int(at_s // slot_s)
        load.requests[slot] += 1
        load.prompt_tokens[slot] += fresh * prompt
        load.output_tokens[slot] += output
    return load


def load_of_rates(
    rate_per_s: Callable[[float], float],
    lengths: Callable[[float], tuple[float, float]],
    span_s: float,
    slot_s: float,
    dice: Dice,
) -> Load:
    """Poisson arrivals whose rate follows a curve, each with the mean lengths of its moment.

    ``lengths`` gives prompt and output tokens of a request that arrives then.
    """
    requests, prompts, outputs = array("d"), array("d"), array("d")
    for slot in range(math.ceil(span_s / slot_s)):
        middle_s = (slot + 0.5) * slot_s
        count = poisson(rate_per_s(middle_s) * slot_s, dice)
        prompt, output = lengths(middle_s)
        requests.append(count)
        prompts.append(count * prompt)
        outputs.append(count * output)
    return Load(slot_s, requests, prompts, outputs)


def poisson(mean: float, dice: Dice) -> int:
    """A Poisson number, by multiplying uniforms (Knuth, The Art of Computer Programming 2, 3.4.1)."""
    if mean <= 0:
        return 0
    if mean >= MANY:
        return max(0, round(normal(mean, math.sqrt(mean), dice)))
    limit, product, count = math.exp(-mean), 1.0 - dice.uniform(), 0
    while product > limit:
        product *= 1.0 - dice.uniform()
        count += 1
    return count


def level(rates: Sequence[float], slot_s: float) -> Callable[[float], float]:
    """A curve that stays level within each slot; 0 outside."""

    def rate_per_s(at_s: float) -> float:
        slot = int(at_s // slot_s)
        return rates[slot] if 0 <= slot < len(rates) else 0.0

    return rate_per_s
