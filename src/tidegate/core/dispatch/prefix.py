"""Which replica has computed which beginning of a prompt: an index of block hashes, bounded in bytes.

A prompt's blocks come as a chain of hashes: each stands for all text up to its block's end, salted by whoever
made it, so equal hashes mean equal beginnings of one tenant's prompts. For each hash the index keeps one number: the
moment of its last use, a bit for each replica that used it in the span of time that moment is in, and a bit for
each that used it in the span before. One walk along a chain finds the longest beginning on every replica.

Every use touches the whole chain, its first block last. So in the order of use a block is never older than the
blocks behind it, and what is dropped, oldest first, are always ends of chains. A replica that does not use a block
while others do loses its bit within two spans: its own last use would be long ago, and its cache has forgotten it.

Tenants and models have shelves of their own (``shelves``), within one bound in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.dispatch.shelves import STAMP_BITS, STAMP_MASK, Shelves
from tidegate.core.types import FlowId, ModelId

STAMPS_PER_S = 8
"""Moments are kept to an eighth of a second, which lasts for seventeen years."""
SPAN_BITS = 8
"""A span is 32 seconds."""
REPLICAS_MAX = 128
"""Of one model; those beyond are not remembered."""
REPLICA_MASK = (1 << REPLICAS_MAX) - 1

Chain = tuple[int, ...]
Found = list[tuple[int, int]]
"""How many leading blocks, and the bits of the replicas that have exactly so many; longer ones last."""


def stamp_of(now_s: float) -> int:
    """The moment as it is kept."""
    return int(now_s * STAMPS_PER_S) & STAMP_MASK


@dataclass(frozen=True, slots=True)
class PrefixStats:
    """How well prompts' beginnings are foreseen, over all requests whose engine said what it had cached."""

    requests: int = 0
    prompt_tokens: int = 0
    predicted_tokens: int = 0
    """Expected to be cached where the request was sent."""
    real_tokens: int = 0
    """That the engine found in its cache."""
    index_bytes: int = 0
    index_limit_bytes: int = 0
    dropped_total: int = 0
    """Entries dropped for want of room."""
    warning: str | None = None
    """Set while next to nothing is found again."""


class PrefixIndex:
    """The index of one gateway: all models and tenants, one bound."""

    def __init__(self, limit_bytes: int) -> None:
        self._shelves = Shelves(limit_bytes)
        self._shelf = self._shelves.find

    def __repr__(self) -> str:
        return f"<PrefixIndex {self._shelves!r}>"

    @property
    def entries(self) -> int:
        """Blocks that it remembers."""
        return self._shelves.entries

    @property
    def bytes(self) -> int:
        """What it takes in memory, by its own account; never above its limit."""
        return self._shelves.bytes

    @property
    def limit_bytes(self) -> int:
        """What it may take."""
        return self._shelves.limit_bytes

    @property
    def dropped_total(self) -> int:
        """Entries dropped for want of room."""
        return self._shelves.dropped_total

    def bound(self, limit_bytes: int) -> None:
        """Another limit, from now on."""
        self._shelves.bound(limit_bytes)

    def entries_of(self, flow: FlowId) -> int:
        """How much of it is one tenant's."""
        return self._shelves.entries_of(flow)

    def walk(self, flow: FlowId, model: ModelId, chain: Chain, replicas: int) -> Found:
        """How much of the chain each of these replicas (bits) has used. Those without any are left out."""
        shelf = self._shelf(flow, model)
        if shelf is None:
            return []
        found: Found = []
        running = replicas
        depth = 0
        for block in chain:
            value = shelf.get(block)
            if value is None:
                break
            bits = value >> STAMP_BITS
            kept = (bits | bits >> REPLICAS_MAX) & running
            if kept != running:
                if depth:
                    found.append((depth, running & ~kept))
                running = kept
                if not kept:
                    break
            depth += 1
        if running and depth:
            found.append((depth, running))
        return found

    def stamp(self, flow: FlowId, model: ModelId, block: int) -> int:
        """When this block was last used; -1 when it is not in the index."""
        shelf = self._shelf(flow, model)
        value = None if shelf is None else shelf.get(block)
        return -1 if value is None else value & STAMP_MASK

    def last_use(self, flow: FlowId, model: ModelId, block: int, replica: int) -> int:
        """When this replica (its bit) last used the block, to within a span; -1 when it is not known to have."""
        shelf = self._shelf(flow, model)
        value = 0 if shelf is None else shelf.get(block, 0)
        bits = value >> STAMP_BITS
        if bits & replica:
            return value & STAMP_MASK
        if bits >> REPLICAS_MAX & replica:
            return ((value & STAMP_MASK) >> SPAN_BITS << SPAN_BITS) - 1
        return -1

    def depth_since(self, flow: FlowId, model: ModelId, chain: Chain, depth: int, horizon: int) -> int:
        """How many of the first ``depth`` blocks were used at ``horizon`` or later: use falls along a chain."""
        if not depth or self.stamp(flow, model, chain[depth - 1]) >= horizon:
            return depth
        low, high = 0, depth - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.stamp(flow, model, chain[middle - 1]) >= horizon:
                low = middle
            else:
                high = middle - 1
        return low

    def use(
        self,
        flow: FlowId,
        model: ModelId,
        chain: Chain,
        replica: int,
        stamp: int,
        births: list[tuple[int, int]],
    ) -> None:
        """A replica (its bit) uses these blocks now. One without a bit, beyond ``REPLICAS_MAX``, leaves no trace.

        ``births`` are the moments at which the replicas (their bits) began, the latest first: what was used before was
        used by a former owner of the bit.
        """
        if not replica:
            return
        shelf = self._shelf(flow, model)
        if shelf is None:
            shelf = self._shelves.open(flow, model)
        latest = births[0][0] if births else 0
        span, value, before = stamp >> SPAN_BITS, replica << STAMP_BITS | stamp, len(shelf)
        for block in reversed(chain):
            known = shelf.get(block)
            if known is None:
                shelf[block] = value
                continue
            used = known & STAMP_MASK
            bits = known >> STAMP_BITS
            if used >> SPAN_BITS == span:
                shelf[block] = (bits | replica) << STAMP_BITS | stamp
            else:
                bits &= REPLICA_MASK
                if used < latest:
                    bits = _still_true(bits, used, births)
                shelf[block] = bits << (REPLICAS_MAX + STAMP_BITS) | value
            shelf.move_to_end(block)
        if len(shelf) > before:
            self._shelves.grown(flow, len(shelf) - before)

    def forget(self, flow: FlowId, model: ModelId, chain: Chain, replica: int) -> None:
        """A replica (its bit) does not have these blocks after all."""
        shelf = self._shelf(flow, model)
        if shelf is None:
            return
        both = (replica | replica << REPLICAS_MAX) << STAMP_BITS
        for block in chain:
            value = shelf.get(block)
            if value is not None:
                shelf[block] = value & ~both


def _still_true(replicas: int, used: int, births: list[tuple[int, int]]) -> int:
    for born, replica in births:
        if used >= born:
            break
        replicas &= ~replica
    return replicas
