"""What of a prompt each replica can be expected to have in its cache, and what was learned when it had not.

The index says which replicas have used which blocks, and when; each replica's ``CacheLife`` says how likely a block
is still there by now. What engines report afterwards corrects both, and is counted against what was predicted.
"""

from __future__ import annotations

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.prefix import Found, PrefixIndex, PrefixStats, stamp_of
from tidegate.core.dispatch.routing.hits import Hits
from tidegate.core.dispatch.routing.load import Load
from tidegate.core.dispatch.routing.visits import Visit
from tidegate.core.events import RequestArrived
from tidegate.core.types import ModelId

CERTAIN = 0.95
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
        self._looked_up: tuple[Entry | None, Found] = (None, [])

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

    def walk(self, entry: Entry) -> Found:
        """How far each replica knows the entry's chain; remembered until the next."""
        arrived = entry.arrived
        found = self._index.walk(arrived.flow, self._model, arrived.prefix, self.bits)
        self._looked_up = (entry, found)
        return found

    def longest(self, arrived: RequestArrived) -> float:
        """Tokens of the prompt that some replica knows."""
        found = (
            self._index.walk(arrived.flow, self._model, arrived.prefix, self.bits) if arrived.prefix else []
        )
        return self.token_scale * found[-1][0] * arrived.block_tokens if found else 0.0

    def cached(self, entry: Entry, found: Found, load: Load) -> float:
        """Real tokens of the entry's prompt that can be expected in this replica's cache.

        A chain was used in pieces, its beginning last. The last piece counts by the chance that it is still there; what
        was used after it is taken to be there.
        """
        depth = _depth(found, load)
        if not depth:
            return 0.0
        chance, first = self._tail(entry, depth, load)
        blocks = depth if chance >= CERTAIN else first + chance * (depth - first)
        arrived = entry.arrived
        # The last token of a prompt is always computed.
        return self.token_scale * min(blocks * arrived.block_tokens, max(0, arrived.prompt_tokens - 1))

    def use(self, entry: Entry, load: Load, visit: Visit, now_s: float) -> None:
        """The entry goes to this replica, which will have all of its prompt then."""
        known, found = self._looked_up
        if known is not entry:
            found = self.walk(entry)
        self._looked_up = (None, [])
        arrived = entry.arrived
        depth = visit.depth = _depth(found, load)
        if depth:
            last = arrived.prefix[depth - 1]
            visit.cached = self.cached(entry, found, load)
            visit.last_use = self._index.last_use(arrived.flow, self._model, last, load.bit)
            visit.since = load.cache.since(visit.last_use) + load.waiting_tokens
            visit.was_in_use = last in load.in_use
            visit.first = self._tail(entry, depth, load)[1]
        self._index.use(arrived.flow, self._model, arrived.prefix, load.bit, stamp_of(now_s), self.births)

    def let_go(self, load: Load, visit: Visit, now_s: float) -> None:
        """Until now the visit's blocks were in use; engines count their age from here."""
        self._index.use(visit.flow, self._model, visit.chain, load.bit, stamp_of(now_s), self.births)

    def forget(self, load: Load, visit: Visit) -> None:
        """The visit's prompt was never computed there, as far as anybody knows."""
        self._index.forget(visit.flow, self._model, visit.chain[visit.depth :], load.bit)

    def compare(self, entry: Entry, load: Load, visit: Visit, prompt: float, cached: float) -> None:
        """The engine says how much it had."""
        self.hits.note(prompt, min(visit.cached, prompt), cached)
        if not visit.depth or visit.was_in_use:
            return
        arrived = entry.arrived
        block = arrived.block_tokens * prompt / max(1, arrived.prompt_tokens)
        first, known = visit.first * block, min(visit.depth * block, prompt)
        if cached >= known - BLOCKS_APART * block or known <= first:
            survived = 1.0
        else:
            survived = max(0.0, cached - first) / (known - first)
        load.cache.learn(visit.last_use, visit.since, survived)

    def _tail(self, entry: Entry, depth: int, load: Load) -> tuple[float, int]:
        """The chance that the last of so many blocks is still there, and how many before it were used since."""
        flow, chain = entry.arrived.flow, entry.arrived.prefix
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
