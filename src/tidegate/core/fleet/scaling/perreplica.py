"""What one replica carries with the promise kept: the fluid law of a full replica, learned from the ledgers alone.

With ``B`` requests in a replica, each of ``p`` prompt tokens and ``o`` of answer, an answer takes

    T(B) = o * (k0 + k1 * B) + k2 * p * B

seconds: ``k0 + k1 * B`` is a decode step, and while it is answered the prompts of ``B`` others are computed beside it.
(The same law gives the oracle its needs in ``sim/needs.py``; there the engine's own step law is known.) A replica that
holds ``B`` thus ends ``B / T(B)`` requests a second. ``B`` and ``T`` can be seen from outside: what is in flight, and by
Little's law in flight by ended a second. So the law needs neither the engine's pages nor the router's; where the
gateways have learned a ``Capacity``, that is what is believed until there are samples.

The largest ``B`` is where the first of these ends: time for each token, the engine's memory, its batch size.
"""

from __future__ import annotations

from tidegate.core.capacity import DECODE_PRIOR, PREFILL_PRIOR, Capacity
from tidegate.core.fleet.scaling.past import Past
from tidegate.core.leastsquares import Law, Terms
from tidegate.core.queueing import late_share
from tidegate.core.settings import Promise
from tidegate.core.values import value

THOUSAND = 1e-3
TYPICAL = (1.0, 16.0, 16.0)
FLOOR_S = 0.0005
SAMPLE_EVERY_S = 10.0
OVER_S = 60.0
"""A sample is of a minute in which no replica came or went."""
EDGE_S = 10.0
STEADY = 0.2
"""Of what ended: by how much what is in flight may have changed, for the two to be of one time. What waits may grow."""
ENDED_LEAST = 8
TIME_SHARE = 0.9
"""Of the promised time for each token, what is planned with: it is promised to each request, and this is a mean."""
MEMORY_SHARE = 0.9
"""Of an engine's memory, what is planned with: lengths differ, and what is full makes prompts wait."""
LATE = 0.05
"""Share of first tokens that may be late because other prompts were computed first."""

IRREGULAR = 0.75
"""Half the sum of the squared variations: arrivals by chance, and prompts half as irregular."""


@value
class Full:
    """One replica as full as the promise allows."""

    batch: float
    """Requests in it."""
    requests_per_s: float | None
    """Of the lengths that come; None while nothing is known of its speed."""
    bound_by: str
    """What forbids one more: ``time``, ``first token``, ``memory``, ``slots`` or ``concurrency_target``."""


class Pace:
    """The learned law of one model's replicas."""

    def __init__(self) -> None:
        self._law: Law | None = None
        self._own = 0
        self._next_s = 0.0
        self._serving = 0
        self._since_s = 0.0

    def __repr__(self) -> str:
        return f"<Pace {self._law!r}>"

    @property
    def is_known(self) -> bool:
        """Something is known of how fast a replica is."""
        return self._law is not None

    @property
    def samples(self) -> int:
        """Seen by itself, not told."""
        return self._own

    def settled_s(self, now_s: float) -> float:
        """For how long the number of replicas has been what it is."""
        return now_s - self._since_s

    def answer_s(self, batch: float, prompt: float, output: float) -> float | None:
        """How long an answer takes beside so many others; None while nothing is known."""
        if self._law is None:
            return None
        output = max(1.0, output)
        return output * self._law.at(1.0, batch, THOUSAND * batch * prompt / output)

    def look(self, past: Past, serving: int, capacity: Capacity | None, now_s: float) -> None:
        """Learn from the last minute, if it was a steady one."""
        if serving != self._serving:
            self._serving, self._since_s = serving, now_s
        if now_s < self._next_s:
            return
        self._next_s = now_s + SAMPLE_EVERY_S
        prompt = past.mean_prompt_tokens(5 * OVER_S, now_s)
        output = past.mean_output_tokens(5 * OVER_S, now_s)
        if prompt is None or output is None:
            return
        if capacity is not None and not self._own:
            self._law = Law(_of(capacity, prompt, output), TYPICAL, FLOOR_S)
        took_s = self._took_s(past, now_s)
        if took_s is None or not serving:
            return
        output = max(1.0, output)
        batch = (past.mean_in_flight(OVER_S, now_s) or 0.0) / serving
        if self._law is None:
            self._law = Law(_default(prompt, output), TYPICAL, FLOOR_S)
        self._own += 1
        self._law.add(1.0, batch, THOUSAND * batch * prompt / output, took_s / output)

    def _took_s(self, past: Past, now_s: float) -> float | None:
        """The mean answer by Little's law; None when the minute was not steady."""
        if past.seen_s(now_s) < OVER_S or now_s < self._since_s + OVER_S:
            return None
        ended, refused = past.ended_per_s(OVER_S, now_s), past.refused_per_s(OVER_S, now_s)
        there, later = past.mean_in_flight(OVER_S, now_s), past.mean_in_flight(OVER_S - EDGE_S, now_s)
        last = past.mean_in_flight(EDGE_S, now_s)
        if ended is None or refused is None or there is None or later is None or last is None:
            return None
        first = (there * OVER_S - later * (OVER_S - EDGE_S)) / EDGE_S
        done = (ended - refused) * OVER_S
        if done < ENDED_LEAST or abs(last - first) > STEADY * done:
            return None
        return there * OVER_S / done


