"""What became of each request, in columns; one row of the trace is one place in each.

A moment that never came is infinite, so whoever was turned away, ran out of time or failed is inside every
percentile, at its far end.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import inf

from tidegate.core.effects import Record
from tidegate.core.outcomes import Outcome

OUTCOMES = tuple(Outcome)
OPEN = len(OUTCOMES)
"""Stands for a request that has not ended."""

_NUMBER = {outcome: number for number, outcome in enumerate(OUTCOMES)}
COMPLETED = _NUMBER[Outcome.COMPLETED]
REFUSED = _NUMBER[Outcome.REJECTED_TOO_LARGE]
REFUSING = 400
"""An engine's status for a prompt that is too long. The gateway passes that on as an answer; it is none."""


class Tally:
    """Filled row by row as requests end."""

    def __init__(self, rows: int) -> None:
        self.outcomes = array("B", [OPEN]) * rows
        self.ttft_s = array("d", [inf]) * rows
        self.e2e_s = array("d", [inf]) * rows
        self.queue_wait_s = array("d", [inf]) * rows
        self.ended = 0
        self.retries = 0
        """Attempts beyond the first, of all requests."""
        self.prompt_tokens = 0
        """Of completed requests; so are those found in a prefix cache."""
        self.cached_tokens = 0
        self.spilt = 0
        """Passed to a pay-per-token upstream."""
        self.spilt_cost = 0.0

    def __repr__(self) -> str:
        return f"<Tally {self.ended} of {len(self.outcomes)} ended>"

    def record(self, record: Record) -> None:
        """A request has ended."""
        row = int(record.request_id)
        self.ended += 1
        if record.status == REFUSING:
            self.outcomes[row] = REFUSED
            return
        number = self.outcomes[row] = _NUMBER[record.outcome]
        if record.ttft_s is not None:
            self.ttft_s[row] = record.ttft_s
        if number == COMPLETED:
            self.e2e_s[row] = record.e2e_s
        if record.replica_id is not None:
            self.queue_wait_s[row] = record.queued_s
        if record.spilt_cost is not None:
            self.spilt += 1
            self.spilt_cost += record.spilt_cost
        if record.attempts > 1:
            self.retries += record.attempts - 1

    def counts(self) -> dict[Outcome, int]:
        """How many ended in which way; only what occurred."""
        found = {outcome: self.outcomes.count(number) for outcome, number in _NUMBER.items()}
        return {outcome: count for outcome, count in found.items() if count}

    def tpot_s(self, output_tokens: Sequence[int]) -> array[float]:
        """Mean time between the tokens of each answer. An answer of one token has none, and takes 0."""
        found = array("d", [inf]) * len(self.e2e_s)
        rows = zip(self.ttft_s, self.e2e_s, output_tokens, strict=True)
        for row, (ttft_s, e2e_s, tokens) in enumerate(rows):
            if e2e_s < inf:
                found[row] = (e2e_s - ttft_s) / (tokens - 1) if tokens > 1 else 0.0
        return found
