"""The fullest that a replica may be with the promise kept, by the pace that was learned of it (``perreplica``).

The largest ``B`` is where the first of these ends: the engine's memory, its batch size, or answers in time, all but a stated
share. How many are late beside ``B`` others by chance is reckoned by the laws of ``core.queueing``. For what may come within
a lead time there is a second number, the *brim*: as full as can be without a line.

What even one request alone does not get, its tokens or its first one as soon as promised, is kept at no number of replicas.
That part of the promise is left out then, and the rest planned for.
"""

from __future__ import annotations

from tidegate.core.capacity import Capacity
from tidegate.core.fleet.scaling.perreplica import EXPLORE, LEFT_LEAST, Pace
from tidegate.core.queueing import late_share, normal_share, pace_spread_s
from tidegate.core.scaling_settings import Promise
from tidegate.core.values import value

MEMORY_SHARE = 0.9
"""Of an engine's memory, what is planned with: lengths differ, and what is full makes prompts wait."""
LATE = 0.05
"""Share of the answers that may be late although replicas are enough: first tokens because other prompts are computed
first, the others because batches and prompts beside them differ by chance."""
BRIM = 0.5
"""The same of one that is as full as can be without a line: the mean answer is just in time."""
IRREGULAR = 0.75
"""Half the sum of the squared variations: arrivals by chance, and prompts half as irregular."""


@value
class Full:
    """One replica as full as the promise allows."""

    batch: float
    """Requests in it."""
    requests_per_s: float | None
    """Of the lengths that come; None while nothing is known of its speed."""
    brim_per_s: float | None
    """The most that it ends a second before a line forms, although half of the answers are late by then."""
    bound_by: str
    """What forbids one more: ``time``, ``first token``, ``memory``, ``slots``, ``concurrency_target`` or ``what was seen``."""
    token_alone_s: float | None = None
    """What a token takes where a request is alone, if that is more than promised; None: it can be kept."""
    first_alone_s: float | None = None
    """The same of the prompt with its first token."""


def full_replica(
    pace: Pace,
    capacity: Capacity | None,
    lengths: tuple[float, float] | None,
    promise: Promise,
    most: tuple[float, str],
    room: float | None,
    servers: int,
    most_per_s: float | None = None,
    *,
    gave_up: bool = False,
) -> Full:
    """The fullest replica that keeps the promise.

    ``lengths`` are the mean prompt and answer in tokens; ``most`` is the largest batch allowed and the name of what
    allows it; ``room`` is how many requests fit into its memory, None when that is not known; ``servers`` is how many
    replicas a prompt has to choose from; ``most_per_s`` is what a replica was seen to do at most. Tokens are given up when of
    requests alone not even half are in time, and if they have been (``gave_up``) until all but the stated share would be.
    """
    batch, by = most
    if room is not None and MEMORY_SHARE * room < batch:
        batch, by = max(1.0, MEMORY_SHARE * room), "memory"
    if lengths is None or not pace.is_known:
        return Full(batch, None, None, by)
    replica = _Replica(pace, capacity, lengths, promise, max(1, servers), gave_up=gave_up)
    brim = replica.per_s(replica.fullest(batch, BRIM))
    if replica.late(batch) > LATE:
        batch = replica.fullest(batch, LATE)
        if not pace.knows_alone:
            # A line through what was seen may be steeper than that of the prior: one step at a time.
            batch = max(batch, min(most[0], EXPLORE * pace.emptiest))
        by = "first token" if replica.late_first(batch) > LATE / 2 else "time"
    rate = replica.per_s(batch)
    if most_per_s is not None and most_per_s < rate:
        rate, by = most_per_s, "what was seen"
        batch = max(1.0, min(batch, rate * replica.alone_s / max(1e-9, 1.0 - rate * replica.each_s)))
    if most_per_s is not None:
        brim = min(brim, most_per_s)
    return Full(batch, rate, max(brim, rate), by, replica.token_alone_s, replica.first_alone_s)


class _Replica:
    """How late answers are, by how many one replica holds."""

    def __init__(
        self,
        pace: Pace,
        capacity: Capacity | None,
        lengths: tuple[float, float],
        promise: Promise,
        servers: int,
        *,
        gave_up: bool,
    ) -> None:
        prompt, self._output = lengths[0], max(1.0, lengths[1])
        self._promise, self._servers = promise, servers
        self.alone_s = pace.answer_s(0.0, prompt, self._output) or 0.0
        self.each_s = max(1e-9, (pace.answer_s(1.0, prompt, self._output) or 0.0) - self.alone_s)
        self._beside_s = pace.prompt_s(prompt)
        self._prompt_s = self._beside_s
        self._is_told = capacity is not None
        if capacity is not None:
            self._prompt_s = max(1e-6, capacity.prefill_s(prompt, 0.0) - capacity.prefill.k0)
        self.token_alone_s = self.first_alone_s = None
        if pace.knows_alone and self._late_tokens(1.0) > (LATE if gave_up else BRIM):
            self.token_alone_s = self._token_s(1.0)
        if self._is_told and self._slack_s <= 0.0:
            self.first_alone_s = self._prompt_s + promise.tpot_s

    def per_s(self, batch: float) -> float:
        """Requests that it ends a second."""
        return batch / max(1e-9, self.alone_s + self.each_s * batch)

    def late(self, batch: float) -> float:
        """Share of the answers of which the first token comes late, or the others do; without what cannot be kept."""
        return self.late_first(batch) + (0.0 if self.token_alone_s is not None else self._late_tokens(batch))

    def late_first(self, batch: float) -> float:
        """Share of first tokens that are late, since other prompts are computed first. 0 where nobody has learned how long
        a prompt takes, and where each would be late."""
        if not self._is_told or self.first_alone_s is not None:
            return 0.0
        busy = self.per_s(batch) * self._prompt_s
        return late_share(self._slack_s, busy, self._servers, self._prompt_s, IRREGULAR)

    @property
    def _slack_s(self) -> float:
        """How long a prompt may wait and its first token be in time."""
        return self._promise.ttft_s - self._promise.tpot_s - self._prompt_s

    def _token_s(self, batch: float) -> float:
        """Mean time of a token after the first. What an answer takes has its own prompt in it."""
        took_s = self.alone_s + self.each_s * batch
        return max(LEFT_LEAST * took_s, took_s - self._prompt_s) / self._output

    def _late_tokens(self, batch: float) -> float:
        """Share of answers whose tokens come slower than promised."""
        rate, token_s = self.per_s(batch), self._token_s(batch)
        grows_s = self.each_s / self._output
        spread_s = pace_spread_s(token_s, rate, self._beside_s, self._output, grows_s, batch)
        return 1.0 - normal_share((self._promise.tpot_s - token_s) / spread_s)

    def fullest(self, most: float, late: float) -> float:
        """The largest batch up to this of which no more is late; 1 when even that is."""
        if self.late(most) <= late:
            return most
        low, high = 1.0, max(1.0, most)
        for _ in range(16):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.late(middle) <= late else (low, middle)
        return low
