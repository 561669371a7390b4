"""Continuous batching, step by step and by leaps.

The rules are those of vLLM's V1 scheduler (vllm-project/vllm, 2025). In each step every decoding
sequence gets one token; what is left of the token budget goes first to the one prompt that is half
computed, then to waiting sequences, first come first served, while their blocks are free. When a
decoding sequence needs a block and none is free, the sequence admitted last is preempted: its blocks
are freed, it goes to the head of the queue, and its prompt and answer so far are computed again.

Between two changes of the batch nothing happens but that each sequence grows by a token a step, and a
leap over a thousand such steps costs the same as one (``decoding.py``).

Time: ``now_s`` is the start of the next step. A step that has begun cannot be changed; who arrives
during it waits for its end.
"""

from __future__ import annotations

from collections import deque

from tidegate.engine.decoding import Decoding
from tidegate.engine.grouping import Grouping
from tidegate.engine.kv import BlockPool
from tidegate.engine.latency import Chunk, StepLaw
from tidegate.engine.sequence import Limits, Progress, Sequence


class Engine:
    """One engine. Owns all sequences between ``add`` and their end."""

    def __init__(self, limits: Limits, law: StepLaw, grouping: Grouping | None = None) -> None:
        for problem in limits.problems():
            raise ValueError(problem)
        self.limits = limits
        self.law = law
        """May be replaced at any time; the next step obeys the new one."""
        self.now_s = 0.0
        self.step_tokens = 0
        """Tokens computed in all steps so far, prompts and answers."""
        self.output_tokens = 0
        """Tokens of answers in all steps so far."""
        self.busy_s = 0.0
        """Time spent in steps so far."""
        self.preemptions = 0
        self.pool = BlockPool(limits.kv_blocks, caching=limits.prefix_caching)
        self._block = limits.block_tokens
        self._grouping = grouping
        self._waiting: deque[Sequence] = deque()
        self._running: dict[Sequence, None] = {}  # in order of admission
        self._partial: Sequence | None = None  # the last of the running, while its prompt is not computed
        self._is_blocked = False  # the head of the queue has been tried and must wait for a change
        self._decoding = Decoding(limits.block_tokens)
        self._started: list[Sequence] = []  # not told yet
        self._ended: list[Sequence] = []

    # ---- what goes in ----

    def add(self, sequence: Sequence, now_s: float) -> None:
        """Queue a sequence. Steps that begin before ``now_s`` are not affected by it.

        Raises:
            ValueError: it would not fit even into an empty cache.
        """
        needed = -(-(sequence.prompt_tokens + sequence.output_tokens - 1) // self._block)
        if needed > self.pool.total:
            message = f"{sequence.key} needs {needed} blocks; the cache has {self.pool.total}"
            raise ValueError(message)
        self._run(now_s, step_at_limit=False)
        if self.now_s < now_s:
            self.now_s = now_s  # it was idle
        sequence.queued_s = now_s
        self._waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Drop a sequence and free its blocks before the next step; nothing is told of it any more.

        One whose end has been told, or that was never added, is ignored.
        """
        if sequence in self._running:
            self._leave(sequence)
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
            self._is_blocked = False
        for untold in (self._started, self._ended):
            if sequence in untold:
                untold.remove(sequence)
                sequence.finished_s = None

    # ---- what comes out ----

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Sequences in the queue."""
        return len(self._waiting)

    @property
    def steps(self) -> int:
        """Steps begun so far."""
        return self._decoding.steps

    @property
    def wake_s(self) -> float | None:
        """Nothing is to be seen before this moment unless something is added or aborted; None: never."""
        if self._started or self._ended or self._partial or self._may_admit():
            return self.now_s
        decoding = self._decoding
        if decoding.count:
            steps = self._steps_alike()
            return self.now_s + (
                self.law.decode_s(decoding.count, decoding.kv_tokens, steps) if steps else 0.0
            )
        return self._grouping.opens_s(self._waiting) if self._grouping else None

    def tokens_out(self, sequence: Sequence, now_s: float) -> int:
        """Tokens of the answer that are out by ``now_s``, which is not before the last ``advance``."""
        in_flight = self.now_s > now_s
        if sequence.finished_s is not None:
            return sequence.output_tokens - (sequence.finished_s > now_s)
        if sequence.finish_step < 0:
            return sequence.generated
        return self._decoding.steps - sequence.origin - in_flight

    def blocks_held(self) -> list[int]:
        """The blocks that each sequence in the batch uses, shared ones counted for each."""
        return [-(-self._tokens_cached(sequence) // self._block) for sequence in self._running]

    def advance(self, now_s: float) -> Progress:
        """Run until ``now_s`` by leaps and tell what has happened by then and was not told before."""
        self._run(now_s, step_at_limit=True)
        started, ended = self._started, self._ended
        self._started, self._ended = [], []
        if self.now_s > now_s:  # what the step in flight brings is told later
            while started and _moment(started[-1].first_token_s) > now_s:
                self._started.insert(0, started.pop())
            while ended and _moment(ended[-1].finished_s) > now_s:
                self._ended.insert(0, ended.pop())
        return Progress(started, ended)

    def step(self) -> Progress:
        """Run one step, whatever it is, and tell what it brought. Empty when there is nothing to do."""
        if self._partial or self._decoding.count or self._may_admit():
            self._step()
        told = Progress(self._started, self._ended)
        self._started, self._ended = [], []
        return told

    # ---- the course of time ----

    def _run(self, limit_s: float, *, step_at_limit: bool) -> None:
        """Take all steps that begin before ``limit_s``; a leap ends there, any other step may begin there.

        So ``wake_s`` is never the moment of a step that nobody needs to see.
        """
        while self.now_s < limit_s or (step_at_limit and self.now_s == limit_s):
            if self._partial or (self._waiting and self._may_admit()):
                self._step()
            elif self._decoding.count:
                if not self._leap(limit_s):
                    return
            elif self._grouping and (opens_s := self._grouping.opens_s(self._waiting)) is not None:
                if opens_s > limit_s:
                    return
                self.now_s = max(self.now_s, opens_s)
            else:
                return

    def _leap(self, limit_s: float) -> bool:
        """As many steps at once as are alike and begin before the limit; False when there is none."""
        steps = self._steps_alike()
        if not steps:
            self._step()  # it begins with a preemption
            return True
        if self.now_s >= limit_s:
            return False
        law, decoding = self.law, self._decoding
        took_s = law.decode_s(decoding.count, decoding.kv_tokens, steps)
        if self.now_s + took_s > limit_s and steps > 1:
            enough = law.decode_steps(decoding.count, decoding.kv_tokens, limit_s - self.now_s)
            if enough < steps:
                steps = enough
                took_s = law.decode_s(decoding.count, decoding.kv_tokens, steps)
        self.pool.take(decoding.grow_in(steps))
        self._pass(steps, took_s, steps * decoding.count)
        return True

    def _steps_alike(self) -> int:
        """Decode steps until one ends a sequence or finds too few free blocks; 0: the next one does."""
        decoding = self._decoding
        return decoding.steps_within(self.pool.free, decoding.steps_to_end())

    def _pass(self, steps: int, took_s: float, tokens: int) -> None:
        """The clock and the sums move on; who has all its tokens ends."""
        decoding = self._decoding
        self.now_s += took_s
        self.busy_s += took_s
        self.step_tokens += tokens
        self.output_tokens += steps * decoding.count
        for sequence in decoding.pass_steps(steps):
            self._finish(sequence)

    # ---- one step ----

    def _step(self) -> None:
        decoding, pool = self._decoding, self.pool
        preempted = False
        while (grow := decoding.grow_now()) > pool.free:
            self._preempt(next(reversed(self._running)))
            preempted = True
        pool.take(grow)
        count, kv_tokens = decoding.count, decoding.kv_tokens
        budget = self.limits.max_step_tokens - count
        chunks: list[Chunk] = []
        computed: list[Sequence] = []
        if self._partial:
            new = self._continue(self._partial, budget, chunks, computed)
            budget -= new
            preempted = preempted or not new
        if budget and self._waiting and not preempted:
            budget -= self._admit(budget, chunks, computed)
        if chunks or count:
            took_s = self.law.mixed_s(count, kv_tokens, chunks)
            self._pass(1, took_s, self.limits.max_step_tokens - budget)
            for sequence in computed:
                self._begin_decoding(sequence)

    def _continue(
        self, sequence: Sequence, budget: int, chunks: list[Chunk], computed: list[Sequence]
    ) -> int:
        """The next chunk of the half-computed prompt. Returns its tokens; 0 when it had to go instead."""
        new = min(budget, sequence.prompt_tokens + sequence.generated - sequence.computed)
        blocks = self._blocks_for(sequence.computed, new)
        if blocks > self.pool.free:
            self._preempt(sequence)
            return 0
        self._compute(sequence, new, blocks, chunks, computed)
        return new

    def _admit(self, budget: int, chunks: list[Chunk], computed: list[Sequence]) -> int:
        """Take from the queue what fits. Returns the tokens of the budget that were used."""
        left, pool = budget, self.pool
        while left and self._may_admit():
            sequence = self._waiting[0]
            tokens = sequence.prompt_tokens + sequence.generated
            shared = self._cached_blocks(sequence, tokens) if sequence.block_hashes else ()
            cached = len(shared) * self._block
            new = min(left, tokens - cached)
            blocks = self._blocks_for(cached, new)
            must_fit = self._blocks_for(cached, tokens - cached) if self.limits.reserve_prompt else blocks
            if must_fit + (pool.idle(shared) if shared else 0) > pool.free:
                self._is_blocked = True
                break
            self._waiting.popleft()
            self._enter(sequence, shared)
            self._compute(sequence, new, blocks, chunks, computed)
            left -= new
        return budget - left

    def _may_admit(self) -> bool:
        if not self._waiting or self._is_blocked:
            return False
        if self._grouping:
            return self._grouping.room(self._waiting, len(self._running), self.now_s) > 0
        return len(self._running) < self.limits.max_sequences

    def _cached_blocks(self, sequence: Sequence, tokens: int) -> tuple[int, ...]:
        """Names of the leading cached blocks. The last token is always computed: it gives the next one."""
        if not self.limits.prefix_caching:
            return ()
        names = sequence.block_hashes[: (tokens - 1) // self._block]
        return names[: self.pool.hits(names)]

    def _enter(self, sequence: Sequence, shared: tuple[int, ...]) -> None:
        self.pool.share(shared)
        sequence.held = list(shared)
        sequence.computed = len(shared) * self._block
        if sequence.scheduled_s is None:
            sequence.scheduled_s = self.now_s
            sequence.cached_tokens = sequence.computed
        self._running[sequence] = None
        if self._grouping:
            self._grouping.admitted()

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
            self._partial = sequence
        else:
            self._partial = None
            computed.append(sequence)

    def _blocks_for(self, held_tokens: int, new_tokens: int) -> int:
        return -(-(held_tokens + new_tokens) // self._block) + -held_tokens // self._block

    # ---- the life of a sequence ----

    def _begin_decoding(self, sequence: Sequence) -> None:
        """Its prompt is computed, and that gave it the next token."""
        if sequence.first_token_s is None:
            sequence.first_token_s = self.now_s
            self._started.append(sequence)
        self.output_tokens += 1
        self._decoding.enter(sequence)
        if sequence.finish_step == self._decoding.steps:
            self._finish(sequence)

    def _finish(self, sequence: Sequence) -> None:
        sequence.finished_s = self.now_s
        self._ended.append(sequence)
        self._leave(sequence)

    def _preempt(self, sequence: Sequence) -> None:
        if sequence.finish_step >= 0:
            sequence.generated = self._decoding.steps - sequence.origin
        self._leave(sequence)
        sequence.preemptions += 1
        self.preemptions += 1
        self._waiting.appendleft(sequence)

    def _tokens_cached(self, sequence: Sequence) -> int:
        return sequence.computed if sequence.finish_step < 0 else self._decoding.cached(sequence)

    def _leave(self, sequence: Sequence) -> None:
        """Out of the batch, with its blocks."""
        decodes = sequence.finish_step >= 0
        tokens = self._decoding.leave(sequence) if decodes else sequence.computed
        if self._partial is sequence:
            self._partial = None
        del self._running[sequence]
        self._is_blocked = False
        self._free_blocks(sequence, tokens)

    def _free_blocks(self, sequence: Sequence, tokens: int) -> None:
        held = sequence.held
        if sequence.block_hashes and self.limits.prefix_caching:
            # Blocks that the answer has filled since; the next turn of a chat finds them.
            names = sequence.block_hashes[len(held) : tokens // self._block]
            held += [name for name in names if self.pool.name(name)]
        self.pool.give_back(-(-tokens // self._block) - len(held), held)
        sequence.held = []

    def __repr__(self) -> str:
        return (
            f"<Engine at {self.now_s:.3f} s: {self.running} running, {self.waiting} waiting,"
            f" {self.pool.free} of {self.pool.total} blocks free>"
        )


def _moment(at_s: float | None) -> float:
    assert at_s is not None
    return at_s
