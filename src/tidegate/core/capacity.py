"""What one kind of replica can do, learned from live traffic: the one model that all parts read.

A *kind* is a model on an engine on a sort of machine. For each, two laws:

- a prompt of ``new`` uncached tokens behind ``cached`` ones takes ``k0 + k1 * new + k2 * area`` seconds, where
  ``area = new * (cached + new / 2)`` is what attention has to look at: without it a prompt of 85,000 tokens would
  be taken for four times cheaper than it is;
- a decode step of ``n`` sequences that hold ``kv`` tokens takes ``k0 + k1 * n + k2 * kv`` seconds.

Before there is data the prior holds: a model of some eight billion parameters on one large GPU. A replica's first
seconds are left out: then engines compile, and fill their caches. While nothing else is known at all, they are better
than the prior and stand in for it; the first few samples of a settled replica push them aside for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidegate.core.knowledge import KnownCapacity, is_sane
from tidegate.core.leastsquares import Law
from tidegate.core.types import CapacityFigures, ModelId

THOUSAND, MILLION = 1e-3, 1e-6

# Seconds; per thousand tokens; per million token pairs. 12,000 tokens/s for short prompts.
PREFILL_PRIOR = (0.010, 0.080, 0.0015)
PREFILL_TYPICAL = (1.0, 2.0, 2.0)
# Seconds; per sequence; per thousand tokens of KV cache.
DECODE_PRIOR = (0.010, 0.0001, 0.00005)
DECODE_TYPICAL = (1.0, 16.0, 30.0)
PREFILL_FLOOR_S = 0.002
DECODE_FLOOR_S = 0.0005

SAMPLES_PER_S = 50.0
"""More than this teach nothing new, and each costs two microseconds."""
RATE_PROMPT_TOKENS = 2_000
TOKEN_STEP = 0.05
ROOM_STEP = 0.1
SCALE_LEAST, SCALE_MOST = 0.05, 20.0
"""Real tokens behind an estimated one, at the least and the most: what is beyond that was not learned."""
KINDS_MAX = 1_000
"""Of what a file says; a fleet has a few."""
LONG_GAP_TRUST = 0.1
KNOWN_AFTER = 32
"""Samples of settled replicas, from which on a law rests on nothing else."""


class Kind(NamedTuple):
    """Replicas that can be expected to be equally fast."""

    model: ModelId
    engine: str
    gpu: str = ""
    """Kind and number of its GPUs as the controller names them; empty when it does not say."""


class Capacity:
    """The learned laws of one kind."""

    __slots__ = (
        "_next_decode_s",
        "_next_prefill_s",
        "_settled_decode",
        "_settled_prefill",
        "decode",
        "kind",
        "kv_tokens",
        "prefill",
        "token_scale",
    )

    def __init__(self, kind: Kind, prefill: Law | None = None, decode: Law | None = None) -> None:
        """``prefill`` and ``decode`` of settled replicas, if they are known."""
        self.kind = kind
        self.prefill, self._settled_prefill = (
            prefill or Law(PREFILL_PRIOR, PREFILL_TYPICAL, PREFILL_FLOOR_S) for _ in range(2)
        )
        """What holds now: the law of first seconds until that of settled replicas is known."""
        self.decode, self._settled_decode = (
            decode or Law(DECODE_PRIOR, DECODE_TYPICAL, DECODE_FLOOR_S) for _ in range(2)
        )
        self.kv_tokens: float | None = None
        """Prompt tokens that fit into its memory at once; None until something did not fit."""
        self.token_scale = 1.0
        """Real prompt tokens behind one estimated token."""
        self._next_prefill_s = self._next_decode_s = 0.0

    def __repr__(self) -> str:
        rate = self.prefill_tokens_per_s
        return f"<Capacity {'/'.join(self.kind)} prefill={rate:.0f}/s step={1e3 * self.step_s(1, 0):.1f} ms>"

    @classmethod
    def told(cls, figures: CapacityFigures) -> Capacity:
        """As somebody else has learned it. It can be read; learning goes on from these figures as a prior."""
        found = cls(
            Kind(figures.model, figures.engine, figures.gpu),
            Law(figures.prefill, PREFILL_TYPICAL, PREFILL_FLOOR_S),
            Law(figures.decode, DECODE_TYPICAL, DECODE_FLOOR_S),
        )
        found.kv_tokens = figures.kv_tokens
        return found

    @property
    def figures(self) -> CapacityFigures | None:
        """To be told to others; None while nothing has been learned."""
        prefill, decode = self.prefill, self.decode
        if not prefill.samples and not decode.samples:
            return None
        return CapacityFigures(
            *self.kind,
            (prefill.k0, prefill.k1, prefill.k2),
            (decode.k0, decode.k1, decode.k2),
            prefill.samples,
            decode.samples,
            self.kv_tokens,
        )

    @property
    def prefill_tokens_per_s(self) -> float:
        """For a prompt of 2,000 tokens with nothing cached and nothing ahead of it."""
        return RATE_PROMPT_TOKENS / self.prefill_s(RATE_PROMPT_TOKENS, 0)

    def prefill_s(self, new: float, cached: float) -> float:
        """From the prompt's turn to its first token, on a replica that does nothing else."""
        law = self.prefill
        return law.k0 + law.k1 * THOUSAND * new + law.k2 * MILLION * new * (cached + 0.5 * new)

    def step_s(self, sequences: float, kv_tokens: float) -> float:
        """One decode step of such a batch."""
        law = self.decode
        return law.k0 + law.k1 * sequences + law.k2 * THOUSAND * kv_tokens

    def drag_s(self, sequences: float, kv_tokens: float) -> float:
        """What a batch adds to a step, beyond a step with nothing in it."""
        law = self.decode
        return law.k1 * sequences + law.k2 * THOUSAND * kv_tokens

    @property
    def is_known(self) -> bool:
        """How long prompts take has been learned from settled replicas."""
        return self.prefill is self._settled_prefill

    def learn_prefill(
        self, now_s: float, prompts: int, new: float, area: float, took_s: float, *, settled: bool = True
    ) -> None:
        """So many prompts in a row took so long, without what decoding added to their steps."""
        if now_s < self._next_prefill_s or (self.is_known and not settled):
            return
        self._next_prefill_s = now_s + 1.0 / SAMPLES_PER_S
        law = self._settled_prefill if settled else self.prefill
        law.add(prompts, THOUSAND * new, MILLION * area, took_s)
        if settled and law.samples >= KNOWN_AFTER:
            self.prefill = law

    def learn_decode(
        self, now_s: float, sequences: float, kv_tokens: float, gap_s: float, *, settled: bool = True
    ) -> None:
        """A request's mean gap between tokens, and what was in the batch beside it.

        ``gap_s`` is without the prompts that are known to have been computed in its steps. Those of other gateways make it
        longer, never shorter: one above what was expected says little, one below it says that a step can be so short.
        """
        if now_s < self._next_decode_s or (self.decode is self._settled_decode and not settled):
            return
        self._next_decode_s = now_s + 1.0 / SAMPLES_PER_S
        law = self._settled_decode if settled else self.decode
        is_long = gap_s > law.at(1.0, sequences, THOUSAND * kv_tokens)
        law.add(1.0, sequences, THOUSAND * kv_tokens, gap_s, LONG_GAP_TRUST if is_long else 1.0)
        if settled and law.samples >= KNOWN_AFTER:
            self.decode = law

    def learn_room(self, tokens: float, *, was_short: bool) -> None:
        """So many tokens were in memory when a prompt began; ``was_short``: it had to wait for that."""
        known = self.kv_tokens
        if was_short:
            self.kv_tokens = tokens if known is None else known + ROOM_STEP * (tokens - known)
        elif known is not None and tokens > known:
            self.kv_tokens = known + ROOM_STEP * (tokens - known)

    def learn_tokens(self, estimated: int, real: int) -> None:
        """A prompt that was estimated at so many tokens had so many."""
        if estimated > 0 and real > 0:
            ratio = real / estimated
            # A step of fixed size towards it: the median, which one strange prompt does not move.
            step = TOKEN_STEP * self.token_scale
            difference = ratio - self.token_scale
            self.token_scale += max(-step, min(step, difference))

    def remember(self) -> KnownCapacity | None:
        """What outlives this process; None while nothing has been learned."""
        first_prefill = None if self.is_known else self.prefill.remember()
        first_decode = None if self.decode is self._settled_decode else self.decode.remember()
        settled = self._settled_prefill.remember(), self._settled_decode.remember()
        if not any((first_prefill, first_decode, *settled)):
            return None
        return KnownCapacity(
            *self.kind,
            first_prefill,
            settled[0],
            first_decode,
            settled[1],
            self.kv_tokens,
            self.token_scale,
        )

    def restore(self, known: KnownCapacity) -> None:
        """Go on from there; figures that cannot be are left out."""
        self.prefill.restore(known.prefill)
        self.decode.restore(known.decode)
        self._settled_prefill.restore(known.settled_prefill)
        self._settled_decode.restore(known.settled_decode)
        if self._settled_prefill.samples >= KNOWN_AFTER:
            self.prefill = self._settled_prefill
        if self._settled_decode.samples >= KNOWN_AFTER:
            self.decode = self._settled_decode
        if known.kv_tokens is not None and known.kv_tokens >= 1.0 and is_sane(known.kv_tokens):
            self.kv_tokens = known.kv_tokens
        if SCALE_LEAST <= known.token_scale <= SCALE_MOST:
            self.token_scale = known.token_scale


class CapacityBook:
    """All kinds seen so far."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, Capacity] = {}

    def __repr__(self) -> str:
        return f"<CapacityBook kinds={len(self._kinds)}>"

    def of(self, kind: Kind) -> Capacity:
        """The model of this kind; begun from the prior when it is new."""
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = Capacity(kind)
        return found

    def remember(self) -> tuple[KnownCapacity, ...]:
        """What outlives this process."""
        known = [capacity.remember() for capacity in self.all()]
        return tuple(one for one in known if one is not None)

    def restore(self, known: Iterable[KnownCapacity]) -> None:
        """Go on from what a former process knew."""
        for one in list(known)[:KINDS_MAX]:
            self.of(Kind(one.model, one.engine, one.gpu)).restore(one)

    def all(self) -> list[Capacity]:
        """In order of kind."""
        return [self._kinds[kind] for kind in sorted(self._kinds)]
