"""What of a prompt each replica can be expected to have in its cache, and what was learned when it had not.

The index says which replicas have used which blocks, and when; each replica's ``CacheLife`` says how likely a block
is still there by now. What engines report afterwards corrects both, and is counted against what was predicted.
"""

from __future__ import annotations

from tidegate.core.capacity import SAMPLES_PER_S
from tidegate.core.dispatch.prefix import Found, PrefixIndex, PrefixStats, stamp_of
from tidegate.core.dispatch.routing.hits import Hits
from tidegate.core.dispatch.routing.load import Load
from tidegate.core.dispatch.routing.visits import Recalled, Visit
from tidegate.core.events import RequestArrived
from tidegate.core.types import ModelId

CERTAIN = 0.95
LONG_S = 1.0
"""A request that took no longer has not let its blocks age meanwhile."""
BLOCKS_APART = 1.5
"""Engines' blocks and ours do not end at the same tokens: so much less than predicted is no contradiction."""


class Recall:
    """Of one model's replicas."""

    def __init__(self, index: PrefixIndex, model: ModelId) -> None:
        self._model = model
        self.bits = 0
        """Of all replicas there are."""
        self.hits = Hits()
        self.token_scale = 1.0
        """Real tokens for each estimated one."""
        self.births: list[tuple[int, int]] = []
        """Since when each replica's uses count, and its bit; the latest first."""
        self._index = index
        self._compare_s = 0.0

    def __repr__(self) -> str:
        return f"<Recall {self.hits!r} {self._index!r}>"

    def stats(self) -> PrefixStats:
        """Predicted against real, and what the index takes."""
        hits, index = self.hits, self._index
        return PrefixStats(
            requests=hits.requests,
            prompt_tokens=int(hits.prompt_tokens),
            predicted_tokens=int(hits.predicted_tokens),
            real_tokens=int(hits.real_tokens),
            index_bytes=index.bytes,
            index_limit_bytes=index.limit_bytes,
            dropped_total=index.dropped_total,
            warning=hits.warning,
        )

    def walk(self, arrived: RequestArrived) -> Found:
        """How far each replica knows the prompt's chain."""
        return self._index.walk(arrived.flow, self._model, arrived.prefix, self.bits)

    def longest(self, arrived: RequestArrived) -> float:
        """Tokens of the prompt that some replica knows."""
        found = (
            self._index.walk(arrived.flow, self._model, arrived.prefix, self.bits) if arrived.prefix else []
        )
        return self.token_scale * found[-1][0] * arrived.block_tokens if found else 0.0

    def cached(self, arrived: RequestArrived, found: Found, load: Load) -> float:
        """Real tokens of the prompt that can be expected in this replica's cache.

        A chain was used in pieces, its beginning last. The last piece counts by the chance that it is still there; what
        was used after it is taken to be there.
        """
        depth = _depth(found, load)
        if not depth:
            return 0.0
        chance, first = self._tail(arrived, depth, load)
        blocks = depth if chance >= CERTAIN else first + chance * (depth - first)
        # The last token of a prompt is always computed.
        return self.token_scale * min(blocks * arrived.block_tokens, max(0, arrived.prompt_tokens - 1))

    def use(self, arrived: RequestArrived, found: Found, load: Load, visit: Visit, now_s: float) -> None:
        """The prompt goes to this replica, which will have all of it then."""
        index, flow, chain = self._index, arrived.flow, arrived.prefix
        depth = visit.depth = _depth(found, load)
        if depth and now_s >= self._compare_s:
            self._compare_s = now_s + 1.0 / SAMPLES_PER_S
            last = chain[depth - 1]
            last_use = index.last_use(flow, self._model, last, load.bit)
            since = load.cache.since(last_use) + load.waiting_tokens
            first = self._tail(arrived, depth, load)[1]
            visit.recalled = Recalled(depth, last_use, since, first, last in load.in_use)
        index.use(flow, self._model, chain, load.bit, stamp_of(now_s), self.births)

    def let_go(self, arrived: RequestArrived, load: Load, visit: Visit, now_s: float) -> None:
        """Until now the visit's blocks were in use; engines count their age from here."""
        if now_s - visit.sent_s > LONG_S:
            self._index.use(arrived.flow, self._model, visit.chain, load.bit, stamp_of(now_s), self.births)

    def forget(self, arrived: RequestArrived, load: Load, visit: Visit) -> None:
        """The prompt was never computed there, as far as anybody knows."""
        self._index.forget(arrived.flow, self._model, arrived.prefix[visit.depth :], load.bit)

    def compare(
        self, arrived: RequestArrived, load: Load, visit: Visit, prompt: float, cached: float
    ) -> None:
        """The engine says how much it had."""
        block = arrived.block_tokens * prompt / max(1, arrived.prompt_tokens)
        self.hits.note(prompt, min(visit.cached, prompt), cached, min(visit.depth * block, prompt))
        recalled = visit.recalled
        if recalled is None or recalled.was_in_use:
            return
        first, known = recalled.first * block, min(recalled.depth * block, prompt)
        if cached >= known - BLOCKS_APART * block or known <= first:
            survived = 1.0
        else:
            survived = max(0.0, cached - first) / (known - first)
        load.cache.learn(recalled.last_use, recalled.since, survived)

    def _tail(self, arrived: RequestArrived, depth: int, load: Load) -> tuple[float, int]:
        """The chance that the last of so many blocks is still there, and how many before it were used since."""
        flow, chain = arrived.flow, arrived.prefix
        last = chain[depth - 1]
        if last in load.in_use:
            return 1.0, 0
        index, model = self._index, self._model
        chance = load.cache.chance(index.last_use(flow, model, last, load.bit), load.waiting_tokens)
        if chance >= CERTAIN:
            return chance, 0
        return chance, index.depth_since(flow, model, chain, depth, index.stamp(flow, model, last) + 1)


def _depth(found: Found, load: Load) -> int:
    """Leading blocks that this replica has used."""
    for depth, bits in found:
        if bits & load.bit:
            return depth
    return 0
