"""Token demand: as many replicas as the tokens that arrive keep busy.

Each second of traffic asks for so many replica-seconds:

    prompt tokens/s / prefill tokens/s  +  answer tokens/s / (batch / step time of that batch)

where the batch is the largest that keeps the promised time per token, and both rates come from the learned capacity.
A prompt of 8,192 tokens is sixteen of 512, which no count of requests can see. What already waits is added as if it were
to be served within ``drain_s``. Replicas are filled to ``utilization``; down as the concurrency law goes, only when
nothing higher was asked for within the scale-down delay.

Before anything is learned the capacity is a prior: some eight billion parameters on one large GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tidegate.core.capacity import Capacity, Kind
from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.fleet.scaling.sliding import Hold
from tidegate.core.scaling_settings import Scaling
from tidegate.core.types import ModelId

BEFORE_DATA = Capacity(Kind(ModelId(""), ""))
"""Read only: the prior, while nothing has been learned."""
LENGTHS_S = 600.0
"""Mean lengths change slowly and want many samples."""


@dataclass(frozen=True, slots=True)
class TokensConstants:
    """What may be set."""

    utilization: float = 0.7
    """Of a replica's time, what is planned for; the rest is for chance."""
    window_s: float = 30.0
    """Rates are over this span."""
    drain_s: float = 30.0
    """How soon what waits now is to be served, beside what keeps coming."""


def batch_for(capacity: Capacity, slots: int, held_tokens: float, tpot_s: float) -> int:
    """The largest batch of sequences with so many tokens each whose steps keep the time per token, at least 1."""
    kv_tokens = capacity.kv_tokens
    low, high = 1, max(1, slots)
    while low < high:
        middle = (low + high + 1) // 2
        fits = kv_tokens is None or middle * held_tokens <= kv_tokens
        if fits and capacity.step_s(middle, middle * held_tokens) <= tpot_s:
            low = middle
        else:
            high = middle - 1
    return low


def busy_s(seen: Situation, prompt: float, output: float) -> float:
    """Replica-seconds that one request of these lengths takes, in a replica that is well filled."""
    capacity = seen.demand.capacity or BEFORE_DATA
    held = prompt + output / 2
    batch = batch_for(capacity, seen.slots, held, seen.promise.tpot_s)
    return capacity.prefill_s(prompt, 0.0) + output * capacity.step_s(batch, batch * held) / batch


class Tokens:
    """The law for one model, with what it has asked for lately."""

    def __init__(self, constants: TokensConstants, delay_s: float, standing: int) -> None:
        self._law = constants
        self._hold = Hold(delay_s, standing)

    def __repr__(self) -> str:
        return f"<Tokens {self._hold!r}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """Replicas kept busy by what comes and by what waits."""
        law, demand = self._law, seen.demand
        past = demand.past
        rate, prompt = (
            past.arrivals_per_s(law.window_s, now_s),
            past.mean_prompt_tokens(law.window_s, now_s) or past.mean_prompt_tokens(LENGTHS_S, now_s),
        )
        output = past.mean_output_tokens(LENGTHS_S, now_s)
        if rate is None:
            return Answer(seen.standing, seen.standing, "nothing is known of the demand", "no data")
        one_s = busy_s(seen, prompt or 0.0, output or 0.0) if prompt else 0.0
        flowing = rate * one_s / law.utilization
        waiting = demand.queued * one_s / law.drain_s
        asked = ceil(flowing + waiting - 1e-9)
        if demand.concurrency > 0:
            asked = max(1, asked)
        held = self._hold.ask(seen.within(asked), now_s)
        because = (
            f"{rate:.2f} requests/s of {prompt or 0:.0f} and {output or 0:.0f} tokens keep {flowing:.2f} "
            f"replicas {100 * law.utilization:.0f} % busy, {demand.queued} waiting {waiting:.2f}"
        )
        held_by = None if held == seen.within(asked) else "scale_down_delay"
        return Answer(held, asked, because, held_by, {"busy_s": one_s, "arrivals_per_s": rate})


def tokens(scaling: Scaling, standing: int, now_s: float) -> tuple[Tokens, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del now_s
    return Tokens(with_changes(TokensConstants(), scaling.law), scaling.scale_down_delay_s, standing), 1.0
