"""How much of the prompts is repeated, block by block, and what caches of several sizes would make of it."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.workload.figures import percentile
from tidegate.workload.traces import UNKNOWN, Trace

CAPACITIES = (1_000, 10_000, 50_000)
"""Blocks of the caches that are tried: 0.5 to 26 million tokens at 512 a block."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Prefix sharing of a whole trace, as one cache sees it that serves all of it."""

    blocks: int
    unique_blocks: int
    token_hit_ratio: float
    """Prompt tokens that a cache without limit would have had; a hit is the longest leading run."""
    requests_with_hit_ratio: float
    lru_block_hit_ratio: dict[int, float]
    """By capacity in blocks, least recently used out first."""
    reuse_gap_p50_s: float | None
    reuse_gap_p90_s: float | None
    reuse_gap_p99_s: float | None
    """Time between two uses of a block; None when none is used twice."""


def sharing(trace: Trace, capacities: Iterable[int] = CAPACITIES) -> Sharing:
    """Walks the trace's blocks once for the unlimited cache and once for each capacity."""
    prefixes = trace.prefixes
    if prefixes is None or not len(prefixes.hashes):
        raise ValueError("the trace has no prefix hashes")
    hit_tokens, requests_with_hit = _unlimited(trace)
    gaps_s = sorted(_reuse_gaps_s(trace))
    prompt_tokens = sum(tokens for tokens in trace.prompt_tokens if tokens != UNKNOWN)
    return Sharing(
        blocks=len(prefixes.hashes),
        unique_blocks=len(set(prefixes.hashes)),
        token_hit_ratio=hit_tokens / prompt_tokens if prompt_tokens else 0.0,
        requests_with_hit_ratio=requests_with_hit / len(trace),
        lru_block_hit_ratio={
            size: lru_hits(prefixes.hashes, size) / len(prefixes.hashes) for size in capacities
        },
        reuse_gap_p50_s=_percentile(gaps_s, 0.50),
        reuse_gap_p90_s=_percentile(gaps_s, 0.90),
        reuse_gap_p99_s=_percentile(gaps_s, 0.99),
    )


def lru_hits(hashes: Iterable[int], capacity: int) -> int:
    """Uses that find their block among the ``capacity`` used last."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for block in hashes:
        if block in cache:
            hits += 1
            cache.move_to_end(block)
            continue
        cache[block] = None
        if len(cache) > capacity:
            cache.popitem(last=False)
    return hits


def _unlimited(trace: Trace) -> tuple[int, int]:
    """Tokens that hit, and requests of which some did."""
    seen: set[int] = set()
    hit_tokens = requests_with_hit = 0
    for hashes, prompt_tokens in zip(trace.prefixes or (), trace.prompt_tokens, strict=True):
        run = 0
        for block in hashes:
            if block not in seen:
                break
            run += 1
        requests_with_hit += run > 0
        # The last block may be partial: a hit is never longer than the prompt.
        hit_tokens += min(run * trace.block_tokens, max(0, prompt_tokens))
        seen.update(hashes)
    return hit_tokens, requests_with_hit


def _reuse_gaps_s(trace: Trace) -> array[float]:
    """The time between each use of a block and the one before."""
    last_s: dict[int, float] = {}
    gaps_s = array("d")
    for hashes, moment_s in zip(trace.prefixes or (), trace.arrived_s, strict=True):
        for block in hashes:
            before_s = last_s.get(block)
            if before_s is not None:
                gaps_s.append(moment_s - before_s)
            last_s[block] = moment_s
    return gaps_s


def _percentile(ordered: list[float], ratio: float) -> float | None:
    return percentile(ordered, ratio) if ordered else None
