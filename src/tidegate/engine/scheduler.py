"""Who is in the next step: vLLM's V1 scheduler (vllm-project/vllm, 2025), without time.

In each step every decoding sequence gets one token; what is left of the token budget goes first to the
one prompt that is half computed, then to waiting sequences, first come first served, while their
blocks are free. When a decoding sequence needs a block and none is free, the sequence admitted last is
preempted: its blocks are freed, it goes to the head of the queue, and its prompt and answer so far are
computed again.
"""

from __future__ import annotations

from collections import deque

from tidegate.engine.decoding import Decoding
from tidegate.engine.grouping import Grouping
from tidegate.engine.kv import BlockPool
from tidegate.engine.latency import Chunk
from tidegate.engine.sequence import Limits, Sequence


class Scheduler:
    """Owns the queue, the batch and the blocks."""

    def __init__(self, limits: Limits, grouping: Grouping | None) -> None:
        for problem in limits.problems():
            raise ValueError(problem)
        self.limits = limits
        self.grouping = grouping
        self.pool = BlockPool(limits.kv_blocks)
        self.waiting: deque[Sequence] = deque()
        self.running: dict[Sequence, None] = {}  # in order of admission
        self.partial: Sequence | None = None
        """The last of the running, while its prompt is not computed."""
        self.decoding = Decoding(limits.block_tokens)
        self.preemptions = 0
        self._block = limits.block_tokens
        self._budget = limits.max_step_tokens
        self._is_blocked = False  # the head of the queue has been tried and must wait for a change

    # ---- what the step is made of ----

    def compose(self, now_s: float) -> tuple[list[Chunk], list[Sequence], int]:
        """Preempt, continue and admit for one step, and take its blocks.

        Returns the chunks of prompts in it, the sequences whose prompts it completes, and its tokens.
        """
        decoding, pool = self.decoding, self.pool
        before = self.preemptions
        while (grow := decoding.grow_now()) > pool.free:
            self._preempt(next(reversed(self.running)))
        if grow:
            pool.take(grow)
        budget = self._budget - decoding.count
        chunks: list[Chunk] = []
        computed: list[Sequence] = []
        if self.partial:
            budget -= self._continue(self.partial, budget, chunks, computed)
        if budget and self.waiting and self.preemptions == before:
            budget -= self._admit(now_s, budget, chunks, computed)
        return chunks, computed, self._budget - budget

    def may_admit(self, now_s: float) -> bool:
        """True when the head of the queue is worth a try."""
        if not self.waiting or self._is_blocked:
            return False
        if self.grouping:
            return self.grouping.room(self.waiting, len(self.running), now_s) > 0
        return len(self.running) < self.limits.max_sequences

    def steps_alike(self) -> int:
        """Decode steps until one ends a sequence or finds too few free blocks; 0: the next one does."""
        return self.decoding.steps_within(self.pool.free, self.decoding.steps_to_end())

    def tokens_cached(self, sequence: Sequence) -> int:
        """Tokens of a running sequence in the KV cache."""
        return sequence.computed if sequence.finish_step < 0 else self.decoding.cached(sequence)

    def leave(self, sequence: Sequence) -> None:
        """Out of the batch, with its blocks."""
        tokens = self.tokens_cached(sequence)
        if sequence.finish_step >= 0:
            self.decoding.leave(sequence)
        if self.partial is sequence:
            self.partial = None
        del self.running[sequence]
        self._is_blocked = False
        self._free_blocks(sequence, tokens)

    def drop(self, sequence: Sequence) -> None:
        """Out of the batch or the queue, wherever it is."""
        if sequence in self.running:
            self.leave(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
            self._is_blocked = False

    # ---- prompts ----

    def _continue(
        self, sequence: Sequence, budget: int, chunks: list[Chunk], computed: list[Sequence]
    ) -> int:
        """The next chunk of the half-computed prompt. Returns its tokens; 0 when it had to go instead."""
        new = sequence.prompt_tokens + sequence.generated - sequence.computed
        if new > budget:
            new = budget
        blocks = self._blocks_for(sequence.computed, new)
        if blocks > self.pool.free:
            self._preempt(sequence)
            return 0
        self._compute(sequence, new, blocks, chunks, computed)
        return new

    def _admit(self, now_s: float, budget: int, chunks: list[Chunk], computed: list[Sequence]) -> int:
        """Take from the queue what fits. Returns the tokens of the budget that were used."""
        left, pool = budget, self.pool
        while left and self.may_admit(now_s):
            sequence = self.waiting[0]
            tokens = sequence.prompt_tokens + sequence.generated
            shared = self._cached_blocks(sequence, tokens) if sequence.block_hashes else ()
            cached = len(shared) * self._block
            new = min(left, tokens - cached)
            blocks = self._blocks_for(cached, new)
            must_fit = blocks
            if self.limits.reserve_prompt and new < tokens - cached:
                must_fit = self._blocks_for(cached, tokens - cached)
            if must_fit + (pool.idle(shared) if shared else 0) > pool.free:
                self._is_blocked = True
                break
            self.waiting.popleft()
            self._enter(sequence, shared, now_s)
            self._compute(sequence, new, blocks, chunks, computed)
            left -= new
        return budget - left

    def _cached_blocks(self, sequence: Sequence, tokens: int) -> tuple[int, ...]:
        """Names of the leading cached blocks. The last token is always computed: it gives the next one."""
        if not self.limits.prefix_caching:
            return ()
        names = sequence.block_hashes[: (tokens - 1) // self._block]
        return names[: self.pool.hits(names)]

    def _enter(self, sequence: Sequence, shared: tuple[int, ...], now_s: float) -> None:
        self.pool.share(shared)
        sequence.held = list(shared)
        sequence.computed = len(shared) * self._block
        if sequence.scheduled_s is None:
            sequence.scheduled_s = now_s
            sequence.cached_tokens = sequence.computed
        self.running[sequence] = None
        if self.grouping:
            self.grouping.admitted()

    def _compute(
        self, sequence: Sequence, new: int, blocks: int, chunks: list[Chunk], computed: list[Sequence]
    ) -> None:
        """Put a chunk of a prompt into this step."""
        cached = sequence.computed
        self.pool.take(blocks)
        chunks.append((new, cached))
        sequence.computed = cached + new
        if sequence.block_hashes and self.limits.prefix_caching:
            full = min(sequence.computed, sequence.prompt_tokens) // self._block
            names = sequence.block_hashes[cached // self._block : full]
            sequence.held += [name for name in names if self.pool.name(name)]
        if sequence.computed < sequence.prompt_tokens + sequence.generated:
            self.partial = sequence
        else:
            self.partial = None
            computed.append(sequence)

    def _blocks_for(self, held_tokens: int, new_tokens: int) -> int:
        return -(-(held_tokens + new_tokens) // self._block) + -held_tokens // self._block

    # ---- blocks given up ----

    def _preempt(self, sequence: Sequence) -> None:
        if sequence.finish_step >= 0:
            sequence.generated = self.decoding.steps - sequence.origin
        self.leave(sequence)
        sequence.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(sequence)

    def _free_blocks(self, sequence: Sequence, tokens: int) -> None:
        held = sequence.held
        if sequence.block_hashes and self.limits.prefix_caching:
            # Blocks that the answer has filled since; the next turn of a chat finds them.
            names = sequence.block_hashes[len(held) : tokens // self._block]
            held += [name for name in names if self.pool.name(name)]
        self.pool.give_back(-(-tokens // self._block) - len(held), held)
        sequence.held = []