def full_replica(
    pace: Pace,
    capacity: Capacity | None,
    lengths: tuple[float, float] | None,
    promise: Promise,
    most: tuple[float, str],
    room: float | None,
    servers: int,
) -> Full:
    """The fullest replica that keeps the promise.

    ``lengths`` are the mean prompt and answer in tokens; ``most`` is the largest batch allowed and the name of what
    allows it; ``room`` is how many requests fit into its memory, None when that is not known; ``servers`` is how many
    replicas a prompt has to choose from.
    """
    batch, by = most
    if room is not None and MEMORY_SHARE * room < batch:
        batch, by = max(1.0, MEMORY_SHARE * room), "memory"
    if lengths is None or not pace.is_known:
        return Full(batch, None, by)
    prompt, output = lengths[0], max(1.0, lengths[1])
    alone_s, pair_s = pace.answer_s(0.0, prompt, output) or 0.0, pace.answer_s(1.0, prompt, output) or 0.0
    each_s = max(1e-9, pair_s - alone_s)
    # A first token may take its time too, and half of that time is left to chance.
    allowed_s = output * TIME_SHARE * promise.tpot_s + 0.5 * promise.ttft_s
    if (in_time := (allowed_s - alone_s) / each_s) < batch:
        batch, by = max(1.0, in_time), "time"
    rate = batch / max(1e-9, alone_s + each_s * batch)
    if capacity is not None:
        prompt_s = max(1e-6, capacity.prefill_s(prompt, 0.0) - capacity.prefill.k0)
        if (first := _busy(promise.ttft_s - promise.tpot_s, prompt_s, servers) / prompt_s) < rate:
            rate, by = first, "first token"
            batch = max(1.0, min(batch, rate * alone_s / max(1e-9, 1.0 - rate * each_s)))
    return Full(batch, rate, by)


def _busy(within_s: float, prompt_s: float, servers: int) -> float:
    """The share of its time that a replica may spend on prompts for all but ``LATE`` of the first tokens to be in time."""
    low, high = 0.05, 0.98
    for _ in range(20):
        middle = 0.5 * (low + high)
        is_fine = late_share(within_s - prompt_s, middle, max(1, servers), prompt_s, IRREGULAR) <= LATE
        low, high = (middle, high) if is_fine else (low, middle)
    return low


def _of(capacity: Capacity, prompt: float, output: float) -> Terms:
    """As the gateways have learned it. Their gaps between tokens have the prompts beside them in them already."""
    decode = capacity.decode
    return decode.k0, decode.k1 + decode.k2 * THOUSAND * (prompt + output / 2), 0.0


def _default(prompt: float, output: float) -> Terms:
    held = THOUSAND * (prompt + output / 2)
    return (
        DECODE_PRIOR[0],
        DECODE_PRIOR[1] + DECODE_PRIOR[2] * held,
        PREFILL_PRIOR[1] + PREFILL_PRIOR[2] * THOUSAND * prompt / 2,
    )
